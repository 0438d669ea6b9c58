/* A pool of large buffers, kept for the next request: a tensor of several MB in fresh memory costs a page
 * fault for each 4 KB, together more than the copying. Process-wide, any thread.
 *
 * The kept buffers, in use or not, have at most CONVOY_BUFFER_POOL_BYTES bytes together, which
 * comes on top of what body_quota.h counts. */
#ifndef CONVOY_SERVER_BUFFER_POOL_H
#define CONVOY_SERVER_BUFFER_POOL_H

#include <stddef.h>

#define CONVOY_BUFFER_POOL_BYTES (64u * 1024 * 1024)

/* A kept buffer of at least so many bytes, or memory as malloc() gives it; NULL when memory is out. */
void *convoy_buffer_pool_new(size_t bytes);

/* A kept buffer of at least so many bytes, NULL when there is none that is not much too large: it takes no
 * memory that is not taken already. */
void *convoy_buffer_pool_kept(size_t bytes);

/* As realloc(), with copying where the buffer is not as large already. */
void *convoy_buffer_pool_grow(void *buffer, size_t bytes);

/* Takes what the functions above gave, or malloc(): keeps it, if it is large and there is room, or frees it.
 * NULL is allowed. */
void convoy_buffer_pool_free(void *buffer);

#endif
