#include "engine/cuda/decode/jpeg_file.h"

#include <string.h>

enum {
    SOF0 = 0xc0,
    DHT = 0xc4,
    RST0 = 0xd0,
    SOI = 0xd8,
    EOI = 0xd9,
    SOS = 0xda,
    DQT = 0xdb,
    DRI = 0xdd,
    APP0 = 0xe0,
    APP14 = 0xee,
    COM = 0xfe
};

struct component {
    uint8_t id, sampling_x, sampling_y, quantizer;
};

struct reader {
    const uint8_t *bytes;
    size_t length, at;
    struct convoy_jpeg_file *file;
    struct component components[3];
    unsigned quantizers, dc_tables, ac_tables; /* a bit for each that was defined */
    bool jfif, adobe;
    uint8_t transform; /* Adobe's */
};

static unsigned two_bytes(const uint8_t *at)
{
    return (unsigned)at[0] << 8 | at[1];
}

static bool read_quantizers(struct reader *reader, const uint8_t *segment, size_t length)
{
    while (length > 0) {
        /* 8-bit entries, as baseline has them. */
        if (segment[0] > 3 || length < 65)
            return false;
        reader->quantizers |= 1u << segment[0];
        segment += 65;
        length -= 65;
    }
    return true;
}

static bool read_codes(struct reader *reader, const uint8_t *segment, size_t length)
{
    while (length > 0) {
        if (length < 17 || (segment[0] & 0xef) > 1) /* class 0 or 1, number 0 or 1 */
            return false;
        size_t count = 0, room = 1;
        for (int bits = 1; bits <= 16; bits++) {
            room *= 2;
            if (segment[bits] > room)
                return false;
            room -= segment[bits];
            count += segment[bits];
        }
        if (count > 256 || count > length - 17)
            return false;
        *(segment[0] & 0x10 ? &reader->ac_tables : &reader->dc_tables) |= 1u << (segment[0] & 1);
        segment += 17 + count;
        length -= 17 + count;
    }
    return true;
}

static bool read_frame(struct reader *reader, const uint8_t *segment, size_t length)
{
    struct convoy_jpeg_file *file = reader->file;
    if (file->components != 0 || length < 6 || segment[0] != 8)
        return false;
    file->height = two_bytes(segment + 1);
    file->width = two_bytes(segment + 3);
    file->components = segment[5];
    if (file->width == 0 || file->height == 0 || (file->components != 1 && file->components != 3) ||
        length != 6 + 3 * (size_t)file->components)
        return false;
    for (uint32_t i = 0; i < file->components; i++) {
        const uint8_t *at = segment + 6 + 3 * (size_t)i;
        struct component *component = &reader->components[i];
        *component = (struct component){at[0], at[1] >> 4, at[1] & 15, at[2]};
        for (uint32_t k = 0; k < i; k++)
            if (reader->components[k].id == component->id)
                return false;
        /* A single component is coded block by block, whatever it says of its sampling; the engines need not
         * know that. */
        unsigned most = i == 0 && file->components == 3 ? 2 : 1;
        if (component->sampling_x < 1 || component->sampling_x > most || component->sampling_y < 1 ||
            component->sampling_y > most || component->quantizer > 3)
            return false;
    }
    file->half_x = reader->components[0].sampling_x == 2;
    file->half_y = reader->components[0].sampling_y == 2;
    return true;
}

/* Components that are R, G and B, as libjpeg tells them. */
static bool is_rgb(const struct reader *reader)
{
    const struct component *components = reader->components;
    if (reader->jfif)
        return false;
    if (reader->adobe)
        return reader->transform == 0;
    return components[0].id == 'R' && components[1].id == 'G' && components[2].id == 'B';
}

static bool read_scan(const struct reader *reader, const uint8_t *segment, size_t length)
{
    uint32_t components = reader->file->components;
    if (components == 0 || length != 4 + 2 * (size_t)components || segment[0] != components)
        return false;
    for (uint32_t i = 0; i < components; i++) {
        const uint8_t *at = segment + 1 + 2 * (size_t)i;
        if (at[0] != reader->components[i].id || (at[1] & 0xee) != 0 ||
            !(reader->dc_tables >> (at[1] >> 4) & 1) || !(reader->ac_tables >> (at[1] & 15) & 1) ||
            !(reader->quantizers >> reader->components[i].quantizer & 1))
            return false;
    }
    const uint8_t *last = segment + 1 + 2 * (size_t)components;
    return last[0] == 0 && last[1] == 63 && last[2] == 0 && (components == 1 || !is_rgb(reader));
}

/* Entropy-coded data from reader->at up to the end marker. */
static bool read_data(struct reader *reader)
{
    unsigned restarts = 0;
    for (;;) {
        const uint8_t *marker = memchr(reader->bytes + reader->at, 0xff, reader->length - reader->at);
        if (marker == NULL || marker + 1 == reader->bytes + reader->length)
            return false;
        reader->at = (size_t)(marker - reader->bytes) + 2;
        if (marker[1] == EOI) {
            reader->file->length = reader->at;
            return true;
        }
        if (marker[1] == 0)
            continue;
        if (marker[1] != RST0 + restarts++ % 8)
            return false;
    }
}

static bool read_segment(struct reader *reader, unsigned marker, const uint8_t *segment, size_t length)
{
    switch (marker) {
    case DQT:
        return read_quantizers(reader, segment, length);
    case DHT:
        return read_codes(reader, segment, length);
    case SOF0:
        return read_frame(reader, segment, length);
    case DRI:
        return length == 2;
    case SOS:
        return read_scan(reader, segment, length);
    case APP0:
        reader->jfif = reader->jfif || (length >= 14 && memcmp(segment, "JFIF", 5) == 0);
        return true;
    case APP14:
        if (length >= 12 && memcmp(segment, "Adobe", 5) == 0) {
            reader->adobe = true;
            reader->transform = segment[11];
        }
        return true;
    default:
        /* Other segments of applications, and comments. No other kind of frame, nothing of arithmetic
         * coding, no number of lines that comes later. */
        return (marker > APP0 && marker < APP0 + 16) || marker == COM;
    }
}

/* What the picture's blocks take at least: a bit each. A file that promises a picture of millions of pixels
 * and has a few bytes costs an engine as much as a whole one. */
static bool has_enough(const struct convoy_jpeg_file *file)
{
    uint64_t across = (file->width + 7) / 8, down = (file->height + 7) / 8;
    uint64_t blocks = across * down;
    if (file->components == 3)
        blocks += 2 * ((across + file->half_x) >> file->half_x) * ((down + file->half_y) >> file->half_y);
    return blocks / 8 <= file->length;
}

bool convoy_jpeg_file_read(const uint8_t *bytes, size_t length, struct convoy_jpeg_file *file)
{
    struct reader reader = {.bytes = bytes, .length = length, .at = 2, .file = file};
    *file = (struct convoy_jpeg_file){0};
    if (length < 4 || bytes[0] != 0xff || bytes[1] != SOI)
        return false;
    for (;;) {
        /* Fill bytes may stand before a marker. */
        size_t begun = reader.at;
        while (reader.at < length && bytes[reader.at] == 0xff)
            reader.at++;
        if (reader.at == begun || length - reader.at < 3)
            return false;
        unsigned marker = bytes[reader.at];
        size_t segment = two_bytes(bytes + reader.at + 1);
        if (segment < 2 || segment > length - reader.at - 1 ||
            !read_segment(&reader, marker, bytes + reader.at + 3, segment - 2))
            return false;
        reader.at += 1 + segment;
        if (marker == SOS)
            return read_data(&reader) && has_enough(file);
    }
}
