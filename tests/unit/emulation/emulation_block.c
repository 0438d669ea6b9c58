/* Threads of a block that meet in parts (convoy_threads_sync() of kernels/device/wgmma.cuh) on the emulated
 * device, and what the hardware or compute-sanitizer would not forgive of them. */
#include "tests/emulation/block_kernels.h"
#include "tests/unit/emulation/aborts.h"

#include <criterion/criterion.h>

/* How many threads saw something else than they should. */
static unsigned wrong(unsigned threads, unsigned part, enum block_fault fault)
{
    enum { BLOCKS = 5 };
    unsigned bad = 0;
    uint32_t *seen;
    cr_assert_eq(cudaMalloc((void **)&seen, (size_t)BLOCKS * threads * sizeof *seen), cudaSuccess);
    cr_assert_eq(block_parts(seen, BLOCKS, threads, part, fault, NULL), cudaSuccess);
    cr_assert_eq(cudaDeviceSynchronize(), cudaSuccess);
    for (unsigned i = 0; i < BLOCKS * threads; i++)
        bad += seen[i] != block_number(i / threads, (i % threads % part + 1) % part);
    cr_assert_eq(cudaFree(seen), cudaSuccess);
    return bad;
}

static void launch(int fault)
{
    wrong(128, 64, (enum block_fault)fault);
}

/* The sum of the numbers 0, 3, 6, ... that a thread copies. */
static uint32_t copied(enum block_fault fault)
{
    enum { NUMBERS = 18 };
    uint32_t sum = 0, numbers[NUMBERS], *device;
    for (uint32_t i = 0; i < NUMBERS; i++)
        numbers[i] = 3 * i;
    cr_assert_eq(cudaMalloc((void **)&device, sizeof numbers + sizeof sum), cudaSuccess);
    cr_assert_eq(cudaMemcpy(device, numbers, sizeof numbers, cudaMemcpyHostToDevice), cudaSuccess);
    cr_assert_eq(block_copies(device + NUMBERS, device, fault, NULL), cudaSuccess);
    cr_assert_eq(cudaMemcpy(&sum, device + NUMBERS, sizeof sum, cudaMemcpyDeviceToHost), cudaSuccess);
    cr_assert_eq(cudaFree(device), cudaSuccess);
    return sum;
}

static void launch_copy(int fault)
{
    copied((enum block_fault)fault);
}

/* How many lanes saw other numbers than were copied. */
static unsigned wrong_turns(enum block_fault fault)
{
    enum { BLOCKS = 40, NUMBERS = BLOCK_TURNS * BLOCK_TURN };
    uint32_t numbers[NUMBERS], *from, *seen;
    unsigned bad = 0;
    for (uint32_t i = 0; i < NUMBERS; i++)
        numbers[i] = block_number(0, i);
    cr_assert_eq(cudaMalloc((void **)&from, sizeof numbers), cudaSuccess);
    cr_assert_eq(cudaMalloc((void **)&seen, (size_t)BLOCKS * 32 * sizeof *seen), cudaSuccess);
    cr_assert_eq(cudaMemcpy(from, numbers, sizeof numbers, cudaMemcpyHostToDevice), cudaSuccess);
    cr_assert_eq(block_turns(seen, from, BLOCKS, fault, NULL), cudaSuccess);
    cr_assert_eq(cudaDeviceSynchronize(), cudaSuccess);
    for (unsigned i = 0; i < BLOCKS * 32; i++) {
        uint32_t sum = 0;
        for (unsigned turn = 0; turn < BLOCK_TURNS; turn++)
            sum += numbers[turn * BLOCK_TURN + i % BLOCK_TURN];
        bad += seen[i] != sum;
    }
    cr_assert_eq(cudaFree(from), cudaSuccess);
    cr_assert_eq(cudaFree(seen), cudaSuccess);
    return bad;
}

static void launch_turns(int fault)
{
    wrong_turns((enum block_fault)fault);
}

Test(emulation_block, a_lane_that_speaks_too_early_for_its_warp_shows)
{
    cr_expect_eq(wrong_turns(BLOCK_SOUND), 0);
    expect_abort(launch_turns, BLOCK_HASTY, "wait for others that wait elsewhere");
}

Test(emulation_block, a_barrier_waits_for_all_bytes_that_it_expects)
{
    expect_abort(launch_turns, BLOCK_MORE_BYTES, "wait for others that wait elsewhere");
}

Test(emulation_block, the_copy_engine_wants_multiples_of_16)
{
    cr_expect_eq(copied(BLOCK_SOUND), 3 * 15 * 16 / 2);
    expect_abort(launch_copy, BLOCK_ODD_COPY, "multiples of 16");
}

#ifdef __SANITIZE_ADDRESS__
Test(emulation_block, the_sanitizer_sees_who_leaves_the_shared_memory_of_a_launch)
{
    cr_expect_eq(copied(BLOCK_BEYOND), 1);
}
#endif

Test(emulation_block, the_first_threads_meet_while_the_others_wait_elsewhere)
{
    cr_expect_eq(wrong(128, 64, BLOCK_SOUND), 0);
    cr_expect_eq(wrong(384, 256, BLOCK_SOUND), 0);
    cr_expect_eq(wrong(64, 64, BLOCK_SOUND), 0, "all of a block");
}

Test(emulation_block, a_missing_barrier_shows)
{
    cr_expect_gt(wrong(128, 64, BLOCK_NO_SYNC), 0);
}

Test(emulation_block, what_is_forbidden_aborts)
{
    expect_abort(launch, BLOCK_TWO_PLACES, "meet in different places");
    expect_abort(launch, BLOCK_ENDED, "wait for others that wait elsewhere");
}
