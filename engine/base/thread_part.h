/* Which part of a thing that is kept in parts the calling thread uses: counters that all threads add to,
 * locks that all threads take. On one cache line the cores would fetch it from each other with each request;
 * with a part for each thread they do only where there are more threads than parts.
 *
 * A thread's part never changes. Threads get parts in turn, as they first ask. Any thread; no lock. */
#ifndef CONVOY_ENGINE_BASE_THREAD_PART_H
#define CONVOY_ENGINE_BASE_THREAD_PART_H

#include <stdint.h>

#define CONVOY_THREAD_PARTS 32u

/* Below CONVOY_THREAD_PARTS. */
uint32_t convoy_thread_part(void);

#endif
