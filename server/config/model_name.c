#include "server/config/model_name.h"

#include <string.h>

bool convoy_model_name_valid(const char *text)
{
    size_t length = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");
    return length >= 1 && length <= CONVOY_MODEL_NAME_BYTES && text[length] == '\0' && text[0] != '.';
}

bool convoy_model_version_valid(const char *text)
{
    size_t length = strspn(text, "0123456789");
    return length >= 1 && length <= 9 && text[length] == '\0' && text[0] != '0';
}
