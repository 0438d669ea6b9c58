#include "server/image/jpeg.h"

#include "server/image/exif.h"

#include <errno.h>

#include <jerror.h>

/* Every scan of a progressive image visits every block, though it may hold next to no bytes. Encoders write
 * about 10 scans, the most thorough optimisers a few dozen. */
#define MAX_SCANS 100

/* jpeg_mem_src() keeps the whole file at next_input_byte, so an Exif segment is read where it lies. */
static boolean read_app1(j_decompress_ptr decoder)
{
    struct convoy_jpeg *jpeg = decoder->client_data;
    struct jpeg_source_mgr *source = decoder->src;
    if (source->bytes_in_buffer < 2)
        convoy_jpeg_truncated((j_common_ptr)decoder);
    const uint8_t *segment = source->next_input_byte;
    size_t length = (size_t)segment[0] << 8 | segment[1];
    if (length < 2)
        ERREXIT(decoder, JERR_BAD_LENGTH);
    if (length > source->bytes_in_buffer)
        convoy_jpeg_truncated((j_common_ptr)decoder);
    if (jpeg->orientation == 0 && convoy_exif_is_app1(segment + 2, length - 2))
        jpeg->orientation = convoy_exif_orientation(segment + 8, length - 8);
    source->next_input_byte += length;
    source->bytes_in_buffer -= length;
    return TRUE;
}

static void count_scans(j_common_ptr decoder)
{
    if (((j_decompress_ptr)decoder)->input_scan_number > MAX_SCANS)
        convoy_jpeg_give_up(decoder, "it has more scans than any encoder writes");
}

int convoy_jpeg_open(struct convoy_jpeg *jpeg, const uint8_t *bytes, size_t length,
                     struct convoy_stored_image *stored, struct convoy_error *error)
{
    struct jpeg_decompress_struct *decoder = &jpeg->decoder;
    jpeg->orientation = 0;
    jpeg->progress = (struct jpeg_progress_mgr){.progress_monitor = count_scans};
    decoder->err = convoy_jpeg_errors_init(&jpeg->errors);
    decoder->mem = NULL; /* jpeg_destroy() looks here when creating has failed */
    if (setjmp(jpeg->errors.jump) != 0) {
        int code = convoy_jpeg_failure((j_common_ptr)decoder, error);
        jpeg_destroy_decompress(decoder);
        return code;
    }
    jpeg_create_decompress(decoder);
    decoder->client_data = jpeg;
    decoder->progress = &jpeg->progress;
    jpeg_set_marker_processor(decoder, JPEG_APP0 + 1, read_app1);
    jpeg_mem_src(decoder, bytes, length);
    jpeg_read_header(decoder, TRUE);

    stored->width = (int)decoder->image_width;
    stored->height = (int)decoder->image_height;
    stored->orientation = jpeg->orientation == 0 ? 1 : jpeg->orientation;
    if (decoder->num_components == 1) {
        decoder->out_color_space = JCS_GRAYSCALE;
        stored->pixel = CONVOY_PIXEL_GREY;
    } else if (decoder->num_components == 4) {
        decoder->out_color_space = JCS_CMYK;
        stored->pixel = CONVOY_PIXEL_CMYK;
    } else {
        decoder->out_color_space = JCS_RGB;
        stored->pixel = CONVOY_PIXEL_RGB;
    }
    return 0;
}

/* Scans of the other components may be there while one has none; libjpeg then shows zeros for it. */
static bool lacks_a_component(const struct jpeg_decompress_struct *decoder)
{
    for (int i = 0; i < decoder->num_components; i++)
        if (decoder->comp_info[i].quant_table == NULL)
            return true;
    return false;
}

int convoy_jpeg_read(struct convoy_jpeg *jpeg, const struct convoy_raster *raster, struct convoy_error *error)
{
    struct jpeg_decompress_struct *decoder = &jpeg->decoder;
    if (setjmp(jpeg->errors.jump) != 0)
        return convoy_jpeg_failure((j_common_ptr)decoder, error);
    /* With one Huffman scan, missing blocks are told by JWRN_HIT_MARKER, so a missing EOI does no harm. With
     * more, whole scans may be missing; the arithmetic decoder makes up what is missing without a word. */
    jpeg->errors.end_is_fine = !jpeg_has_multiple_scans(decoder) && !decoder->arith_code;
    jpeg_start_decompress(decoder);
    if (lacks_a_component(decoder))
        return convoy_fail(error, -EBADMSG,
                           "the JPEG image has no data for one of its components: send the whole file");
    while (decoder->output_scanline < decoder->output_height) {
        int y = (int)decoder->output_scanline;
        JSAMPROW line = convoy_raster_line(raster, y);
        jpeg_read_scanlines(decoder, &line, 1);
        convoy_raster_place(raster, y);
    }
    return 0;
}

void convoy_jpeg_close(struct convoy_jpeg *jpeg)
{
    jpeg_destroy_decompress(&jpeg->decoder);
}
