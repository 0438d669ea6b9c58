/* Filling struct convoy_failure. */
#ifndef CONVOY_CLIENT_FAILURE_H
#define CONVOY_CLIENT_FAILURE_H

#include "client/lib/convoy.h"

/* Puts a sentence into failure (may be NULL), clears the rest of it and gives code, so that callers write
 * `return client_fail_with(failure, -EINVAL, "...", ...)`. A sentence that is too long is cut. */
__attribute__((format(printf, 3, 4))) int client_fail_with(struct convoy_failure *failure, int code,
                                                           const char *format, ...);

#endif
