#include "server/inference/tensor_planes.h"

#include <string.h>

void convoy_tensor_to_planes(float *values, uint32_t count, size_t channels, size_t pixels, float *row)
{
    size_t elements = channels * pixels;

    for (uint32_t i = 0; i < count && channels > 1; i++, values += elements) {
        memcpy(row, values, elements * sizeof *row);
        for (size_t channel = 0; channel < channels; channel++)
            for (size_t pixel = 0; pixel < pixels; pixel++)
                values[channel * pixels + pixel] = row[pixel * channels + channel];
    }
}
