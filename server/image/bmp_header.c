#include "server/image/bmp_header.h"

#include <errno.h>

#define FILE_HEADER_BYTES 14
#define CORE_BYTES        12 /* of OS/2 1, with sides of 16 bits and a palette without a fourth byte */
#define OS2_BYTES         16 /* the least that OS/2 2 writes: up to the bits of a pixel */
#define OS2_WHOLE_BYTES   64
#define INFO_BYTES        40
#define COLOUR_BYTES      52 /* with masks of red, green and blue */
#define ALPHA_BYTES       56 /* with one of alpha */

/* biCompression, as Windows counts it. */
enum { RGB, RLE8, RLE4, BITFIELDS, JPEG, PNG, ALPHABITFIELDS };

static uint32_t get16(const uint8_t *at)
{
    return (uint32_t)at[1] << 8 | at[0];
}

static uint32_t get32(const uint8_t *at)
{
    return get16(at + 2) << 16 | get16(at);
}

static int damaged(const char *reason, struct convoy_error *error)
{
    return convoy_fail(error, -EBADMSG, "the BMP image cannot be decoded (%s): encode it again and send that",
                       reason);
}

static int truncated(struct convoy_error *error)
{
    return convoy_fail(error, -EBADMSG, "the BMP image ends before its last pixel: send the whole file");
}

/* What the header says, as it stands there. */
struct fields {
    int64_t width, height;
    uint32_t size, bits, compression, colours;
};

static int read_fields(const uint8_t *bytes, size_t length, struct fields *fields, struct convoy_error *error)
{
    const uint8_t *info = bytes + FILE_HEADER_BYTES;
    if (length < FILE_HEADER_BYTES + CORE_BYTES)
        return truncated(error);
    uint32_t size = get32(info);
    *fields = (struct fields){.size = size};
    if (size != CORE_BYTES && size != OS2_BYTES && size != INFO_BYTES && size != COLOUR_BYTES &&
        size != ALPHA_BYTES && size != OS2_WHOLE_BYTES && size != 108 && size != 124)
        return damaged("its header has a length that no version has", error);
    if (size > length - FILE_HEADER_BYTES)
        return truncated(error);
    if (size == CORE_BYTES) {
        fields->width = (int64_t)get16(info + 4);
        fields->height = (int64_t)get16(info + 6);
        fields->bits = get16(info + 10);
        return 0;
    }
    fields->width = (int32_t)get32(info + 4);
    fields->height = (int32_t)get32(info + 8);
    fields->bits = get16(info + 14);
    if (size >= INFO_BYTES) {
        fields->compression = get32(info + 16);
        fields->colours = get32(info + 32);
    }
    return 0;
}

static int read_size(const struct fields *fields, struct convoy_bmp_header *header,
                     struct convoy_error *error)
{
    int64_t height = fields->height < 0 ? -fields->height : fields->height;
    if (fields->width < 1 || fields->width > INT32_MAX || height < 1 || height > INT32_MAX)
        return damaged("its width or height is not possible", error);
    header->width = (int)fields->width;
    header->height = (int)height;
    header->top_down = fields->height < 0;
    header->bits = (int)fields->bits;
    return 0;
}

/* Which compressions go with which bits, and whether masks tell where the components are. */
static int read_coding(const struct fields *fields, struct convoy_bmp_header *header, bool *masked,
                       struct convoy_error *error)
{
    uint32_t bits = fields->bits, compression = fields->compression;
    bool os2 = fields->size == OS2_WHOLE_BYTES; /* where 3 is Huffman coding, and 4 runs of 24 bits */
    *masked = !os2 && (compression == BITFIELDS || compression == ALPHABITFIELDS);
    header->coding = CONVOY_BMP_PLAIN;
    if (!os2 && (compression == JPEG || compression == PNG))
        return damaged("it holds a JPEG or a PNG, which is better sent as it is", error);
    if (compression == RLE8 && bits == 8 && !header->top_down)
        header->coding = CONVOY_BMP_RLE8;
    else if (compression == RLE4 && bits == 4 && !header->top_down)
        header->coding = CONVOY_BMP_RLE4;
    else if (*masked ? bits != 16 && bits != 32 : compression != RGB)
        return damaged("it is compressed in a way that is not read", error);
    if (bits != 1 && bits != 4 && bits != 8 && bits != 16 && bits != 24 && bits != 32)
        return damaged("a pixel has a number of bits other than 1, 4, 8, 16, 24 and 32", error);
    return 0;
}

static bool read_mask(uint32_t bits_set, struct convoy_bmp_mask *mask)
{
    *mask = (struct convoy_bmp_mask){0, 0};
    if (bits_set == 0)
        return true;
    mask->shift = __builtin_ctz(bits_set);
    uint32_t low = bits_set >> mask->shift;
    mask->bits = __builtin_popcount(low);
    return (low & (low + 1)) == 0; /* in one piece */
}

/* at: behind the header proper. Masks stand there where the header is too short for them. */
static int read_masks(const uint8_t *bytes, size_t length, const struct fields *fields, size_t *at,
                      struct convoy_bmp_header *header, struct convoy_error *error)
{
    size_t within = FILE_HEADER_BYTES + INFO_BYTES;
    size_t count = fields->size >= ALPHA_BYTES || fields->compression == ALPHABITFIELDS ? 4 : 3;
    if (fields->size == INFO_BYTES) {
        if (length - *at < count * 4)
            return truncated(error);
        *at += count * 4;
    } else if (fields->size == COLOUR_BYTES) {
        count = 3;
    }
    for (size_t i = 0; i < count; i++)
        if (!read_mask(get32(bytes + within + i * 4), &header->masks[i]))
            return damaged("the bits of a colour are not in one piece", error);
    return 0;
}

/* What goes without masks: 5 bits each, or a byte each. */
static void default_masks(struct convoy_bmp_header *header)
{
    int each = header->bits == 16 ? 5 : 8;
    for (int i = 0; i < 3; i++)
        header->masks[i] = (struct convoy_bmp_mask){(2 - i) * each, each};
}

int convoy_bmp_header_read(const uint8_t *bytes, size_t length, struct convoy_bmp_header *header,
                           struct convoy_error *error)
{
    struct fields fields;
    bool masked = false;
    *header = (struct convoy_bmp_header){.width = 0};
    int code = read_fields(bytes, length, &fields, error);
    if (code == 0)
        code = read_size(&fields, header, error);
    if (code == 0)
        code = read_coding(&fields, header, &masked, error);
    if (code != 0)
        return code;
    size_t at = FILE_HEADER_BYTES + (size_t)fields.size;
    default_masks(header);
    if (masked)
        code = read_masks(bytes, length, &fields, &at, header, error);
    if (code != 0)
        return code;
    /* The offset of the pixels; some writers leave it out where they follow at once. */
    size_t offset = get32(bytes + 10);
    if (offset > length)
        return truncated(error);
    if (offset != 0 && offset < at)
        return damaged("its pixels begin within its header", error);
    header->palette_at = at;
    header->entry_bytes = fields.size == CORE_BYTES ? 3 : 4;
    if (header->bits <= 8) {
        size_t most = (size_t)1 << header->bits;
        size_t room = ((offset != 0 ? offset : length) - at) / header->entry_bytes;
        size_t entries = fields.colours == 0 || fields.colours > most ? most : fields.colours;
        header->palette_entries = entries < room ? entries : room;
    }
    header->pixels_at = offset != 0 ? offset : at + header->palette_entries * header->entry_bytes;
    return 0;
}
