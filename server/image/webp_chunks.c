#include "server/image/webp_chunks.h"

#include "server/image/exif.h"

#include <errno.h>
#include <string.h>

#define FILE_HEADER_BYTES  12 /* RIFF, length, WEBP */
#define CHUNK_HEADER_BYTES 8  /* name and length */
#define VP8X_BYTES         10
#define ANMF_BYTES         16 /* what precedes the frame's own chunks */
#define FLAG_ANIMATION     0x02

static uint32_t little_endian(const uint8_t *bytes, int size)
{
    uint32_t value = 0;
    for (int i = size - 1; i >= 0; i--)
        value = value << 8 | bytes[i];
    return value;
}

/* Chunks one after the other. */
struct walk {
    const uint8_t *bytes;
    size_t length, next; /* next: where the next chunk begins */
    const uint8_t *name, *data;
    size_t size; /* of data, as far as it is there */
};

static bool step(struct walk *walk)
{
    if (walk->next > walk->length || walk->length - walk->next < CHUNK_HEADER_BYTES)
        return false;
    const uint8_t *header = walk->bytes + walk->next;
    size_t size = little_endian(header + 4, 4);
    size_t left = walk->length - walk->next - CHUNK_HEADER_BYTES;
    walk->name = header;
    walk->data = header + CHUNK_HEADER_BYTES;
    walk->size = size < left ? size : left;
    walk->next += CHUNK_HEADER_BYTES + size + size % 2; /* below 2^33 more, in 64 bits */
    return true;
}

static bool is_named(const struct walk *walk, const char *name)
{
    return memcmp(walk->name, name, 4) == 0;
}

/* Steps to the chunk of that name. */
static bool find(struct walk *walk, const char *name)
{
    while (step(walk))
        if (is_named(walk, name))
            return true;
    return false;
}

/* At the chunk behind the file's header; false unless that is a whole VP8X. */
static bool enter(struct walk *walk, const uint8_t *bytes, size_t length)
{
    *walk = (struct walk){.bytes = bytes, .length = length, .next = FILE_HEADER_BYTES};
    return step(walk) && is_named(walk, "VP8X") && walk->size >= VP8X_BYTES;
}

bool convoy_webp_is_animated(const uint8_t *bytes, size_t length)
{
    struct walk walk;
    return enter(&walk, bytes, length) && (walk.data[0] & FLAG_ANIMATION) != 0;
}

/* Chunks that a reader does not know may stand before those with the pixels. */
static bool find_pixels(struct walk *walk)
{
    while (step(walk))
        if (is_named(walk, "ALPH") || is_named(walk, "VP8 ") || is_named(walk, "VP8L"))
            return true;
    return false;
}

int convoy_webp_first_frame(const uint8_t *bytes, size_t length, struct convoy_webp_frame *frame)
{
    struct walk file;
    if (!enter(&file, bytes, length))
        return -ENODATA;
    frame->canvas_width = (int)little_endian(file.data + 4, 3) + 1;
    frame->canvas_height = (int)little_endian(file.data + 7, 3) + 1;
    if (!find(&file, "ANMF") || file.size < ANMF_BYTES)
        return -ENODATA;
    frame->left = (int)little_endian(file.data, 3) * 2;
    frame->top = (int)little_endian(file.data + 3, 3) * 2;
    frame->width = (int)little_endian(file.data + 6, 3) + 1;
    frame->height = (int)little_endian(file.data + 9, 3) + 1;
    struct walk own = {.bytes = file.data + ANMF_BYTES, .length = file.size - ANMF_BYTES};
    if (!find_pixels(&own))
        return -ENODATA;
    frame->bytes = own.name;
    frame->length = own.length - (size_t)(own.name - own.bytes);
    return 0;
}

int convoy_webp_orientation(const uint8_t *bytes, size_t length)
{
    struct walk walk;
    if (!enter(&walk, bytes, length) || !find(&walk, "EXIF"))
        return 1;
    /* Some writers keep the mark that JPEG has before the TIFF part. */
    size_t mark = convoy_exif_is_app1(walk.data, walk.size) ? 6 : 0;
    return convoy_exif_orientation(walk.data + mark, walk.size - mark);
}
