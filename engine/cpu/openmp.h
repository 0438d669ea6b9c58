/* What oneDNN asks of OpenMP, by a team of ours. oneDNN hands each primitive to the threads of a team and
 * waits for all of them; of libgomp it takes the functions below. They are defined here: a module's own
 * symbols, and a program's, come before those of the libraries that it needs. Here threads wait as
 * wait_word.h says; libgomp's spin as long as the environment said at the start.
 *
 * The team is the process's, and its threads start with the first region that needs them. Regions of several
 * callers run one after the other; one inside a region runs on the calling thread. */
#ifndef CONVOY_ENGINE_CPU_OPENMP_H
#define CONVOY_ENGINE_CPU_OPENMP_H

#define CONVOY_CPU_OPENMP __attribute__((visibility("default")))

/* The size of the calling thread's teams. At first as many as OMP_NUM_THREADS says, or as processors that the
 * process may use. A primitive must run with the team size that it was made with. */
extern CONVOY_CPU_OPENMP void omp_set_num_threads(int threads);
extern CONVOY_CPU_OPENMP int omp_get_max_threads(void);

/* Within a region: its size, and the calling thread's number from 0 on. Elsewhere 1 and 0. */
extern CONVOY_CPU_OPENMP int omp_get_num_threads(void);
extern CONVOY_CPU_OPENMP int omp_get_thread_num(void);
extern CONVOY_CPU_OPENMP int omp_in_parallel(void);

/* A region, what compilers make of `#pragma omp parallel`: body(context) on each thread of a team. threads 0:
 * omp_get_max_threads(). flags are for where threads run, and not looked at. Where threads cannot be started
 * it ends the process: what they would have computed would be missing. */
extern CONVOY_CPU_OPENMP void GOMP_parallel(void (*body)(void *context), void *context, unsigned threads,
                                            unsigned flags);

/* Within a region: returns when all its threads have come here. */
extern CONVOY_CPU_OPENMP void GOMP_barrier(void);

/* Ends the team's threads; a later region starts them again. Not within a region. */
void convoy_cpu_openmp_stop(void);

#endif
