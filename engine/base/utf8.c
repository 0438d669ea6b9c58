#include "engine/base/utf8.h"

size_t convoy_utf8_character(const char *text, size_t length)
{
    if (length == 0)
        return 0;
    const unsigned char *byte = (const unsigned char *)text;
    /* The second byte's bounds keep out overlong forms (E0, F0), surrogates (ED) and what lies past U+10FFFF
     * (F4): table 3-7 of the Unicode standard. */
    unsigned char least = 0x80, most = 0xBF;
    size_t bytes;
    if (byte[0] < 0x80)
        return 1;
    if (byte[0] >= 0xC2 && byte[0] <= 0xDF) {
        bytes = 2;
    } else if (byte[0] >= 0xE0 && byte[0] <= 0xEF) {
        bytes = 3;
        least = byte[0] == 0xE0 ? 0xA0 : 0x80;
        most = byte[0] == 0xED ? 0x9F : 0xBF;
    } else if (byte[0] >= 0xF0 && byte[0] <= 0xF4) {
        bytes = 4;
        least = byte[0] == 0xF0 ? 0x90 : 0x80;
        most = byte[0] == 0xF4 ? 0x8F : 0xBF;
    } else {
        return 0;
    }
    if (length < bytes || byte[1] < least || byte[1] > most)
        return 0;
    for (size_t i = 2; i < bytes; i++) {
        if ((byte[i] & 0xC0) != 0x80)
            return 0;
    }
    return bytes;
}

bool convoy_utf8_valid(const char *text, size_t length, size_t *at)
{
    size_t offset = 0;
    while (offset < length) {
        size_t bytes = convoy_utf8_character(text + offset, length - offset);
        if (bytes == 0) {
            if (at != NULL)
                *at = offset;
            return false;
        }
        offset += bytes;
    }
    return true;
}
