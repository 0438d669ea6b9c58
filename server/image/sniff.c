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
    if (has(bytes, length, 0, "RIFF", 4) && has(bytes, length, 8, "WEBP", 4))
        return CONVOY_IMAGE_WEBP;
    if (has(bytes, length, 0, "GIF8", 4))
        return CONVOY_IMAGE_GIF;
    /* Two letters begin texts, too; the four bytes at 6 are reserved. */
    if (has(bytes, length, 0, "BM", 2) && length >= 14 && has(bytes, length, 6, "\0\0\0\0", 4))
        return CONVOY_IMAGE_BMP;
    return CONVOY_IMAGE_OTHER;
}

/* What text begins with, after a byte order mark and blanks; begins is in lower case. */
static bool begins_with(const uint8_t *bytes, size_t length, const char *begins)
{
    size_t at = has(bytes, length, 0, "\xEF\xBB\xBF", 3) ? 3 : 0;
    size_t size = strlen(begins);
    while (at < length && strchr(" \t\r\n", bytes[at]) != NULL && bytes[at] != '\0')
        at++;
    return length - at >= size && strncasecmp((const char *)bytes + at, begins, size) == 0;
}

static bool looks_like_html(const uint8_t *bytes, size_t length)
{
    return begins_with(bytes, length, "<!doctype html") || begins_with(bytes, length, "<html") ||
           begins_with(bytes, length, "<head") || begins_with(bytes, length, "<body");
}

/* An XML declaration, comments and a document type may come before the element. */
static bool looks_like_svg(const uint8_t *bytes, size_t length)
{
    return begins_with(bytes, length, "<svg") ||
           ((begins_with(bytes, length, "<?xml") || begins_with(bytes, length, "<!")) &&
            memmem(bytes, length < 1024 ? length : 1024, "<svg", 4) != NULL);
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

/* A file of the ISO base media format (ISO/IEC 14496-12) whose first box names this brand, as its own or as
 * one that it is compatible with. */
static bool has_brand(const uint8_t *bytes, size_t length, const char *brand)
{
    if (!has(bytes, length, 4, "ftyp", 4))
        return false;
    size_t box = (size_t)bytes[0] << 24 | (size_t)bytes[1] << 16 | (size_t)bytes[2] << 8 | bytes[3];
    size_t end = box < length ? box : length;
    for (size_t at = 8; at + 4 <= end && at < 256; at += 4)
        if (memcmp(bytes + at, brand, 4) == 0)
            return true;
    return has(bytes, length, 8, brand, 4);
}

static bool is_avif(const uint8_t *bytes, size_t length)
{
    return has_brand(bytes, length, "avif") || has_brand(bytes, length, "avis");
}

static bool is_heic(const uint8_t *bytes, size_t length)
{
    return has(bytes, length, 4, "ftyphei", 7) || has(bytes, length, 4, "ftyphev", 7) ||
           has_brand(bytes, length, "heic") || has_brand(bytes, length, "mif1") ||
           has_brand(bytes, length, "msf1");
}

/* A directory of 1 to 255 pictures of kind 1 (icons) or 2 (cursors), whose first entry has a reserved 0. */
static bool is_icon(const uint8_t *bytes, size_t length, char kind)
{
    const char head[] = {0, 0, kind, 0};
    return length >= 10 && has(bytes, length, 0, head, 4) && bytes[4] != 0 && bytes[5] == 0 && bytes[9] == 0;
}

/* Netpbm: P1 to P7 and white space. */
static bool is_netpbm(const uint8_t *bytes, size_t length)
{
    return length >= 3 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '7' &&
           (bytes[2] == '\n' || bytes[2] == ' ' || bytes[2] == '\r' || bytes[2] == '\t');
}

const char *convoy_image_stranger(const uint8_t *bytes, size_t length)
{
    static const struct {
        const char *magic, *name;
        size_t size;
    } names[] = {
        {"II*\0", "a TIFF image", 4},
        {"MM\0*", "a TIFF image", 4},
        {"II+\0", "a TIFF image", 4},
        {"MM\0+", "a TIFF image", 4},
        {"\xFF\x0A", "a JPEG XL image", 2},
        {"\0\0\0\x0CJXL \r\n\x87\n", "a JPEG XL image", 12},
        {"\0\0\0\x0CjP  \r\n\x87\n", "a JPEG 2000 image", 12},
        {"\xFF\x4F\xFF\x51", "a JPEG 2000 image", 4},
        {"II\xBC", "a JPEG XR image", 3},
        {"8BPS", "a Photoshop document", 4},
        {"%PDF", "a PDF document", 4},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (has(bytes, length, 0, names[i].magic, names[i].size))
            return names[i].name;
    if (is_avif(bytes, length))
        return "an AVIF image";
    if (is_heic(bytes, length))
        return "a HEIC image";
    if (is_icon(bytes, length, 1))
        return "a Windows icon (ICO)";
    if (is_icon(bytes, length, 2))
        return "a Windows cursor (CUR)";
    if (is_netpbm(bytes, length))
        return "a Netpbm image";
    if (looks_like_html(bytes, length))
        return "an HTML page";
    if (looks_like_svg(bytes, length))
        return "an SVG drawing";
    if (looks_like_text(bytes, length))
        return "text, not an image";
    return "not an image";
}
