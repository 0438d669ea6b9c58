#include "server/image/scratch.h"

#include <stdlib.h>

/* A decoding thread keeps at most this much a buffer between images: 1.4 megapixels of RGB. Larger images are
 * rare and take milliseconds to decode, next to which a fresh mapping costs little. */
#define KEPT_BYTES ((size_t)4 << 20)

void *convoy_image_buffer_reserve(struct convoy_image_buffer *buffer, size_t a, size_t b, size_t c)
{
    size_t needed;
    if (__builtin_mul_overflow(a, b, &needed) || __builtin_mul_overflow(needed, c, &needed))
        return NULL;
    if (buffer->bytes != NULL && needed <= buffer->capacity)
        return buffer->bytes;
    /* Not realloc: the old content is of no use, so it is not copied. */
    free(buffer->bytes);
    buffer->capacity = 0;
    buffer->bytes = malloc(needed > 0 ? needed : 1);
    if (buffer->bytes != NULL)
        buffer->capacity = needed;
    return buffer->bytes;
}

static void trim(struct convoy_image_buffer *buffer, size_t kept)
{
    if (buffer->capacity <= kept)
        return;
    free(buffer->bytes);
    buffer->bytes = NULL;
    buffer->capacity = 0;
}

static void trim_all(struct convoy_image_scratch *scratch, size_t kept)
{
    trim(&scratch->pixels, kept);
    trim(&scratch->inner, kept);
    trim(&scratch->line, kept);
    trim(&scratch->staging, kept);
    trim(&scratch->packed, kept);
    trim(&scratch->middle, kept);
    trim(&scratch->weights, kept);
    trim(&scratch->windows, kept);
    trim(&scratch->sums, kept);
    trim(&scratch->batch, kept);
    trim(&scratch->spans, kept);
    trim(&scratch->span_weights, kept);
    trim(&scratch->row, kept);
}

void convoy_image_scratch_trim(struct convoy_image_scratch *scratch)
{
    trim_all(scratch, KEPT_BYTES);
}

void convoy_image_scratch_clear(struct convoy_image_scratch *scratch)
{
    trim_all(scratch, 0);
}
