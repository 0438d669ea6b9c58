/* Kernels in clusters that tests/unit/emulation/emulation_cluster.c launches: what they should find, and what
 * they should not do. */
#ifndef CONVOY_TESTS_CLUSTER_KERNELS_H
#define CONVOY_TESTS_CLUSTER_KERNELS_H

#include <cuda_runtime.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum cluster_fault {
    CLUSTER_SOUND,
    CLUSTER_NO_FIRST_SYNC,  /* writes to a block that may not have started */
    CLUSTER_NO_SYNC,        /* reads what may not have come */
    CLUSTER_NO_SECOND_SYNC, /* writes over what may not have been read */
    CLUSTER_NO_LAST_SYNC,   /* a block ends after it was written to */
    CLUSTER_LATE,           /* and is written to when it has ended */
    CLUSTER_OUTSIDE,        /* writes beyond the shared memory */
    CLUSTER_NO_SUCH_BLOCK,
    CLUSTER_ELSEWHERE /* a thread waits at another barrier */
};

#define CLUSTER_ROUNDS 4

/* In each round each thread of each block tells the thread of the same number of every block of its cluster
 * a number (cluster_told) in the three kinds of stores, and adds up what it was told: into
 * sums[block * threads + thread]. */
cudaError_t cluster_gossip(double *sums, unsigned blocks, unsigned threads, unsigned cluster,
                           enum cluster_fault fault, cudaStream_t stream);

/* Each thread looks at four numbers that the thread of the same number of every block of its cluster laid
 * down (cluster_told for ranks 0 to 3), and adds them up. Of the faults CLUSTER_NO_FIRST_SYNC and
 * CLUSTER_NO_LAST_SYNC. */
cudaError_t cluster_glance(double *sums, unsigned blocks, unsigned threads, unsigned cluster,
                           enum cluster_fault fault, cudaStream_t stream);

/* A grid of blocks x 2 x 3, each of 33 threads, which make a warp of 32 and one of 1. Into
 * seen[(z * 2 + y) * blocks + x]: the rank of that block, and the sum over its threads of the thread's number
 * times that of its neighbour in the warp (1 for 0, 0 for 1, ...), which is its own where it has none. Shared
 * memory that was not fresh would spoil it. */
cudaError_t cluster_ranks(int (*seen)[2], unsigned blocks, unsigned cluster, cudaStream_t stream);

/* A launch that does nothing, of clusters of exactly this size and of a kernel that was never allowed more
 * than 8 blocks. */
cudaError_t cluster_plain(unsigned blocks, unsigned cluster, cudaStream_t stream);

int cluster_known(void); /* what convoy_has_clusters() says */

/* What thread of block tells that of the same number of block rank of its cluster: a number of 16 bits. */
static inline uint32_t cluster_told(uint32_t block, uint32_t thread, uint32_t rank, uint32_t round)
{
    return ((block + 1) * 40503u + thread * 977u + rank * 131u + round * 7919u) & 0xffffu;
}

#ifdef __cplusplus
}
#endif
#endif
