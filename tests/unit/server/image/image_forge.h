/* Making images that no encoder at hand makes: PNG checksums, unusual JPEGs, cuts. For the image tests. */
#ifndef CONVOY_TESTS_UNIT_IMAGE_FORGE_H
#define CONVOY_TESTS_UNIT_IMAGE_FORGE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

struct forged {
    uint8_t *bytes; /* from malloc */
    size_t length;
};

/* CRC-32 as in PNG, annex D. */
static inline uint32_t forge_crc(const uint8_t *bytes, size_t length)
{
    uint32_t crc = 0xFFFFFFFFu;
    for (size_t i = 0; i < length; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
    }
    return ~crc;
}

static inline uint32_t forge_get32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static inline void forge_put32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> (24 - 8 * i));
}

/* Makes the checksum of every whole chunk right again, so that damage reaches what lies behind the check. */
static inline void forge_mend_png(uint8_t *bytes, size_t length)
{
    size_t at = 8;
    while (at + 12 <= length) {
        size_t data = forge_get32(bytes + at);
        if (data > length - at - 12)
            return;
        forge_put32(bytes + at + 8 + data, forge_crc(bytes + at + 4, data + 4));
        at += 12 + data;
    }
}

/* A whole PNG of 8-bit grey whose header claims width x height and whose pixels are missing. */
static inline struct forged forge_png_header(uint32_t width, uint32_t height)
{
    static const uint8_t head[] = "\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR........\x08\0\0\0\0cccc"
                                  "\0\0\0\0IDATcccc\0\0\0\0IENDcccc";
    struct forged png = {malloc(sizeof head - 1), sizeof head - 1};
    memcpy(png.bytes, head, png.length);
    forge_put32(png.bytes + 16, width);
    forge_put32(png.bytes + 20, height);
    forge_mend_png(png.bytes, png.length);
    return png;
}

/* Where marker 0xFF code starts, at or after from; SIZE_MAX where there is none. Entropy-coded data cannot
 * hold one by accident, the segments of the samples do not. */
static inline size_t forge_find(const uint8_t *bytes, size_t length, size_t from, uint8_t code)
{
    for (size_t i = from; i + 1 < length; i++)
        if (bytes[i] == 0xFF && bytes[i + 1] == code)
            return i;
    return SIZE_MAX;
}

/* A 48 x 32 RGB JPEG of a gradient; separate writes a scan for each component. */
static inline struct forged forge_jpeg(bool arithmetic, bool separate)
{
    static const jpeg_scan_info scans[] = {
        {1, {0}, 0, 63, 0, 0}, {1, {1}, 0, 63, 0, 0}, {1, {2}, 0, 63, 0, 0}};
    struct jpeg_compress_struct encoder;
    struct jpeg_error_mgr errors;
    unsigned char *bytes = NULL;
    unsigned long length = 0;
    encoder.err = jpeg_std_error(&errors);
    jpeg_create_compress(&encoder);
    jpeg_mem_dest(&encoder, &bytes, &length);
    encoder.image_width = 48;
    encoder.image_height = 32;
    encoder.input_components = 3;
    encoder.in_color_space = JCS_RGB;
    jpeg_set_defaults(&encoder);
    encoder.arith_code = arithmetic;
    if (separate) {
        encoder.scan_info = scans;
        encoder.num_scans = 3;
    }
    jpeg_start_compress(&encoder, TRUE);
    while (encoder.next_scanline < encoder.image_height) {
        uint8_t line[48 * 3];
        for (unsigned i = 0; i < sizeof line; i++)
            line[i] = (uint8_t)(i * 37 + encoder.next_scanline * encoder.next_scanline * 11);
        JSAMPROW row = line;
        jpeg_write_scanlines(&encoder, &row, 1);
    }
    jpeg_finish_compress(&encoder);
    jpeg_destroy_compress(&encoder);
    return (struct forged){bytes, length};
}

#endif
