/* A loop's work on the team of openmp.h, the threads on which oneDNN computes. */
#ifndef CONVOY_ENGINE_CPU_PARALLEL_H
#define CONVOY_ENGINE_CPU_PARALLEL_H

#include <stdint.h>

struct convoy_cpu_range {
    int64_t first, end;
};

/* Calls work(context, range) once for each of `threads` ranges that together are 0 to count, in parallel;
 * returns when all have returned. Where one ends, a multiple of 16 has been reached, or count. threads is the
 * size of the calling thread's teams; with 1 that thread does it all. */
void convoy_cpu_parallel(int threads, int64_t count, void (*work)(void *context, struct convoy_cpu_range),
                         void *context);

#endif
