#include "server/image/exif.h"

#include <stdbool.h>
#include <string.h>

#define TAG_ORIENTATION 0x0112
#define ENTRY_BYTES     12

enum { TYPE_SHORT = 3, TYPE_LONG = 4 };

static uint32_t number(const uint8_t *bytes, int size, bool big_endian)
{
    uint32_t value = 0;
    for (int i = 0; i < size; i++)
        value = value << 8 | bytes[big_endian ? i : size - 1 - i];
    return value;
}

/* The first value of an entry, which starts in its value field; 0 for another type. EXIF asks for a SHORT,
 * some writers store a LONG, and Pillow takes both. */
static uint32_t entry_value(const uint8_t *entry, bool big_endian)
{
    switch (number(entry + 2, 2, big_endian)) {
    case TYPE_SHORT:
        return number(entry + 8, 2, big_endian);
    case TYPE_LONG:
        return number(entry + 8, 4, big_endian);
    default:
        return 0;
    }
}

int convoy_exif_orientation(const uint8_t *tiff, size_t length)
{
    if (length < 8)
        return 1;
    bool big_endian = tiff[0] == 'M' && tiff[1] == 'M';
    if (!big_endian && !(tiff[0] == 'I' && tiff[1] == 'I'))
        return 1;
    if (number(tiff + 2, 2, big_endian) != 42)
        return 1;
    size_t directory = number(tiff + 4, 4, big_endian);
    if (directory > length - 2)
        return 1;
    size_t entries = number(tiff + directory, 2, big_endian);
    size_t room = (length - directory - 2) / ENTRY_BYTES;
    if (entries > room)
        entries = room;
    for (size_t i = 0; i < entries; i++) {
        const uint8_t *entry = tiff + directory + 2 + i * ENTRY_BYTES;
        if (number(entry, 2, big_endian) != TAG_ORIENTATION)
            continue;
        uint32_t value = entry_value(entry, big_endian);
        return value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}

int convoy_exif_is_app1(const uint8_t *segment, size_t length)
{
    return length > 6 && memcmp(segment, "Exif\0", 5) == 0;
}
