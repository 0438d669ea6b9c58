#include "client/data/picture_type.h"

#include <string.h>

static int begins(const void *bytes, size_t size, const char *with, size_t length)
{
    return size >= length && memcmp(bytes, with, length) == 0;
}

const char *client_picture_type(const void *bytes, size_t size)
{
    if (begins(bytes, size, "\xFF\xD8\xFF", 3))
        return "image/jpeg";
    if (begins(bytes, size, "\x89PNG\r\n\x1A\n", 8))
        return "image/png";
    if (begins(bytes, size, "GIF87a", 6) || begins(bytes, size, "GIF89a", 6))
        return "image/gif";
    if (begins(bytes, size, "RIFF", 4) && size >= 12 && memcmp((const char *)bytes + 8, "WEBP", 4) == 0)
        return "image/webp";
    return NULL;
}
