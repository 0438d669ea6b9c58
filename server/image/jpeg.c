#include "server/image/jpeg.h"

#include "engine/base/clock.h"
#include "server/image/exif.h"
#include "server/image/fit.h"

#include <errno.h>

#include <jerror.h>

/* Every scan of a progressive image visits every block, though it may hold next to no bytes. Encoders write
 * about 10 scans, the most thorough optimisers a few dozen. */
#define MAX_SCANS 100

/* Columns that are decoded beside those that are read. libjpeg makes the colours of a pixel from those of its
 * neighbours, two columns of the picture away, and takes the border of what it decodes for the picture's. */
#define MARGIN 8
/* Fewer columns are not worth leaving out. */
#define LEAST_LEFT_OUT 16

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

/* libjpeg calls this for each row of blocks that it reads and each line that it writes, in each scan. Reading
 * the clock each time took 2 % of the front's processor time for images of 32 x 32; 16 lines of the largest
 * images take less than a millisecond. */
static void on_progress(j_common_ptr decoder)
{
    struct convoy_jpeg *jpeg = decoder->client_data;
    if (((j_decompress_ptr)decoder)->input_scan_number > MAX_SCANS)
        convoy_jpeg_give_up(decoder, "it has more scans than any encoder writes");
    if (jpeg->deadline_us != 0 && ++jpeg->steps % 16 == 0 && convoy_now_us() >= jpeg->deadline_us)
        convoy_jpeg_give_up_late(decoder);
}

int convoy_jpeg_open(struct convoy_jpeg *jpeg, const uint8_t *bytes, size_t length,
                     struct convoy_stored_image *stored, struct convoy_error *error)
{
    struct jpeg_decompress_struct *decoder = &jpeg->decoder;
    jpeg->orientation = 0;
    jpeg->deadline_us = 0;
    jpeg->steps = 0;
    jpeg->progress = (struct jpeg_progress_mgr){.progress_monitor = on_progress};
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

int convoy_jpeg_check(const struct convoy_jpeg *jpeg, size_t length, struct convoy_error *error)
{
    const struct jpeg_decompress_struct *decoder = &jpeg->decoder;
    uint64_t blocks = 0;
    if (decoder->arith_code)
        return convoy_fail(
            error, -EBADMSG,
            "the JPEG image cannot be decoded (it is arithmetic-coded, which no browser shows): encode "
            "it again and send that");
    for (int i = 0; i < decoder->num_components; i++)
        blocks += (uint64_t)decoder->comp_info[i].width_in_blocks * decoder->comp_info[i].height_in_blocks;
    if (blocks / 8 > length)
        return convoy_fail(error, -EBADMSG, "the JPEG image ends before its last pixel: send the whole file");
    return 0;
}

void convoy_jpeg_reduce(struct convoy_jpeg *jpeg, int eighths, struct convoy_stored_image *stored)
{
    jpeg->decoder.scale_num = (unsigned)eighths;
    jpeg->decoder.scale_denom = 8;
    stored->width = (int)convoy_reduced(stored->width, eighths);
    stored->height = (int)convoy_reduced(stored->height, eighths);
}

/* Scans of the other components may be there while one has none; libjpeg then shows zeros for it. */
static bool lacks_a_component(const struct jpeg_decompress_struct *decoder)
{
    for (int i = 0; i < decoder->num_components; i++)
        if (decoder->comp_info[i].quant_table == NULL)
            return true;
    return false;
}

/* Decoded in a part of its size, a component may come in more samples than the part has for it, and still in
 * fewer than the luma. Of such columns libjpeg-turbo 2.1.5 makes half when others are left out, and reads the
 * rest unwritten. */
static bool upsamples_a_part(const struct jpeg_decompress_struct *decoder)
{
    bool part = decoder->min_DCT_scaled_size != DCTSIZE, upsamples = false;
    for (int i = 0; i < decoder->num_components; i++) {
        const jpeg_component_info *component = &decoder->comp_info[i];
        int across = component->h_samp_factor * component->DCT_scaled_size;
        int down = component->v_samp_factor * component->DCT_scaled_size;
        upsamples = upsamples || across < decoder->max_h_samp_factor * decoder->min_DCT_scaled_size ||
                    down < decoder->max_v_samp_factor * decoder->min_DCT_scaled_size;
    }
    return part && upsamples;
}

/* Leaves out columns that are not read: their codes are read, but no samples are made of them, which is a
 * fifth of the work or more. Returns the first column that is decoded. A picture of several scans is decoded
 * whole: libjpeg may smooth what the last ones would have told, across blocks. */
static int leave_out_columns(struct jpeg_decompress_struct *decoder, const struct convoy_raster *raster)
{
    int left, columns, whole = (int)decoder->output_width;
    convoy_raster_columns(raster, &left, &columns);
    int right = left + columns + MARGIN;
    left = left > MARGIN ? left - MARGIN : 0;
    right = right < whole ? right : whole;
    if (whole - (right - left) < LEAST_LEFT_OUT || jpeg_has_multiple_scans(decoder) ||
        upsamples_a_part(decoder))
        return 0;
    JDIMENSION first = (JDIMENSION)left, width = (JDIMENSION)(right - left);
    jpeg_crop_scanline(decoder, &first, &width);
    return (int)first;
}

static void read_lines(struct jpeg_decompress_struct *decoder, const struct convoy_raster *raster)
{
    size_t before = (size_t)leave_out_columns(decoder, raster) * (size_t)decoder->output_components;
    while (decoder->output_scanline < decoder->output_height) {
        int y = (int)decoder->output_scanline;
        JSAMPROW line = convoy_raster_line(raster, y) + before;
        jpeg_read_scanlines(decoder, &line, 1);
        convoy_raster_place(raster, y);
    }
}

int convoy_jpeg_read(struct convoy_jpeg *jpeg, const struct convoy_raster *raster, uint64_t deadline_us,
                     struct convoy_error *error)
{
    struct jpeg_decompress_struct *decoder = &jpeg->decoder;
    jpeg->deadline_us = deadline_us;
    if (setjmp(jpeg->errors.jump) != 0)
        return convoy_jpeg_failure((j_common_ptr)decoder, error);
    /* With one scan, missing blocks are told by JWRN_HIT_MARKER, so a missing EOI does no harm. With more,
     * whole scans may be missing. */
    jpeg->errors.end_is_fine = !jpeg_has_multiple_scans(decoder);
    jpeg_start_decompress(decoder);
    if (lacks_a_component(decoder))
        return convoy_fail(error, -EBADMSG,
                           "the JPEG image has no data for one of its components: send the whole file");
    read_lines(decoder, raster);
    return 0;
}

void convoy_jpeg_close(struct convoy_jpeg *jpeg)
{
    jpeg_destroy_decompress(&jpeg->decoder);
}
