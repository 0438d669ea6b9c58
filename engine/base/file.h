/* Reads a small file as a whole. Any thread. */
#ifndef CONVOY_ENGINE_BASE_FILE_H
#define CONVOY_ENGINE_BASE_FILE_H

#include "engine/base/error.h"

#include <stddef.h>

/* Reads the regular file path into *text, which the caller frees; a NUL follows that *length does not count.
 * Returns 0, -EFBIG if the file has more than most bytes, -EINVAL if it is not a regular file, -ENOMEM, or
 * the errno of open(2) or read(2); the sentence begins with path. */
int convoy_file_read(const char *path, size_t most, char **text, size_t *length, struct convoy_error *error);

#endif
