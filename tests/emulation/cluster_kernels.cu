/* Blocks of a cluster that tell each other numbers; each fault leaves out what the hardware wants. */
#include "tests/emulation/cluster_kernels.h"

#include "kernels/device/cluster.cuh"
#include "kernels/device/launch.cuh"

#define PLACE_BYTES (sizeof(uint32_t) + sizeof(float) + sizeof(uint16_t))

/* Shared memory of a block, of what each block's threads told it: words, floats, halves, [rank][thread] each.
 */
static __global__ void gossip(double *sums, int cluster, enum cluster_fault fault)
{
    CONVOY_DYNAMIC_SHARED(uint32_t, words);
    int threads = (int)blockDim.x, thread = (int)threadIdx.x, own = convoy_cluster_rank();
    float *floats = (float *)(words + cluster * threads);
    uint16_t *halves = (uint16_t *)(floats + cluster * threads);
    int mine = own * threads + thread + (fault == CLUSTER_OUTSIDE ? 3 * cluster * threads : 0);
    int skew = fault == CLUSTER_NO_SUCH_BLOCK ? 1 : 0;
    double sum = 0;
    if (fault == CLUSTER_ELSEWHERE && own == 1 && thread == 0)
        __syncthreads();
    if (fault != CLUSTER_NO_FIRST_SYNC)
        convoy_cluster_sync();
    for (int round = 0; round < CLUSTER_ROUNDS; round++) {
        bool last = round + 1 == CLUSTER_ROUNDS;
        for (int rank = 0; rank < cluster; rank++) {
            uint32_t told = cluster_told(blockIdx.x, threadIdx.x, (uint32_t)rank, (uint32_t)round);
            convoy_cluster_store(words + mine, rank + skew, told);
            convoy_cluster_store(floats + mine, rank + skew, (float)told);
            convoy_cluster_store(halves + mine, rank + skew, (uint16_t)told);
        }
        if (fault == CLUSTER_NO_SYNC)
            __syncthreads();
        else
            convoy_cluster_sync();
        for (int rank = 0; rank < cluster; rank++) {
            int at = rank * threads + thread;
            sum += (double)words[at] + floats[at] + halves[at];
        }
        if (!last && fault != CLUSTER_NO_SECOND_SYNC)
            convoy_cluster_sync();
    }
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
    if (fault == CLUSTER_NO_SYNC)
        convoy_cluster_sync(); /* so that it ends well and is only wrong */
    if (own == (fault == CLUSTER_LATE ? 0 : 1) && fault != CLUSTER_SOUND)
        for (int i = 0; i < 100; i++)
            __syncthreads(); /* while another ends */
    if ((fault == CLUSTER_NO_LAST_SYNC || fault == CLUSTER_LATE) && own == 0)
        convoy_cluster_store(words + mine, 1, 0u);
}

static __global__ void glance(double *sums, int cluster, enum cluster_fault fault)
{
    CONVOY_DYNAMIC_SHARED(float4, own);
    float4 *mine = own + threadIdx.x;
    *mine = make_float4((float)cluster_told(blockIdx.x, threadIdx.x, 0, 0),
                        (float)cluster_told(blockIdx.x, threadIdx.x, 1, 0),
                        (float)cluster_told(blockIdx.x, threadIdx.x, 2, 0),
                        (float)cluster_told(blockIdx.x, threadIdx.x, 3, 0));
    double sum = 0;
    if (fault != CLUSTER_NO_FIRST_SYNC)
        convoy_cluster_sync();
    for (int rank = 0; rank < cluster; rank++) {
        float4 seen = convoy_cluster_load(mine, rank);
        sum += (double)seen.x + seen.y + seen.z + seen.w;
    }
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
    if (fault != CLUSTER_NO_LAST_SYNC)
        convoy_cluster_sync();
    else if (convoy_cluster_rank() == 0)
        for (int i = 0; i < 100; i++)
            __syncthreads(); /* while the others end */
}

static __global__ void ranks(int (*seen)[2])
{
    CONVOY_DYNAMIC_SHARED(int, given);
    int neighbour = __shfl_xor_sync(0xffffffffu, (int)threadIdx.x, 1);
    given[threadIdx.x] = given[threadIdx.x] == -1 ? neighbour : 1000000; /* whether the cell was untouched */
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    int *to = seen[(blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x];
    to[0] = convoy_cluster_rank();
    to[1] = 0;
    for (unsigned i = 0; i < blockDim.x; i++)
        to[1] += (int)i * given[i];
}

static __global__ void plain()
{
}

cudaError_t cluster_gossip(double *sums, unsigned blocks, unsigned threads, unsigned cluster,
                           enum cluster_fault fault, cudaStream_t stream)
{
    return convoy_launch_as(convoy_launch_form{cluster, false}, gossip, dim3(blocks), dim3(threads),
                            (size_t)cluster * threads * PLACE_BYTES, stream, sums, (int)cluster, fault);
}

cudaError_t cluster_glance(double *sums, unsigned blocks, unsigned threads, unsigned cluster,
                           enum cluster_fault fault, cudaStream_t stream)
{
    return convoy_launch_as(convoy_launch_form{cluster, false}, glance, dim3(blocks), dim3(threads),
                            threads * sizeof(float4), stream, sums, (int)cluster, fault);
}

cudaError_t cluster_ranks(int (*seen)[2], unsigned blocks, unsigned cluster, cudaStream_t stream)
{
    return convoy_launch_as(convoy_launch_form{cluster, false}, ranks, dim3(blocks, 2, 3), dim3(33),
                            33 * sizeof(int), stream, seen);
}

cudaError_t cluster_plain(unsigned blocks, unsigned cluster, cudaStream_t stream)
{
    cudaLaunchAttribute dimension = {};
    dimension.id = cudaLaunchAttributeClusterDimension;
    dimension.val.clusterDim.x = cluster;
    dimension.val.clusterDim.y = dimension.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(32);
    config.stream = stream;
    config.attrs = &dimension;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, plain);
}

int cluster_known(void)
{
    return convoy_has_clusters();
}
