/* Base64 (RFC 4648), as JSON carries bytes. Pure functions, any thread. */
#ifndef CONVOY_CLIENT_BASE64_H
#define CONVOY_CLIENT_BASE64_H

#include <stddef.h>

/* Returns size bytes as NUL-terminated base64 in one line, with padding; the caller frees it. NULL when out
 * of memory. */
char *client_base64_encode(const void *bytes, size_t size);

#endif
