/* Large pieces of memory, kept for the next request: a tensor of several MB in fresh memory costs a page
 * fault for each 4 KB, together more than the copying. Process-wide, any thread.
 *
 * What is kept is resident, at most CONVOY_BUFFERS_KEPT bytes; it belongs to no request and counts for none
 * (body_memory.h). Everything here is memory of malloc(): what malloc() gave may be freed here. */
#ifndef CONVOY_SERVER_BUFFER_H
#define CONVOY_SERVER_BUFFER_H

#include <stddef.h>

#define CONVOY_BUFFERS_KEPT (64u * 1024 * 1024)

/* A kept buffer of at least so many bytes, or memory as malloc() gives it; NULL when memory is out. */
void *convoy_buffer_new(size_t bytes);

/* A kept buffer of at least so many bytes, NULL when there is none: it takes no memory that is not taken
 * already. */
void *convoy_buffer_kept(size_t bytes);

/* As realloc(), with copying where the buffer is not as large already. */
void *convoy_buffer_grow(void *buffer, size_t bytes);

/* Keeps it, if it is large and there is room. NULL is allowed. */
void convoy_buffer_free(void *buffer);

#endif
