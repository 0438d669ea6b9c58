#include "client/lib/base64.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int value_of(char letter)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = letter ? strchr(letters, letter) : NULL;
    return at ? (int)(at - letters) : -1;
}

int client_base64_decode(const char *text, void **bytes, size_t *size)
{
    size_t length = strlen(text), padding = 0;
    while (padding < 2 && padding < length && text[length - 1 - padding] == '=')
        padding++;
    if (length % 4 != 0)
        return -EINVAL;
    unsigned char *out = malloc(length / 4 * 3 + 1);
    if (!out)
        return -ENOMEM;
    unsigned bits = 0;
    *size = 0;
    for (size_t i = 0; i < length - padding; i++) {
        int value = value_of(text[i]);
        if (value < 0) {
            free(out);
            return -EINVAL;
        }
        bits = bits << 6 | (unsigned)value;
        if (i % 4 != 0)
            out[(*size)++] = (unsigned char)(bits >> (6 - i % 4 * 2));
    }
    *bytes = out;
    return 0;
}
