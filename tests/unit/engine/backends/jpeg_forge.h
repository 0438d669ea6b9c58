/* JPEG files of any kind, whole and damaged, for tests. Header only. */
#ifndef CONVOY_TESTS_JPEG_FORGE_H
#define CONVOY_TESTS_JPEG_FORGE_H

#include <criterion/criterion.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

struct file {
    unsigned char *bytes;
    unsigned long length;
    int width, height, components;
};

/* What a file is encoded like. */
struct encoding {
    int width, height;
    bool grey;
    int half_x, half_y; /* chroma */
    int quality, restart;
    const char *comment;
};

static inline struct file encode(const struct encoding *how)
{
    struct file file = {.width = how->width, .height = how->height, .components = how->grey ? 1 : 3};
    struct jpeg_compress_struct encoder;
    struct jpeg_error_mgr errors;
    encoder.err = jpeg_std_error(&errors);
    jpeg_create_compress(&encoder);
    jpeg_mem_dest(&encoder, &file.bytes, &file.length);
    encoder.image_width = (JDIMENSION)how->width;
    encoder.image_height = (JDIMENSION)how->height;
    encoder.input_components = file.components;
    encoder.in_color_space = how->grey ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(&encoder);
    jpeg_set_quality(&encoder, how->quality > 0 ? how->quality : 90, TRUE);
    encoder.comp_info[0].h_samp_factor = how->half_x + 1;
    encoder.comp_info[0].v_samp_factor = how->half_y + 1;
    encoder.restart_interval = (unsigned)how->restart;
    jpeg_start_compress(&encoder, TRUE);
    if (how->comment != NULL)
        jpeg_write_marker(&encoder, JPEG_COM, (const JOCTET *)how->comment, (unsigned)strlen(how->comment));
    uint8_t *line = malloc((size_t)how->width * 3);
    cr_assert(line != NULL);
    static int seed;
    seed = (seed + 37) % 101;
    while (encoder.next_scanline < encoder.image_height) {
        int y = (int)encoder.next_scanline;
        for (int x = 0; x < how->width; x++)
            for (int c = 0; c < file.components; c++)
                line[x * file.components + c] =
                    (uint8_t)(128 + 80 * sin(0.05 * (x + seed) * (c + 1)) + 40 * cos(0.07 * y * (3 - c)) +
                              ((x / 9 + y / 7) % 2 != 0 ? 7 : -7));
        JSAMPROW row = line;
        jpeg_write_scanlines(&encoder, &row, 1);
    }
    jpeg_finish_compress(&encoder);
    jpeg_destroy_compress(&encoder);
    free(line);
    return file;
}

static inline struct file usual(void)
{
    return encode(&(struct encoding){.width = 40, .height = 30, .half_x = 1, .half_y = 1});
}

/* Where a marker is, from the start. */
static inline size_t marker_at(const struct file *file, int code)
{
    size_t at = 2;
    while (file->bytes[at + 1] != code) {
        at += 2 + ((size_t)file->bytes[at + 2] << 8 | file->bytes[at + 3]);
        cr_assert(at + 4 < file->length && file->bytes[at] == 0xff, "there is no marker %x", code);
    }
    return at;
}

/* The same with `count` bytes in place of `removed` ones. */
static inline struct file with_bytes(struct file file, size_t at, size_t removed, const void *bytes,
                                     size_t count)
{
    struct file changed = file;
    changed.bytes = malloc(file.length + count);
    cr_assert(changed.bytes != NULL);
    memcpy(changed.bytes, file.bytes, at);
    memcpy(changed.bytes + at, bytes, count);
    memcpy(changed.bytes + at + count, file.bytes + at + removed, file.length - at - removed);
    changed.length = file.length + count - removed;
    free(file.bytes);
    return changed;
}

static inline struct file with_byte(struct file file, size_t at, int byte)
{
    file.bytes[at] = (uint8_t)byte;
    return file;
}

