#include "server/inference/sample.h"

#include "engine/base/clock.h"
#include "server/http/response.h"
#include "server/http/status.h"
#include "server/image/image.h"
#include "server/image/interleave.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* What a thread needs to decode; freed when the thread ends. */
struct place {
    struct convoy_image_scratch *scratch;
    uint8_t *memory; /* the row begins CONVOY_IMAGE_ROW_OFFSET behind */
    size_t row_capacity;
};

static pthread_key_t place_key;
static pthread_once_t place_once = PTHREAD_ONCE_INIT;

static void free_place(void *context)
{
    struct place *place = context;

    convoy_image_scratch_free(place->scratch);
    free(place->memory);
    free(place);
}

static void make_place_key(void)
{
    /* Without a key every image would be told that memory is out; the limit of 1024 keys is far away. */
    if (pthread_key_create(&place_key, free_place) != 0)
        abort();
}

/* The calling thread's place with room for a row; NULL when memory is out. */
static struct place *place_for(size_t row_bytes)
{
    pthread_once(&place_once, make_place_key);
    struct place *place = pthread_getspecific(place_key);
    if (place == NULL) {
        place = calloc(1, sizeof *place);
        if (place == NULL || pthread_setspecific(place_key, place) != 0) {
            free(place);
            return NULL;
        }
    }
    if (place->scratch == NULL)
        place->scratch = convoy_image_scratch_new();
    if (place->row_capacity < row_bytes) {
        free(place->memory);
        place->memory = malloc(row_bytes + CONVOY_IMAGE_ROW_OFFSET);
        place->row_capacity = place->memory == NULL ? 0 : row_bytes;
    }
    return place->scratch != NULL && place->row_capacity >= row_bytes ? place : NULL;
}

void convoy_sample_fail(struct convoy_sample *sample, int status, const char *sentence)
{
    sample->status = status;
    sample->error = strdup(sentence);
}

void convoy_sample_gone(struct convoy_sample *sample)
{
    convoy_sample_fail(sample, CONVOY_HTTP_CLIENT_GONE, CONVOY_CLIENT_GONE_SENTENCE);
}

void convoy_sample_late(struct convoy_sample *sample)
{
    convoy_sample_fail(
        sample, CONVOY_HTTP_SERVICE_UNAVAILABLE,
        "the deadline passed before the image could be decoded: try again later, or allow more with "
        "timeout_ms");
}

static int status_of_decoding(int code)
{
    switch (code) {
    case -ENODATA:
        return CONVOY_HTTP_BAD_REQUEST;
    case -ENOTSUP:
        return CONVOY_HTTP_UNSUPPORTED_MEDIA_TYPE;
    case -EFBIG:
        return CONVOY_HTTP_CONTENT_TOO_LARGE;
    case -EBADMSG:
        return CONVOY_HTTP_UNPROCESSABLE_CONTENT;
    default:
        return CONVOY_HTTP_INTERNAL_SERVER_ERROR;
    }
}

/* What an image is to become, in the words of its room. */
static struct convoy_image_target target_of(const struct convoy_sample_input *input)
{
    static const enum convoy_image_fit fits[] = {[CONVOY_RESIZE_STRETCH] = CONVOY_FIT_STRETCH,
                                                 [CONVOY_RESIZE_CROP] = CONVOY_FIT_CROP,
                                                 [CONVOY_RESIZE_PAD] = CONVOY_FIT_PAD};
    static const enum convoy_image_filter filters[] = {
        [CONVOY_INTERPOLATION_BILINEAR] = CONVOY_FILTER_BILINEAR,
        [CONVOY_INTERPOLATION_BICUBIC] = CONVOY_FILTER_BICUBIC,
        [CONVOY_INTERPOLATION_LANCZOS] = CONVOY_FILTER_LANCZOS,
        [CONVOY_INTERPOLATION_NEAREST] = CONVOY_FILTER_NEAREST};
    static const enum convoy_scaled_decoding scaled[] = {[CONVOY_SCALING_OFF] = CONVOY_SCALED_OFF,
                                                         [CONVOY_SCALING_AUTO] = CONVOY_SCALED_AUTO,
                                                         [CONVOY_SCALING_ALWAYS] = CONVOY_SCALED_ALWAYS};
    const struct convoy_resizing *resizing = input->resizing;
    struct convoy_image_target target = {
        .width = (int)input->shape->width,
        .height = (int)input->shape->height,
        .channels = (int)input->shape->channels,
        .fit = fits[resizing->resize],
        .deadline_us = input->deadline_us,
        .filter = filters[resizing->interpolation],
        .cover_width = (int)resizing->cover_width,
        .cover_height = (int)resizing->cover_height,
        .bgr = resizing->bgr,
        .cuts_down = resizing->cuts_down,
        .scaled_decoding = scaled[input->scaling],
    };
    memcpy(target.color, resizing->pad_color, sizeof target.color);
    return target;
}

