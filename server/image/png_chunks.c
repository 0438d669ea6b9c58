#include "server/image/png_chunks.h"

#include "server/image/exif.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define SIGNATURE_BYTES 8
#define HEADER_BYTES    8 /* length and type */
#define CRC_BYTES       4

/* Bytes of the whole chunk whose header is at header: at most 2^32 + 11, so no sum of it with an offset into
 * a file in memory overflows. */
static size_t chunk_bytes(const uint8_t *header)
{
    size_t data = (size_t)header[0] << 24 | (size_t)header[1] << 16 | (size_t)header[2] << 8 | header[3];
    return HEADER_BYTES + data + CRC_BYTES;
}

static bool is_type(const uint8_t *header, const char *type)
{
    return memcmp(header + 4, type, 4) == 0;
}

/* A critical chunk has a capital first letter (PNG, section 5.4). Unknown critical ones are for libspng to
 * refuse.
 */
static bool carries_pixels(const uint8_t *header)
{
    return (header[4] & 0x20) == 0 || is_type(header, "tRNS");
}

void convoy_png_stream_init(struct convoy_png_stream *stream, const uint8_t *bytes, size_t length)
{
    stream->bytes = bytes;
    stream->length = length;
    stream->at = 0;
    stream->ends = SIGNATURE_BYTES < length ? SIGNATURE_BYTES : length;
}

/* At a chunk boundary: moves to the next chunk that counts. A file that ends within a header or a chunk gives
 * what it has. */
static void next_chunk(struct convoy_png_stream *stream)
{
    while (stream->length - stream->at >= HEADER_BYTES) {
        const uint8_t *header = stream->bytes + stream->at;
        size_t left = stream->length - stream->at;
        size_t whole = chunk_bytes(header);
        size_t there = whole < left ? whole : left;
        if (carries_pixels(header)) {
            stream->ends = stream->at + there;
            return;
        }
        stream->at += there;
    }
    stream->at = stream->length;
    stream->ends = stream->length;
}

int convoy_png_stream_read(struct convoy_png_stream *stream, void *to, size_t size)
{
    uint8_t *out = to;
    while (size > 0) {
        if (stream->at == stream->ends)
            next_chunk(stream);
        size_t part = stream->ends - stream->at;
        if (part == 0)
            return -EIO;
        if (part > size)
            part = size;
        memcpy(out, stream->bytes + stream->at, part);
        stream->at += part;
        out += part;
        size -= part;
    }
    return 0;
}

int convoy_png_orientation(const uint8_t *bytes, size_t length)
{
    size_t at = SIGNATURE_BYTES;
    while (at < length && length - at >= HEADER_BYTES) {
        const uint8_t *header = bytes + at;
        size_t whole = chunk_bytes(header);
        if (whole > length - at || is_type(header, "IEND"))
            return 1;
        if (is_type(header, "eXIf"))
            return convoy_exif_orientation(header + HEADER_BYTES, whole - HEADER_BYTES - CRC_BYTES);
        at += whole;
    }
    return 1;
}
