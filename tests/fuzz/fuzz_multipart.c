/* The form parser: the first line is the Content-Type, the rest the body. Counting and filling must agree,
 * and parts must lie inside the body. */
#include "server/http/multipart.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char type[256], boundary[CONVOY_BOUNDARY_MAX + 1];
    struct convoy_part parts[16];
    struct convoy_error error;
    size_t count, again;
    const uint8_t *newline = memchr(data, '\n', size);
    if (newline == NULL || (size_t)(newline - data) >= sizeof type)
        return 0;
    memcpy(type, data, (size_t)(newline - data));
    type[newline - data] = '\0';
    if (convoy_multipart_boundary(type, boundary, &error) != 0)
        return 0;
    const uint8_t *body = newline + 1;
    size_t length = size - (size_t)(body - data);
    if (convoy_multipart_split(body, length, boundary, NULL, size, &count, &error) != 0)
        return 0;
    if (convoy_multipart_split(body, length, boundary, parts, 16, &again, &error) != 0 ||
        again != (count < 17 ? count : 17))
        abort();
    for (size_t i = 0; i < count && i < 16; i++)
        if (parts[i].bytes < body || parts[i].bytes + parts[i].length > body + length)
            abort();
    return 0;
}
