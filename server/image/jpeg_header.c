#include "server/image/jpeg_header.h"

#include "engine/base/jpeg_row.h"
#include "server/image/exif.h"

#include <string.h>

/* Where the scan must begin. */
#define HEADER_MOST (512u * 1024)

enum {
    MARKER_SOF0 = 0xC0,
    MARKER_DHT = 0xC4,
    MARKER_RST0 = 0xD0,
    MARKER_SOI = 0xD8,
    MARKER_EOI = 0xD9,
    MARKER_SOS = 0xDA,
    MARKER_DQT = 0xDB,
    MARKER_DRI = 0xDD,
    MARKER_APP0 = 0xE0,
    MARKER_APP1 = 0xE1,
    MARKER_APP14 = 0xEE,
    MARKER_APP15 = 0xEF,
    MARKER_COM = 0xFE
};

/* What the segments before the scan have said. */
struct reading {
    bool has_frame, has_adobe;
    uint8_t adobe_transform;
    int orientation; /* 0 until an Exif segment was seen */
    uint32_t width, height, components;
    struct {
        uint8_t id, across, down, quantisation;
    } component[3];
    unsigned quantisations, dc_tables, ac_tables; /* which there are, a bit each */
    uint32_t restart_interval;                    /* in MCUs; 0: none */
};

static uint32_t two(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 8 | bytes[1];
}

/* ---- Each reads a segment's bytes behind its length; false: the file is not plain ---- */

static bool read_quantisation(struct reading *reading, const uint8_t *at, size_t length)
{
    for (; length >= 65; at += 65, length -= 65) {
        if (at[0] > 3) /* 16 bits, or a fifth table */
            return false;
        reading->quantisations |= 1u << at[0];
    }
    return length == 0;
}

/* counts: of the codes of 1 to 16 bits. */
static bool codes_fit(const uint8_t counts[16], uint32_t *sum)
{
    uint32_t used = 0;
    *sum = 0;
    for (int bits = 1; bits <= 16; bits++) {
        used += (uint32_t)counts[bits - 1] << (16 - bits);
        *sum += counts[bits - 1];
    }
    return used <= 1u << 16 && *sum >= 1 && *sum <= 256;
}

static bool read_huffman(struct reading *reading, const uint8_t *at, size_t length)
{
    while (length >= 17) {
        unsigned of_ac = at[0] >> 4, number = at[0] & 15;
        uint32_t sum;
        if (of_ac > 1 || number > 1 || !codes_fit(at + 1, &sum) || sum > length - 17)
            return false;
        for (uint32_t i = 0; i < sum && of_ac == 0; i++)
            if (at[17 + i] > 11) /* bits of a difference of 8-bit samples */
                return false;
        *(of_ac ? &reading->ac_tables : &reading->dc_tables) |= 1u << number;
        at += 17 + sum;
        length -= 17 + sum;
    }
    return length == 0;
}

static bool read_frame(struct reading *reading, const uint8_t *at, size_t length)
{
    if (reading->has_frame || length < 6 || at[0] != 8)
        return false;
    reading->has_frame = true;
    reading->height = two(at + 1);
    reading->width = two(at + 3);
    reading->components = at[5];
    if ((reading->components != 1 && reading->components != 3) || length != 6 + 3 * reading->components ||
        reading->width < 1 || reading->width > CONVOY_JPEG_SIDE_MAX || reading->height < 1 ||
        reading->height > CONVOY_JPEG_SIDE_MAX)
        return false;
    for (uint32_t i = 0; i < reading->components; i++) {
        const uint8_t *from = at + 6 + 3 * (size_t)i;
        reading->component[i].id = from[0];
        reading->component[i].across = from[1] >> 4;
        reading->component[i].down = from[1] & 15;
        reading->component[i].quantisation = from[2];
        if (from[2] > 3)
            return false;
    }
    return true;
}

/* Grey, or colours with the chroma of each pixel, or of two or four together. */
static bool has_known_sampling(const struct reading *reading)
{
    for (uint32_t i = 1; i < reading->components; i++)
        if (reading->component[i].across != 1 || reading->component[i].down != 1)
            return false;
    unsigned most = reading->components == 1 ? 1 : 2;
    return reading->component[0].across >= 1 && reading->component[0].across <= most &&
           reading->component[0].down >= 1 && reading->component[0].down <= most;
}

/* Three components are YCbCr for libjpeg and for everyone else. */
static bool has_known_colours(const struct reading *reading)
{
    if (reading->components == 1)
        return true;
    if (reading->component[0].id == 'R' && reading->component[1].id == 'G' && reading->component[2].id == 'B')
        return false;
    return !reading->has_adobe || reading->adobe_transform == 1;
}

