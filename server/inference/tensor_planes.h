/* Images of floats from H x W x C, as a network may declare its input, to the C x H x W of slots. */
#ifndef CONVOY_SERVER_TENSOR_PLANES_H
#define CONVOY_SERVER_TENSOR_PLANES_H

#include <stddef.h>
#include <stdint.h>

/* Turns the rows of pixels x channels values that lie at values, count of them, into rows of channels x
 * pixels. row: memory for one row. Any thread. */
void convoy_tensor_to_planes(float *values, uint32_t count, size_t channels, size_t pixels, float *row);

#endif
