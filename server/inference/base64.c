#include "server/inference/base64.h"

#include <errno.h>

#define LINE_BREAK 64
#define PADDING    65

/* The six bits of a character, or one of the above; -1 for any other. */
static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    switch (c) {
    case '+':
    case '-':
        return 62;
    case '/':
    case '_':
        return 63;
    case '\n':
    case '\r':
        return LINE_BREAK;
    case '=':
        return PADDING;
    default:
        return -1;
    }
}

/* The character of the four digits at text; NUL, which is none of base64, where they are no ASCII. */
static char of_digits(const char *text)
{
    unsigned code = 0;

    for (int i = 0; i < 4; i++) {
        char c = text[i];
        unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                         : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (unsigned)(c - 'A' + 10)
                                                : 0x1000u;
        code = code * 16 + digit;
    }
    return code < 128 ? (char)code : '\0';
}

/* What stands behind a backslash; NUL where that cannot be in base64. */
static char escaped(char **at, const char *end)
{
    if (*at == end)
        return '\0';
    switch (*(*at)++) {
    case '/':
        return '/';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 'u':
        if (end - *at < 4)
            return '\0';
        *at += 4;
        return of_digits(*at - 4);
    default:
        return '\0';
    }
}

int convoy_base64_string(char **at, const char *end, struct convoy_part *part)
{
    char *in = *at, *out = in;
    uint32_t bits = 0, have = 0, padding = 0;

    if (in == end || *in != '"')
        return -EPROTO;
    part->bytes = (const uint8_t *)out;
    for (in++; in < end && *in != '"';) {
        char c = *in++;
        int value = value_of(c != '\\' ? c : escaped(&in, end));
        if (value == LINE_BREAK)
            continue;
        if (value == PADDING && padding < 2) {
            padding++;
            continue;
        }
        if (value < 0 || padding > 0)
            return -EINVAL;
        bits = bits << 6 | (uint32_t)value;
        have += 6;
        if (have >= 8) {
            have -= 8;
            *out++ = (char)(bits >> have);
        }
    }
    if (in == end || have == 6)
        return -EBADMSG;
    *at = in + 1;
    part->length = (size_t)((const uint8_t *)out - part->bytes);
    return 0;
}
