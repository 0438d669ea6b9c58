#include "server/image/sniff.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

static bool has(const uint8_t *bytes, size_t length, size_t at, const char *magic, size_t size)
{
    return length >= at + size && memcmp(bytes + at, magic, size) == 0;
}

enum convoy_image_kind convoy_image_sniff(const uint8_t *bytes, size_t length)
{
    if (has(bytes, length, 0, "\xFF\xD8", 2) && (length == 2 || bytes[2] == 0xFF))
        return CONVOY_IMAGE_JPEG;
    if (has(bytes, length, 0, "\x89PNG", 4))
        return CONVOY_IMAGE_PNG;
    return CONVOY_IMAGE_OTHER;
}

static bool looks_like_html(const uint8_t *bytes, size_t length)
{
    static const char *const beginnings[] = {"<!doctype html", "<html", "<head", "<body"};
    size_t at = has(bytes, length, 0, "\xEF\xBB\xBF", 3) ? 3 : 0;
    while (at < length && strchr(" \t\r\n", bytes[at]) != NULL && bytes[at] != '\0')
        at++;
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
        size_t size = strlen(beginnings[i]);
        if (length - at >= size && strncasecmp((const char *)bytes + at, beginnings[i], size) == 0)
            return true;
    }
    return false;
}

static bool is_control(uint8_t byte)
{
    bool blank = byte >= '\t' && byte <= '\r';
    return (byte < 0x20 && !blank) || byte == 0x7F;
}

/* Any encoding that keeps ASCII; the sentence that says so need not be sure. */
static bool looks_like_text(const uint8_t *bytes, size_t length)
{
    size_t ascii = 0;
    size_t checked = length < 512 ? length : 512;
    for (size_t i = 0; i < checked; i++) {
        if (is_control(bytes[i]))
            return false;
        ascii += bytes[i] < 0x80;
    }
    return ascii * 2 > checked;
}

const char *convoy_image_stranger(const uint8_t *bytes, size_t length)
{
    if (has(bytes, length, 0, "GIF8", 4))
        return "a GIF image";
    if (has(bytes, length, 0, "RIFF", 4) && has(bytes, length, 8, "WEBP", 4))
        return "a WebP image";
    if (has(bytes, length, 0, "BM", 2) && length >= 14 && has(bytes, length, 6, "\0\0\0\0", 4))
        return "a BMP image";
    if (has(bytes, length, 0, "II*\0", 4) || has(bytes, length, 0, "MM\0*", 4))
        return "a TIFF image";
    if (has(bytes, length, 4, "ftypavif", 8))
        return "an AVIF image";
    if (has(bytes, length, 4, "ftyphei", 7) || has(bytes, length, 4, "ftypmif1", 8))
        return "a HEIC image";
    if (has(bytes, length, 0, "%PDF", 4))
        return "a PDF document";
    if (looks_like_html(bytes, length))
        return "an HTML page";
    if (looks_like_text(bytes, length))
        return "text, not an image";
    return "not an image";
}
