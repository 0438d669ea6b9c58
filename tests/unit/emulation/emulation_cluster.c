/* Clusters of thread blocks (kernels/device/cluster.cuh) on the emulated device: each block has its own
 * shared memory and number, finds what the others wrote, and what the hardware would not forgive is not
 * forgiven. */
#include "tests/emulation/cluster_kernels.h"
#include "tests/unit/emulation/aborts.h"

#include <criterion/criterion.h>

static double told_to(uint32_t block, uint32_t thread, uint32_t cluster)
{
    double sum = 0;
    for (uint32_t round = 0; round < CLUSTER_ROUNDS; round++)
        for (uint32_t teller = block / cluster * cluster; teller < (block / cluster + 1) * cluster; teller++)
            sum += 3.0 * cluster_told(teller, thread, block % cluster, round);
    return sum;
}

/* How many threads were told something else than they should, of two grids of clusters one after the other.
 */
static unsigned wrong(unsigned cluster, unsigned threads, enum cluster_fault fault)
{
    unsigned blocks = 3 * cluster, bad = 0;
    double *sums;
    cr_assert_eq(cudaMalloc((void **)&sums, blocks * threads * sizeof *sums), cudaSuccess);
    for (int turn = 0; turn < 2; turn++) {
        cr_assert_eq(cluster_gossip(sums, blocks, threads, cluster, fault, NULL), cudaSuccess);
        cr_assert_eq(cudaDeviceSynchronize(), cudaSuccess);
        for (unsigned block = 0; block < blocks; block++)
            for (unsigned thread = 0; thread < threads; thread++)
                bad += !(sums[block * threads + thread] == told_to(block, thread, cluster));
    }
    cr_assert_eq(cudaFree(sums), cudaSuccess);
    return bad;
}

/* The same of what blocks look at in each other's shared memory. */
static unsigned seen_wrong(unsigned cluster, unsigned threads, enum cluster_fault fault)
{
    unsigned blocks = 3 * cluster, bad = 0;
    double *sums;
    cr_assert_eq(cudaMalloc((void **)&sums, blocks * threads * sizeof *sums), cudaSuccess);
    cr_assert_eq(cluster_glance(sums, blocks, threads, cluster, fault, NULL), cudaSuccess);
    cr_assert_eq(cudaDeviceSynchronize(), cudaSuccess);
    for (unsigned i = 0; i < blocks * threads; i++) {
        unsigned first = i / threads / cluster * cluster;
        double sum = 0;
        for (unsigned block = first; block < first + cluster; block++)
            for (unsigned rank = 0; rank < 4; rank++)
                sum += cluster_told(block, i % threads, rank, 0);
        bad += !(sums[i] == sum);
    }
    cr_assert_eq(cudaFree(sums), cudaSuccess);
    return bad;
}

Test(emulation_cluster, blocks_see_what_the_others_have)
{
    cr_expect_eq(seen_wrong(4, 64, CLUSTER_SOUND), 0);
    cr_expect_eq(seen_wrong(1, 32, CLUSTER_SOUND), 0);
    cr_expect_eq(seen_wrong(8, 96, CLUSTER_SOUND), 0);
}

Test(emulation_cluster, blocks_find_what_the_others_wrote)
{
    cr_assert(cluster_known());
    cr_expect_eq(wrong(4, 64, CLUSTER_SOUND), 0);
    cr_expect_eq(wrong(1, 64, CLUSTER_SOUND), 0);
    cr_expect_eq(wrong(2, 1024, CLUSTER_SOUND), 0);
    cr_expect_eq(wrong(3, 33, CLUSTER_SOUND), 0, "a last warp that is not full");
}

Test(emulation_cluster, the_largest)
{
    cr_expect_eq(wrong(16, 512, CLUSTER_SOUND), 0);
}

Test(emulation_cluster, a_missing_barrier_shows)
{
    cr_expect_gt(wrong(4, 64, CLUSTER_NO_SYNC), 0);
    cr_expect_gt(wrong(4, 64, CLUSTER_NO_SECOND_SYNC), 0);
    cr_expect_gt(wrong(2, 32, CLUSTER_NO_SYNC), 0);
    cr_expect_gt(wrong(2, 32, CLUSTER_NO_SECOND_SYNC), 0);
}

static void gossip(int fault)
{
    wrong(4, 64, (enum cluster_fault)fault);
}

static void glance(int fault)
{
    seen_wrong(4, 64, (enum cluster_fault)fault);
}

Test(emulation_cluster, looks_that_the_hardware_forbids_abort)
{
    expect_abort(glance, CLUSTER_NO_FIRST_SYNC, "before a first cluster barrier");
    expect_abort(glance, CLUSTER_NO_LAST_SYNC, "access");
}

Test(emulation_cluster, what_the_hardware_forbids_aborts)
{
    expect_abort(gossip, CLUSTER_NO_FIRST_SYNC, "before a first cluster barrier");
    expect_abort(gossip, CLUSTER_NO_LAST_SYNC, "ends without a cluster barrier");
    expect_abort(gossip, CLUSTER_LATE, "which has ended");
    expect_abort(gossip, CLUSTER_OUTSIDE, "not in dynamic shared memory");
    expect_abort(gossip, CLUSTER_NO_SUCH_BLOCK, "block 4 of a cluster of 4");
    expect_abort(gossip, CLUSTER_ELSEWHERE, "wait for others that wait elsewhere");
}

Test(emulation_cluster, ranks_and_warps)
{
    enum { BLOCKS = 6, CLUSTER = 3 };
    int(*seen)[2], products = 32 * 32;
    for (int i = 0; i < 32; i++)
        products += i * (i ^ 1);
    cr_assert_eq(cudaMalloc((void **)&seen, BLOCKS * 6 * sizeof *seen), cudaSuccess);
    cr_assert_eq(cluster_ranks(seen, BLOCKS, CLUSTER, NULL), cudaSuccess);
    cr_assert_eq(cudaDeviceSynchronize(), cudaSuccess);
    for (int i = 0; i < BLOCKS * 6; i++) {
        cr_expect_eq(seen[i][0], i % CLUSTER, "block %d", i);
        cr_expect_eq(seen[i][1], products, "block %d", i);
    }
    cr_assert_eq(cudaFree(seen), cudaSuccess);
}

Test(emulation_cluster, sizes_that_cannot_be)
{
    cr_expect_eq(cluster_plain(8, 8, NULL), cudaSuccess);
    cr_expect_eq(cluster_plain(9, 8, NULL), cudaErrorInvalidClusterSize, "a grid that is no multiple");
    cr_expect_eq(cluster_plain(16, 16, NULL), cudaErrorInvalidClusterSize, "not allowed for that kernel");
    cr_expect_eq(cluster_gossip(NULL, 17, 32, 17, CLUSTER_SOUND, NULL), cudaErrorInvalidClusterSize);
    cr_expect_eq(cudaGetLastError(), cudaErrorInvalidClusterSize);
    cr_expect_eq(cudaGetLastError(), cudaSuccess);
}
