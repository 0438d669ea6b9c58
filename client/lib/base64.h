/* Decodes base64 (RFC 4648, section 4, with its '='), as servers write binary data in JSON. Part of
 * libconvoy, but not of its interface. */
#ifndef CONVOY_CLIENT_BASE64_H
#define CONVOY_CLIENT_BASE64_H

#include <stddef.h>

/* *bytes becomes malloc'd memory, the caller's, never NULL after success. Returns 0, -EINVAL where text is no
 * base64, or -ENOMEM. */
int client_base64_decode(const char *text, void **bytes, size_t *size);

#endif
