/* Reads a whole file. */
#ifndef CONVOY_CLIENT_FILE_H
#define CONVOY_CLIENT_FILE_H

#include "client/lib/convoy.h"

/* Reads path ("-": standard input) to its end, at most 1 GiB. The caller frees *bytes, which is never NULL
 * after success. Returns 0, or a negative errno with a message that names the file. */
int client_file_read(const char *path, void **bytes, size_t *size, struct convoy_failure *failure);

/* The same of at most about `most` bytes (up to twice as many through a pipe); -EFBIG for more. */
int client_file_read_most(const char *path, size_t most, void **bytes, size_t *size,
                          struct convoy_failure *failure);

#endif
