/* A kernel whose threads meet in parts of a block, which tests/unit/emulation/emulation_block.c launches:
 * what they should find, and what they should not do. */
#ifndef CONVOY_TESTS_BLOCK_KERNELS_H
#define CONVOY_TESTS_BLOCK_KERNELS_H

#include <cuda_runtime.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum block_fault {
    BLOCK_SOUND,
    BLOCK_NO_SYNC,    /* the first threads read what may not have been written */
    BLOCK_TWO_PLACES, /* the block's threads meet at two __syncthreads() */
    BLOCK_ENDED,      /* a warp of the first threads ends while the others wait for it */
    BLOCK_ODD_COPY,   /* a bulk copy from 8 bytes further */
    BLOCK_HASTY,      /* a lane gives a place back for its warp, whose others may not have looked yet */
    BLOCK_MORE_BYTES, /* a barrier expects more than a copy brings */
    BLOCK_BEYOND      /* none: the sum is whether what lies behind shared memory may not be read */
};

/* Blocks of `threads` threads. The first `part` of each lay down a number each, meet by themselves, and put
 * the next one's number into a second row. Then all threads meet, and thread t writes number t % part of that
 * row to seen[block * threads + t]: block_number(block, (t % part + 1) % part). part: a multiple of 32. */
cudaError_t block_parts(uint32_t *seen, unsigned blocks, unsigned threads, unsigned part,
                        enum block_fault fault, cudaStream_t stream);

/* The block's only thread copies 16 numbers from `from` into shared memory by the copy engine, and writes
 * their sum to `sum`. */
cudaError_t block_copies(uint32_t *sum, const uint32_t *from, enum block_fault fault, cudaStream_t stream);

#define BLOCK_TURNS 2  /* that block_turns() takes */
#define BLOCK_TURN  16 /* numbers of each */

/* Blocks of two warps. A thread of the second one copies turn after turn of `from` to one place in shared
 * memory, each when the first one has given the place back; the first turn's bytes are expected from the
 * beginning. Lane l of the first warp writes the sum of the turns' numbers l % BLOCK_TURN to seen[block * 32
 * + l]. */
cudaError_t block_turns(uint32_t *seen, const uint32_t *from, unsigned blocks, enum block_fault fault,
                        cudaStream_t stream);

/* What a thread of the first ones lays down. */
static inline uint32_t block_number(uint32_t block, uint32_t thread)
{
    return (block + 1) * 40503u + thread * 977u;
}

#ifdef __cplusplus
}
#endif
#endif
