/* Writes a file that is never half written under its name. */
#ifndef CONVOY_CLIENT_OUTPUT_FILE_H
#define CONVOY_CLIENT_OUTPUT_FILE_H

#include <stdio.h>

#include "client/lib/convoy.h"

/* Checks that client_output_file_write can begin, and leaves everything as it is; for what takes long to
 * compute. Returns 0, or a negative errno with a message. */
int client_output_file_check(const char *path, struct convoy_failure *failure);

/* Calls write(out, context), which returns 0 or a negative errno, and makes what it wrote the content of
 * path: through a temporary file beside it that is renamed, which replaces an old file (a symbolic link
 * stays, the file that it names is replaced). A path that is no regular file, as a pipe or /dev/stdout, is
 * written directly. After an error the old file is untouched. Returns 0, or a negative errno with a message.
 */
int client_output_file_write(const char *path, int (*write)(FILE *out, const void *context),
                             const void *context, struct convoy_failure *failure);

#endif
