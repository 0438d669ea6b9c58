#include "client/data/png.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define CHUNK_FRAME 12 /* length, type and check sum */

static uint8_t *put_u32(uint8_t *at, uint32_t value)
{
    for (int shift = 24; shift >= 0; shift -= 8)
        *at++ = (uint8_t)(value >> shift);
    return at;
}

/* The chunk's data must already be at at + 8. */
static uint8_t *put_chunk(uint8_t *at, const char type[4], uint32_t length)
{
    put_u32(at, length);
    memcpy(at + 4, type, 4);
    return put_u32(at + 8 + length, (uint32_t)crc32(0, at + 4, length + 4));
}

int client_png_encode(const uint8_t *pixels, uint32_t width, uint32_t height, uint8_t **png, size_t *size)
{
    static const uint8_t signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
    size_t raw_size = ((size_t)width + 1) * height;
    uLongf packed = compressBound(raw_size);
    uint8_t *raw = malloc(raw_size);
    uint8_t *made = malloc(sizeof signature + 13 + packed + 3 * (size_t)CHUNK_FRAME);
    if (!raw || !made)
        goto no_memory;
    /* Each row begins with its filter type: none. */
    for (size_t y = 0; y < height; y++) {
        raw[y * (width + 1)] = 0;
        memcpy(raw + y * (width + 1) + 1, pixels + y * width, width);
    }
    memcpy(made, signature, sizeof signature);
    uint8_t *at = made + sizeof signature, *data = at + 8;
    data = put_u32(put_u32(data, width), height);
    data[0] = 8; /* bits, then grey, deflate, adaptive filters, not interlaced */
    memset(data + 1, 0, 4);
    at = put_chunk(at, "IHDR", 13);
    if (compress2(at + 8, &packed, raw, raw_size, 1) != Z_OK)
        goto no_memory;
    at = put_chunk(at, "IDAT", (uint32_t)packed);
    at = put_chunk(at, "IEND", 0);
    free(raw);
    *png = made;
    *size = (size_t)(at - made);
    return 0;
no_memory:
    free(raw);
    free(made);
    return -ENOMEM;
}
