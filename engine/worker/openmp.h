/* How OpenMP's threads wait, with which the CPU backend's library computes. */
#ifndef CONVOY_ENGINE_WORKER_OPENMP_H
#define CONVOY_ENGINE_WORKER_OPENMP_H

/* Sets OMP_WAIT_POLICY and GOMP_SPINCOUNT in the environment, unless one of them is there: an operator's own
 * choice wins. To be called before a module is loaded, as libgomp reads them once, and before other threads
 * start. */
void convoy_worker_prepare_openmp(void);

#endif
