#include "engine/cpu/rows.h"

#include <string.h>

static void normalise_planar(const struct convoy_cpu_image *image, const uint8_t *row, float *to)
{
    for (int64_t c = 0; c < image->channels; c++) {
        float multiply = image->multiply[c];
        float add = image->add[c];
        for (int64_t p = 0; p < image->pixels; p++)
            to[p] = (float)row[p * image->channels + c] * multiply + add;
        to += image->pixels;
    }
}

static void normalise_interleaved(const struct convoy_cpu_image *image, const uint8_t *row, float *to)
{
    for (int64_t p = 0; p < image->pixels; p++)
        for (int64_t c = 0; c < image->channels; c++)
            *to++ = (float)*row++ * image->multiply[c] + image->add[c];
}

static void interleave(const struct convoy_cpu_image *image, const float *row, float *to)
{
    for (int64_t p = 0; p < image->pixels; p++)
        for (int64_t c = 0; c < image->channels; c++)
            *to++ = row[c * image->pixels + p];
}

void convoy_cpu_read_rows(const struct convoy_cpu_image *image, enum convoy_input_layout layout,
                          const void *rows, size_t stride, int64_t count, bool interleaved, float *to)
{
    int64_t elements = image->channels * image->pixels;
    const char *row = rows;
    for (int64_t i = 0; i < count; i++, row += stride, to += elements) {
        if (layout == CONVOY_LAYOUT_U8_HWC && interleaved)
            normalise_interleaved(image, (const uint8_t *)row, to);
        else if (layout == CONVOY_LAYOUT_U8_HWC)
            normalise_planar(image, (const uint8_t *)row, to);
        else if (interleaved)
            interleave(image, (const float *)(const void *)row, to);
        else
            memcpy(to, row, (size_t)elements * sizeof(*to));
    }
}

bool convoy_cpu_row_has_nan(const struct convoy_cpu_image *image, const float *row)
{
    int64_t elements = image->channels * image->pixels;
    int found = 0;
    for (int64_t i = 0; i < elements; i++) /* without a branch, so that the compiler makes vectors of it */
        found |= row[i] != row[i];
    return found != 0;
}

void convoy_cpu_write_rows(const struct convoy_cpu_output *output, const float *from, int64_t count,
                           float *to, size_t stride)
{
    for (int64_t i = 0; i < count; i++) {
        float *row = (float *)(void *)((char *)to + (size_t)i * stride);
        for (int64_t o = 0; o < output->outer; o++) {
            int64_t index = output->shared ? o : o * count + i;
            memcpy(row + o * output->chunk, from + index * output->chunk,
                   (size_t)output->chunk * sizeof(*to));
        }
    }
}
