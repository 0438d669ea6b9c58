/* OpenMP's team, with which oneDNN computes. */
#ifndef CONVOY_ENGINE_CPU_THREADS_H
#define CONVOY_ENGINE_CPU_THREADS_H

/* Functions of libgomp, declared here because other tools do not find omp.h, which belongs to the compiler. A
 * primitive must run with the team size that it was made with. */
extern void omp_set_num_threads(int threads);
extern int omp_get_max_threads(void);
extern int omp_get_num_threads(void);
extern int omp_get_thread_num(void);

/* What compilers make of `#pragma omp parallel`: body(context) on each thread of a team, flags 0. */
extern void GOMP_parallel(void (*body)(void *context), void *context, unsigned threads, unsigned flags);

#endif
