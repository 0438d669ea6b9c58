/* OpenMP's team, which oneDNN computes with. */
#ifndef CONVOY_ENGINE_CPU_THREADS_H
#define CONVOY_ENGINE_CPU_THREADS_H

/* libgomp's own; its header is the compiler's, which other tools that read this code do not find. A primitive
 * must run with the team size that it was made with. */
extern void omp_set_num_threads(int threads);
extern int omp_get_max_threads(void);

#endif
