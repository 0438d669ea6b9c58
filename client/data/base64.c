#include "client/data/base64.h"

#include <stdint.h>
#include <stdlib.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *client_base64_encode(const void *bytes, size_t size)
{
    const unsigned char *from = bytes;
    if (size > SIZE_MAX / 2)
        return NULL;
    char *text = malloc((size + 2) / 3 * 4 + 1), *to = text;
    if (!text)
        return NULL;
    for (size_t i = 0; i < size; i += 3) {
        size_t count = size - i < 3 ? size - i : 3;
        unsigned long group = (unsigned long)from[i] << 16;
        group |= count > 1 ? (unsigned long)from[i + 1] << 8 : 0;
        group |= count > 2 ? (unsigned long)from[i + 2] : 0;
        *to++ = digits[group >> 18];
        *to++ = digits[group >> 12 & 63];
        *to++ = digits[group >> 6 & 63];
        *to++ = digits[group & 63];
        if (count < 3)
            to[-1] = '=';
        if (count < 2)
            to[-2] = '=';
    }
    *to = '\0';
    return text;
}
