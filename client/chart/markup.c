#include "client/chart/markup.h"

#include <stdbool.h>
#include <stdint.h>

#define REPLACEMENT "\xEF\xBF\xBD"

/* Decodes the character at `at`, which is not NUL. Returns its bytes, 0 when it is not UTF-8. */
static size_t decode(const unsigned char *at, uint32_t *point)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = at[0] < 0x80 ? 1 : at[0] >> 5 == 6 ? 2 : at[0] >> 4 == 14 ? 3 : at[0] >> 3 == 30 ? 4 : 0;
    if (length == 0)
        return 0;
    *point = length == 1 ? at[0] : at[0] & (0x7FU >> length);
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xC0) != 0x80) /* the NUL, too */
            return 0;
        *point = *point << 6 | (at[i] & 0x3F);
    }
    return *point < least[length] || *point > 0x10FFFF ? 0 : length;
}

static bool is_harmless(uint32_t point)
{
    bool control = (point < 0x20 && point != '\t' && point != '\n') || (point >= 0x7F && point <= 0x9F);
    bool surrogate = point >= 0xD800 && point <= 0xDFFF;
    bool turns = (point >= 0x202A && point <= 0x202E) || (point >= 0x2066 && point <= 0x2069);
    return !control && !surrogate && !turns && point != 0xFFFE && point != 0xFFFF;
}

static void write_character(FILE *out, const unsigned char *at, size_t length)
{
    switch (at[0]) {
    case '&':
        fputs("&amp;", out);
        break;
    case '<':
        fputs("&lt;", out);
        break;
    case '>':
        fputs("&gt;", out);
        break;
    case '"':
        fputs("&quot;", out);
        break;
    case '\'':
        fputs("&#39;", out);
        break;
    default:
        fwrite(at, 1, length, out);
    }
}

/* Writes at most `most` characters. Returns what is left. */
static const unsigned char *write_most(FILE *out, const unsigned char *at, size_t most)
{
    while (*at && most-- > 0) {
        uint32_t point;
        size_t length = decode(at, &point);
        if (length == 0 || !is_harmless(point))
            fputs(REPLACEMENT, out);
        else
            write_character(out, at, length);
        at += length ? length : 1;
    }
    return at;
}

void client_markup_text(FILE *out, const char *text)
{
    if (text)
        write_most(out, (const unsigned char *)text, SIZE_MAX);
}

void client_markup_cut(FILE *out, const char *text, size_t characters)
{
    const unsigned char *end = (const unsigned char *)text;
    size_t count = 0;
    uint32_t point;
    if (!text)
        return;
    for (; *end && count <= characters; count++) {
        size_t length = decode(end, &point);
        end += length ? length : 1;
    }
    if (count <= characters) {
        client_markup_text(out, text);
        return;
    }
    write_most(out, (const unsigned char *)text, characters - 1);
    fputs("\xE2\x80\xA6", out);
}

void client_markup_json(FILE *out, const char *json)
{
    for (const unsigned char *at = (const unsigned char *)json; *at;) {
        uint32_t point;
        size_t length = decode(at, &point);
        if (*at == '<' || *at == '>' || *at == '&')
            fprintf(out, "\\u%04x", (unsigned)*at);
        else if (length == 0 || !is_harmless(point))
            fputs(REPLACEMENT, out);
        else
            fwrite(at, 1, length, out);
        at += length ? length : 1;
    }
}
