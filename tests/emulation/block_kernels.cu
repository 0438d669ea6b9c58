/* The first threads of a block meet without the others, and a thread asks the copy engine; each fault leaves
 * out what the hardware wants. */
#include "tests/emulation/block_kernels.h"

#include "kernels/device/bulk_copy.cuh"
#include "kernels/device/launch.cuh"
#include "kernels/device/tensor_copy.cuh"
#include "kernels/device/wgmma.cuh"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

static __global__ void parts(uint32_t *seen, int part, enum block_fault fault)
{
    CONVOY_DYNAMIC_SHARED(uint32_t, laid);
    uint32_t *next = laid + part;
    int thread = (int)threadIdx.x;
    if (thread < part) {
        laid[thread] = block_number(blockIdx.x, threadIdx.x);
        if (fault == BLOCK_ENDED && thread < 32)
            return;
        if (fault != BLOCK_NO_SYNC)
            convoy_threads_sync(part);
        next[thread] = laid[(thread + 1) % part];
    } else if (fault == BLOCK_TWO_PLACES) {
        __syncthreads();
        return;
    }
    __syncthreads();
    seen[blockIdx.x * blockDim.x + threadIdx.x] = next[thread % part];
}

cudaError_t block_parts(uint32_t *seen, unsigned blocks, unsigned threads, unsigned part,
                        enum block_fault fault, cudaStream_t stream)
{
    return convoy_launch_as(convoy_launch_form{1, false}, parts, dim3(blocks), dim3(threads),
                            2 * part * sizeof(uint32_t), stream, seen, (int)part, fault);
}

static __global__ void copies(uint32_t *sum, const uint32_t *from, enum block_fault fault)
{
    CONVOY_DYNAMIC_SHARED(uint32_t, numbers);
    uint64_t *barrier = reinterpret_cast<uint64_t *>(numbers + 16);
    convoy_barrier_make(barrier, 1);
    __syncthreads();
    convoy_copy_bulk(numbers, from + (fault == BLOCK_ODD_COPY ? 2 : 0), 16 * sizeof(uint32_t), barrier);
    convoy_barrier_wait(barrier, 0);
    *sum = 0;
    for (int i = 0; i < 16; i++)
        *sum += numbers[i];
#ifdef __SANITIZE_ADDRESS__
    if (fault == BLOCK_BEYOND)
        *sum = !__asan_address_is_poisoned(numbers + 17) && __asan_address_is_poisoned(numbers + 18);
#endif
}

cudaError_t block_copies(uint32_t *sum, const uint32_t *from, enum block_fault fault, cudaStream_t stream)
{
    return convoy_launch(copies, dim3(1), dim3(1), 16 * sizeof(uint32_t) + sizeof(uint64_t), stream, sum,
                         from, fault);
}

static __global__ void turns(uint32_t *seen, const uint32_t *from, enum block_fault fault)
{
    constexpr int BYTES = BLOCK_TURN * (int)sizeof(uint32_t);
    CONVOY_DYNAMIC_SHARED(uint32_t, numbers);
    uint64_t *full = reinterpret_cast<uint64_t *>(numbers + BLOCK_TURN), *empty = full + 1;
    int lane = (int)threadIdx.x % 32;
    uint32_t sum = 0;
    if (threadIdx.x == 0) {
        convoy_barrier_make(full, 1);
        convoy_barrier_make(empty, 1);
        convoy_barrier_expect(full, BYTES + (fault == BLOCK_MORE_BYTES ? 16 : 0));
    }
    __syncthreads();
    __syncwarp(); /* the copying warp may come late */
    for (int turn = 0; turn < BLOCK_TURNS && threadIdx.x < 32; turn++) {
        convoy_barrier_wait(full, turn % 2);
        sum += numbers[lane % BLOCK_TURN];
        if (fault != BLOCK_HASTY)
            __syncwarp();
        convoy_barrier_arrive_if(lane == 0, empty);
    }
    for (int turn = 0; turn < BLOCK_TURNS && threadIdx.x == 32; turn++) {
        if (turn > 0) {
            convoy_barrier_wait(empty, (turn - 1) % 2);
            convoy_barrier_expect(full, BYTES);
        }
        convoy_copy_row(numbers, from + turn * BLOCK_TURN, BYTES, full);
    }
    if (threadIdx.x < 32)
        seen[blockIdx.x * 32 + threadIdx.x] = sum;
}

cudaError_t block_turns(uint32_t *seen, const uint32_t *from, unsigned blocks, enum block_fault fault,
                        cudaStream_t stream)
{
    return convoy_launch(turns, dim3(blocks), dim3(64), BLOCK_TURN * sizeof(uint32_t) + 2 * sizeof(uint64_t),
                         stream, seen, from, fault);
}
