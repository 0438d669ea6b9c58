/* Tells what kind of picture bytes are. Pure functions, any thread. */
#ifndef CONVOY_CLIENT_PICTURE_TYPE_H
#define CONVOY_CLIENT_PICTURE_TYPE_H

#include <stddef.h>

/* Returns the media type of a JPEG, PNG, WebP or GIF by its first bytes; NULL for all others. The rest of the
 * picture may be damaged. */
const char *client_picture_type(const void *bytes, size_t size);

#endif
