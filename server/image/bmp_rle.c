#include "server/image/bmp_rle.h"

#include <errno.h>
#include <string.h>

/* After a first byte of 0; from 3 on it is a number of pixels that follow as they are. */
enum { END_OF_LINE, END_OF_BITMAP, DELTA };

/* How many of count pixels still fit into the row. */
static int fitting(const struct convoy_bmp_rle *rle, int count)
{
    int room = rle->width - rle->x;
    return count < room ? count : room;
}

static void advance(struct convoy_bmp_rle *rle, int count)
{
    rle->x = rle->width - rle->x > count ? rle->x + count : rle->width;
}

static void put_run(struct convoy_bmp_rle *rle, int count, uint8_t value, uint8_t *indices)
{
    int n = fitting(rle, count);
    if (rle->bits == 8)
        memset(indices + rle->x, value, (size_t)n);
    else
        for (int i = 0; i < n; i++)
            indices[rle->x + i] = i % 2 == 0 ? value >> 4 : value & 15;
    advance(rle, count);
}

/* count pixels as they are, filled up to an even number of bytes. */
static int put_pixels(struct convoy_bmp_rle *rle, int count, uint8_t *indices)
{
    const uint8_t *from = rle->bytes + rle->at;
    size_t used = rle->bits == 8 ? (size_t)count : ((size_t)count + 1) / 2;
    size_t left = rle->length - rle->at;
    int n = fitting(rle, count);
    if (left < used)
        return -ENODATA;
    if (rle->bits == 8)
        memcpy(indices + rle->x, from, (size_t)n);
    else
        for (int i = 0; i < n; i++)
            indices[rle->x + i] = i % 2 == 0 ? from[i / 2] >> 4 : from[i / 2] & 15;
    advance(rle, count);
    used += used % 2;
    rle->at += used < left ? used : left;
    return 0;
}

/* True when rows are skipped, which ends this one. */
static bool skip(struct convoy_bmp_rle *rle)
{
    uint32_t rows = rle->bytes[rle->at + 1];
    advance(rle, rle->bytes[rle->at]);
    rle->at += 2;
    rle->passed = rows > 0 ? rows - 1 : 0;
    return rows > 0;
}

int convoy_bmp_rle_row(struct convoy_bmp_rle *rle, uint8_t *indices, bool last)
{
    memset(indices, 0, (size_t)rle->width);
    if (rle->passed > 0) {
        rle->passed--;
        return 0;
    }
    while (!rle->ended) {
        if (rle->length - rle->at < 2)
            return last && rle->x == rle->width ? 0 : -ENODATA;
        uint8_t first = rle->bytes[rle->at], second = rle->bytes[rle->at + 1];
        rle->at += 2;
        if (first > 0) {
            put_run(rle, first, second, indices);
        } else if (second == END_OF_LINE) {
            rle->x = 0;
            return 0;
        } else if (second == END_OF_BITMAP) {
            rle->ended = true;
        } else if (second == DELTA) {
            if (rle->length - rle->at < 2)
                return -ENODATA;
            if (skip(rle))
                return 0;
        } else if (put_pixels(rle, second, indices) != 0) {
            return -ENODATA;
        }
    }
    return 0;
}