/* One scan of all components, in the frame's order, with tables that there are. */
static bool scan_is_plain(const struct reading *reading, const uint8_t *at, size_t length)
{
    uint32_t n = reading->components;
    if (!reading->has_frame || length != 4 + 2 * (size_t)n || at[0] != n)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *of = at + 1 + 2 * (size_t)i;
        if (of[0] != reading->component[i].id || (of[1] >> 4) > 1 || (of[1] & 15) > 1 ||
            !(reading->dc_tables >> (of[1] >> 4) & 1) || !(reading->ac_tables >> (of[1] & 15) & 1) ||
            !(reading->quantisations >> reading->component[i].quantisation & 1))
            return false;
    }
    const uint8_t *of_scan = at + 1 + 2 * (size_t)n;
    return of_scan[0] == 0 && of_scan[1] == 63 && of_scan[2] == 0 && has_known_sampling(reading) &&
           has_known_colours(reading);
}

static bool read_segment(struct reading *reading, uint8_t marker, const uint8_t *at, size_t length)
{
    switch (marker) {
    case MARKER_DQT:
        return read_quantisation(reading, at, length);
    case MARKER_DHT:
        return read_huffman(reading, at, length);
    case MARKER_SOF0:
        return read_frame(reading, at, length);
    case MARKER_DRI:
        reading->restart_interval = length == 2 ? two(at) : 0;
        return length == 2;
    case MARKER_APP1: /* as jpeg.c reads it */
        if (reading->orientation == 0 && convoy_exif_is_app1(at, length))
            reading->orientation = convoy_exif_orientation(at + 6, length - 6);
        return true;
    case MARKER_APP14:
        if (length >= 12 && memcmp(at, "Adobe", 5) == 0) {
            reading->has_adobe = true;
            reading->adobe_transform = at[11];
        }
        return true;
    default:
        return marker == MARKER_COM || (marker >= MARKER_APP0 && marker <= MARKER_APP15);
    }
}

/* ---- The scan ---- */

static uint64_t rounded_up(uint32_t pixels, uint32_t unit)
{
    return (pixels + unit - 1) / unit;
}

/* Of the scan: what is coded together. */
static uint64_t units(const struct reading *reading)
{
    return rounded_up(reading->width, 8u * reading->component[0].across) *
           rounded_up(reading->height, 8u * reading->component[0].down);
}

/* Blocks of 8 x 8 samples, as libjpeg counts them, or a few more. */
static uint64_t blocks(const struct reading *reading)
{
    uint32_t across = reading->component[0].across, down = reading->component[0].down;
    return units(reading) * (across * down + (reading->components - 1));
}

/* The restart markers are those that are due, and there is no other marker. Coded data has 0xFF once in some
 * 150 bytes; a file with far more of them would keep a thread busy. */
static bool is_one_scan(const struct reading *reading, const uint8_t *at, const uint8_t *end)
{
    uint64_t due = reading->restart_interval > 0 ? (units(reading) - 1) / reading->restart_interval : 0;
    uint64_t seen = 0, most = (uint64_t)(end - at) / 16 + 4096;
    while ((at = memchr(at, 0xFF, (size_t)(end - at))) != NULL) {
        if (end - at < 2 || most-- == 0)
            return false;
        if (at[1] != 0 && (at[1] != MARKER_RST0 + seen % 8 || seen++ == due))
            return false;
        at += 2;
    }
    return seen == due;
}

bool convoy_jpeg_is_plain(const uint8_t *bytes, size_t length, struct convoy_jpeg_header *header)
{
    struct reading reading = {0};
    size_t at = 2;
    if (length < 4 || bytes[0] != 0xFF || bytes[1] != MARKER_SOI || bytes[length - 2] != 0xFF ||
        bytes[length - 1] != MARKER_EOI)
        return false;
    size_t most = length - 2 < HEADER_MOST ? length - 2 : HEADER_MOST;
    for (;;) {
        if (most - at < 4 || bytes[at] != 0xFF)
            return false;
        uint8_t marker = bytes[at + 1];
        size_t segment = two(bytes + at + 2);
        if (segment < 2 || segment > most - at - 2)
            return false;
        const uint8_t *inside = bytes + at + 4;
        at += 2 + segment;
        if (marker == MARKER_SOS) {
            if (!scan_is_plain(&reading, inside, segment - 2))
                return false;
            break;
        }
        if (!read_segment(&reading, marker, inside, segment - 2))
            return false;
    }
    if (blocks(&reading) / 8 > length || !is_one_scan(&reading, bytes + at, bytes + length - 2))
        return false;
    *header = (struct convoy_jpeg_header){.width = (uint16_t)reading.width,
                                          .height = (uint16_t)reading.height,
                                          .orientation =
                                              reading.orientation == 0 ? 1 : (uint8_t)reading.orientation,
                                          .components = (uint8_t)reading.components};
    return true;
}