/* A file, into room, or the thread's scratch where that is NULL. */
static const uint8_t *decode(const struct convoy_sample_input *input, struct convoy_sample *sample,
                             size_t row_bytes, uint64_t max_pixels, uint8_t *room)
{
    const struct convoy_image_target target = target_of(input);
    struct place *place = place_for(room == NULL ? row_bytes : 0);
    struct convoy_error error;

    if (place == NULL) {
        convoy_sample_fail(sample, CONVOY_HTTP_INTERNAL_SERVER_ERROR,
                           "the server is out of memory: try again later");
        return NULL;
    }
    uint64_t begun_us = convoy_now_us();
    if (begun_us >= input->deadline_us) {
        convoy_sample_late(sample);
        return NULL;
    }
    uint8_t *row = room != NULL ? room : place->memory + CONVOY_IMAGE_ROW_OFFSET;
    int code = convoy_image_to_row(place->scratch, sample->part.bytes, sample->part.length, max_pixels,
                                   &target, row, &error);
    sample->decode_us = convoy_now_us() - begun_us;
    if (code == -EFBIG && max_pixels < input->max_pixels)
        return NULL;
    if (code == -ETIMEDOUT) {
        convoy_sample_late(sample);
        return NULL;
    }
    if (code != 0) {
        convoy_sample_fail(sample, status_of_decoding(code), error.message);
        return NULL;
    }
    return row;
}

/* Planes to pixels, in the thread's scratch. */
static const uint8_t *interleave(const struct convoy_model_shape *shape, struct convoy_sample *sample,
                                 size_t row_bytes)
{
    struct place *place = place_for(row_bytes);

    if (place == NULL) {
        convoy_sample_fail(sample, CONVOY_HTTP_INTERNAL_SERVER_ERROR,
                           "the server is out of memory: try again later");
        return NULL;
    }
    convoy_image_interleave(sample->part.bytes, shape->channels, (size_t)shape->height * shape->width,
                            place->memory + CONVOY_IMAGE_ROW_OFFSET);
    return place->memory + CONVOY_IMAGE_ROW_OFFSET;
}

const void *convoy_sample_bytes(const struct convoy_sample_input *input, struct convoy_sample *sample,
                                uint64_t max_pixels, uint8_t *room, size_t *length)
{
    const struct convoy_model_shape *shape = input->shape;
    size_t elements = (size_t)shape->channels * shape->height * shape->width;

    *length = elements;
    switch (input->layout) {
    case CONVOY_LAYOUT_ENCODED:
        return decode(input, sample, elements, max_pixels, room);
    case CONVOY_LAYOUT_U8_CHW:
        return interleave(shape, sample, elements);
    case CONVOY_LAYOUT_F32_CHW:
        *length = elements * sizeof(float);
        break;
    case CONVOY_LAYOUT_U8_HWC:
    case CONVOY_LAYOUT_JPEG: /* a slot's, no client's */
        break;
    }
    return sample->part.bytes;
}

/* An image's header is looked for in so many of its bytes: others, of parts that are to be passed over, would
 * keep an HTTP thread busy for longer than a millisecond. */
#define HEADER_BYTES (512u * 1024)
/* About, where it is not there: photographs have fewer. */
#define USUAL_PIXELS_A_BYTE 4

/* Few pixels may take much memory: see convoy_sample_has_tables(). */
static struct convoy_sample_size size_of(uint64_t pixels, uint64_t memory)
{
    bool counts =
        pixels > CONVOY_DECODE_SMALL || memory > (uint64_t)CONVOY_DECODE_SMALL * CONVOY_DECODE_BYTES;
    return (struct convoy_sample_size){.pixels = pixels, .memory = counts ? memory : 0};
}

bool convoy_sample_read_file(const struct convoy_sample *sample, struct convoy_jpeg_header *file)
{
    const struct convoy_part *part = &sample->part;
    return part->length <= CONVOY_SAMPLE_FILE_MOST && convoy_jpeg_is_plain(part->bytes, part->length, file);
}

/* With the header of a file that a device may decode, and that has no more than max_pixels. */
static struct convoy_sample_size with_file(struct convoy_sample_size size, const struct convoy_sample *sample)
{
    if (size.pixels == 0 || !convoy_sample_read_file(sample, &size.file))
        size.file.components = 0;
    return size;
}

struct convoy_sample_size convoy_sample_measure(enum convoy_input_layout layout,
                                                const struct convoy_sample *sample, uint64_t max_pixels)
{
    const struct convoy_part *part = &sample->part;
    struct convoy_image_info info;

    if (sample->measured)
        return sample->size;
    if (layout != CONVOY_LAYOUT_ENCODED)
        return size_of(0, 0);
    bool whole = part->length <= HEADER_BYTES;
    if (convoy_image_probe(part->bytes, whole ? part->length : HEADER_BYTES, max_pixels, &info, NULL) == 0)
        return with_file(size_of((uint64_t)info.width * (uint64_t)info.height, info.decode_bytes), sample);
    if (whole)
        return size_of(0, 0);
    /* The image may be as large as is allowed, so that much memory is set aside for it. */
    uint64_t usual = USUAL_PIXELS_A_BYTE * (uint64_t)part->length;
    return (struct convoy_sample_size){.pixels = usual < max_pixels ? usual : max_pixels,
                                       .memory = CONVOY_DECODE_BYTES * max_pixels};
}

bool convoy_sample_has_tables(enum convoy_input_layout layout, const struct convoy_sample *sample,
                              uint64_t max_pixels)
{
    const struct convoy_part *part = &sample->part;
    return layout == CONVOY_LAYOUT_ENCODED &&
           convoy_image_sniff(part->bytes, part->length) == CONVOY_IMAGE_WEBP &&
           convoy_sample_measure(layout, sample, max_pixels).memory > 0;
}

bool convoy_sample_box(const struct convoy_sample_input *input, const struct convoy_sample *sample,
                       struct convoy_image_box *box)
{
    const struct convoy_image_target target = target_of(input);
    struct convoy_image_info info;

    if (convoy_image_probe(sample->part.bytes, sample->part.length, input->max_pixels, &info, NULL) != 0)
        return false;
    convoy_image_coverage(&target, info.width, info.height, box);
    return true;
}
