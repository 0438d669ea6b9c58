/* Reading a file whole. */
#ifndef CONVOY_CLIENT_FILE_H
#define CONVOY_CLIENT_FILE_H

#include "client/lib/convoy.h"

/* Reads path ("-" is standard input) to its end, at most 1 GiB. *bytes is for free(), and never NULL after
 * success. 0 or a negative errno with a sentence that names the file. */
int client_file_read(const char *path, void **bytes, size_t *size, struct convoy_failure *failure);

#endif
