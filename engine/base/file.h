/* Reading a small file at once. Any thread. */
#ifndef CONVOY_ENGINE_BASE_FILE_H
#define CONVOY_ENGINE_BASE_FILE_H

#include "engine/base/error.h"

#include <stddef.h>

/* Reads the regular file path into *text, malloc'd by this call and owned by the caller; a NUL that *length
 * does not count follows. -EFBIG past most bytes, -EINVAL when path is no regular file, the errno of open(2)
 * and read(2), -ENOMEM; the sentence begins with path. */
int convoy_file_read(const char *path, size_t most, char **text, size_t *length, struct convoy_error *error);

#endif
