/* Fills struct convoy_failure. */
#ifndef CONVOY_CLIENT_FAILURE_H
#define CONVOY_CLIENT_FAILURE_H

#include "client/lib/convoy.h"

/* Writes a message into failure (may be NULL), clears its other members and returns code, so that callers
 * write `return client_fail_with(failure, -EINVAL, "...", ...)`. A message that is too long is truncated. */
__attribute__((format(printf, 3, 4))) int client_fail_with(struct convoy_failure *failure, int code,
                                                           const char *format, ...);

#endif
