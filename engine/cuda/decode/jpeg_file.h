/* What a JPEG file is made of, read before it is given to a device: the engines decode what a file's segments
 * say, so this says whether they say one thing only, and what. Pure functions; any thread. */
#ifndef CONVOY_ENGINE_CUDA_JPEG_FILE_H
#define CONVOY_ENGINE_CUDA_JPEG_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct convoy_jpeg_file {
    size_t length; /* of the file up to its end marker */
    uint32_t width, height;
    uint32_t components;     /* 1: grey; 3: YCbCr */
    uint32_t half_x, half_y; /* 1: chroma is stored at half the size along that axis */
};

/* Reads bytes from the first marker to the last. True if it is a file as the engines take it: baseline,
 * 8 bits, Huffman-coded, one frame and one scan of all its components, which are grey, or YCbCr of 4:4:4,
 * 4:2:2, 4:4:0 or 4:2:0; all tables that it names are there and can be codes; between start of scan and end
 * of image there is nothing but entropy-coded data and restart markers in their order. */
bool convoy_jpeg_file_read(const uint8_t *bytes, size_t length, struct convoy_jpeg_file *file);

#endif