enum damage {
    EMPTY,
    NO_START,
    NO_END,
    CUT_DATA, /* what is there of the data ends in an end marker */
    CUT_HEADER,
    NO_QUANTIZERS,
    NO_CODES,
    TOO_MANY_CODES,
    TWO_FRAMES,
    ANOTHER_FRAME, /* a larger one */
    PROGRESSIVE,
    TWELVE_BITS,
    TWO_COMPONENTS,
    SAME_COMPONENT,
    SAMPLING, /* that the engines do not know */
    RGB,
    SECOND_SCAN,
    WRONG_RESTART,
    LONG_SEGMENT,
    REFUSED,
    FAILS,
    OTHER_SIZE, /* in the eyes of the library */
    SKIPPED,    /* by the library, which says nothing */
    HALF,
    DAMAGES
};

static inline struct file damaged(enum damage damage)
{
    struct file file = usual();
    size_t frame = marker_at(&file, 0xc0), scan = marker_at(&file, 0xda);
    switch (damage) {
    case EMPTY:
        file.length = 1;
        break;
    case NO_START:
        return with_byte(file, 1, 0xd9);
    case NO_END:
        file.length -= 2;
        break;
    case CUT_DATA:
        return with_bytes(file, scan + 20, file.length - scan - 22, "", 0);
    case CUT_HEADER:
        file.length = scan + 6;
        break;
    case NO_QUANTIZERS:
        return with_byte(file, marker_at(&file, 0xdb) + 1, 0xfe);
    case NO_CODES:
        return with_byte(file, marker_at(&file, 0xc4) + 1, 0xfe);
    case TOO_MANY_CODES: { /* three codes of one bit, of as many in all */
        uint8_t *counts = file.bytes + marker_at(&file, 0xc4) + 5, *most = counts;
        for (int i = 1; i < 16; i++)
            most = counts[i] > *most ? counts + i : most;
        *most -= 3;
        counts[0] += 3;
        break;
    }
    case TWO_FRAMES:
    case ANOTHER_FRAME: {
        uint8_t again[19];
        memcpy(again, file.bytes + frame, sizeof(again));
        again[5] = damage == ANOTHER_FRAME ? 100 : again[5];
        return with_bytes(file, damage == ANOTHER_FRAME ? frame + 19 : frame, 0, again, sizeof(again));
    }
    case PROGRESSIVE:
        return with_byte(file, frame + 1, 0xc2);
    case TWELVE_BITS:
        return with_byte(file, frame + 4, 12);
    case TWO_COMPONENTS:
        return with_byte(file, frame + 9, 2);
    case SAME_COMPONENT:
        return with_byte(file, frame + 13, file.bytes[frame + 10]);
    case SAMPLING:
        return with_byte(file, frame + 11, 0x41);
    case RGB: /* says Adobe */
        return with_bytes(file, 2, 18,
                          "\xff\xee\0\x0e"
                          "Adobe\0\x64\0\0\0\0\0",
                          16);
    case SECOND_SCAN: {
        uint8_t again[14];
        memcpy(again, file.bytes + scan, sizeof(again));
        return with_bytes(file, file.length - 2, 0, again, sizeof(again));
    }
    case WRONG_RESTART:
        return with_bytes(file, file.length - 2, 0, "\xff\xd3", 2);
    case LONG_SEGMENT:
        return with_byte(file, marker_at(&file, 0xdb) + 2, 0xff);
    case REFUSED:
    case FAILS:
    case OTHER_SIZE:
    case SKIPPED:
    case HALF: {
        static const char *const asked[] = {"nvjpeg:refuse", "nvjpeg:fail", "nvjpeg:size", "nvjpeg:skip",
                                            "nvjpeg:half"};
        free(file.bytes);
        return encode(&(struct encoding){.width = 40, .height = 30, .comment = asked[damage - REFUSED]});
    }
    default:
        break;
    }
    return file;
}

#endif
