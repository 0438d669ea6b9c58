#include "server/inference/row_source.h"

#include "engine/base/clock.h"
#include "server/image/image.h"
#include "server/image/interleave.h"

#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* What a thread needs to decode; freed when the thread ends. */
struct place {
    struct convoy_image_scratch *scratch;
    uint8_t *row;
    size_t row_capacity;
};

static pthread_key_t place_key;
static pthread_once_t place_once = PTHREAD_ONCE_INIT;

static void free_place(void *context)
{
    struct place *place = context;

    convoy_image_scratch_free(place->scratch);
    free(place->row);
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
        free(place->row);
        place->row = malloc(row_bytes);
        place->row_capacity = place->row == NULL ? 0 : row_bytes;
    }
    return place->scratch != NULL && place->row_capacity >= row_bytes ? place : NULL;
}

void convoy_row_fail(struct convoy_row *row, int status, const char *sentence)
{
    row->status = status;
    row->error = strdup(sentence);
}

static int status_of_decoding(int code)
{
    switch (code) {
    case -ENODATA:
        return MHD_HTTP_BAD_REQUEST;
    case -ENOTSUP:
        return MHD_HTTP_UNSUPPORTED_MEDIA_TYPE;
    case -EFBIG:
        return MHD_HTTP_CONTENT_TOO_LARGE;
    case -EBADMSG:
        return MHD_HTTP_UNPROCESSABLE_CONTENT;
    default:
        return MHD_HTTP_INTERNAL_SERVER_ERROR;
    }
}

/* A file, into the thread's scratch. */
static const uint8_t *decode(const struct convoy_rows *rows, struct convoy_row *row, size_t row_bytes,
                             uint64_t max_pixels)
{
    const struct convoy_model_shape *shape = &rows->view.shape;
    const struct convoy_image_target target = {
        .width = (int)shape->width,
        .height = (int)shape->height,
        .channels = (int)shape->channels,
        .fit = rows->view.crop ? CONVOY_FIT_CROP : CONVOY_FIT_STRETCH,
    };
    struct place *place = place_for(row_bytes);
    struct convoy_error error;
    uint64_t begun_us = convoy_now_us();

    if (place == NULL) {
        convoy_row_fail(row, MHD_HTTP_INTERNAL_SERVER_ERROR, "the server is out of memory: try again later");
        return NULL;
    }
    if (begun_us >= rows->deadline_us) {
        convoy_row_fail(
            row, MHD_HTTP_SERVICE_UNAVAILABLE,
            "the deadline passed before the image could be decoded: try again later, or allow more with "
            "timeout_ms");
        return NULL;
    }
    int code = convoy_image_to_row(place->scratch, row->part.bytes, row->part.length, max_pixels, &target,
                                   place->row, &error);
    row->decode_us = convoy_now_us() - begun_us;
    if (code == -EFBIG && max_pixels < rows->pipeline->max_pixels)
        return NULL;
    if (code != 0) {
        convoy_row_fail(row, status_of_decoding(code), error.message);
        return NULL;
    }
    return place->row;
}

/* Planes to pixels, in the thread's scratch. */
static const uint8_t *interleave(const struct convoy_model_shape *shape, struct convoy_row *row,
                                 size_t row_bytes)
{
    struct place *place = place_for(row_bytes);

    if (place == NULL) {
        convoy_row_fail(row, MHD_HTTP_INTERNAL_SERVER_ERROR, "the server is out of memory: try again later");
        return NULL;
    }
    convoy_image_interleave(row->part.bytes, shape->channels, (size_t)shape->height * shape->width,
                            place->row);
    return place->row;
}

/* The same, right into the slot. */
static void write_interleaved(const struct convoy_item *item, uint8_t *target)
{
    const struct convoy_rows *rows = item->context;
    const struct convoy_model_shape *shape = &rows->view.shape;

    convoy_image_interleave(item->source, shape->channels, (size_t)shape->height * shape->width, target);
}

void convoy_row_from_part(struct convoy_item *item, const struct convoy_row *row)
{
    const struct convoy_rows *rows = item->context;

    item->source = row->part.bytes;
    item->source_bytes = row->part.length;
    item->source_stays = true; /* rows have the body, and live until their last item is done */
    item->write = rows->source == CONVOY_ROW_U8_CHW ? write_interleaved : NULL;
}

enum convoy_input_layout convoy_row_layout(enum convoy_row_source source)
{
    return source == CONVOY_ROW_F32_CHW ? CONVOY_LAYOUT_F32_CHW : CONVOY_LAYOUT_U8_HWC;
}

const void *convoy_row_bytes(const struct convoy_rows *rows, struct convoy_row *row, uint64_t max_pixels,
                             size_t *length)
{
    const struct convoy_model_shape *shape = &rows->view.shape;
    size_t elements = (size_t)shape->channels * shape->height * shape->width;

    *length = elements;
    switch (rows->source) {
    case CONVOY_ROW_ENCODED:
        return decode(rows, row, elements, max_pixels);
    case CONVOY_ROW_U8_CHW:
        return interleave(shape, row, elements);
    case CONVOY_ROW_F32_CHW:
        *length = elements * sizeof(float);
        break;
    case CONVOY_ROW_U8_HWC:
        break;
    }
    return row->part.bytes;
}

uint64_t convoy_row_pixels(const struct convoy_rows *rows, const struct convoy_row *row)
{
    const struct convoy_part *part = &row->part;
    struct convoy_image_info info;

    if (rows->source != CONVOY_ROW_ENCODED ||
        convoy_image_probe(part->bytes, part->length, rows->pipeline->max_pixels, &info, NULL) != 0)
        return 0;
    return (uint64_t)info.width * (uint64_t)info.height;
}
