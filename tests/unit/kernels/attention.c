/* Attention whose queries are divided among blocks, where heads are fewer than multiprocessors (of which the
 * emulated device counts two): the same bits as of heads that a block makes as a whole. */
#include "kernels/nhwc.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#define HEADS   2
#define D       64
#define PIXEL   (HEADS * D)
#define QUERIES 150 /* three tiles, the last of which is not full */
#define KEYS    133
#define MARK    7

static convoy_fp16 *on_device(const convoy_fp16 *numbers, size_t count)
{
    convoy_fp16 *memory = NULL;
    cr_assert_eq(cudaMalloc((void **)&memory, count * sizeof *memory), cudaSuccess);
    cr_assert_eq(cudaMemcpy(memory, numbers, count * sizeof *memory, cudaMemcpyHostToDevice), cudaSuccess);
    return memory;
}

/* fp16 of both signs between 1/8 and 2. */
static void any_numbers(convoy_fp16 *numbers, size_t count, uint32_t seed)
{
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        numbers[i] = (convoy_fp16)((seed >> 16 & 0x8000u) | (0x3000u + (seed >> 8 & 0xfffu)));
    }
}

static struct convoy_nhwc_rows_of_heads rows_of(int count)
{
    return (struct convoy_nhwc_rows_of_heads){.image = (int64_t)count * PIXEL, .pixel = PIXEL, .head = D};
}

/* y of both heads, made in one launch or in one for each head. */
static void attend(bool one_by_one, convoy_fp16 *y)
{
    static convoy_fp16 q[QUERIES * PIXEL], k[KEYS * PIXEL], v[KEYS * PIXEL];
    struct convoy_nhwc_attention shape = {.n = 1,
                                          .windows = 1,
                                          .heads = one_by_one ? 1 : HEADS,
                                          .queries = QUERIES,
                                          .keys = KEYS,
                                          .d = D,
                                          .scale = 0.25F,
                                          .q = rows_of(QUERIES),
                                          .k = rows_of(KEYS),
                                          .v = rows_of(KEYS),
                                          .y = rows_of(QUERIES)};
    any_numbers(q, QUERIES * PIXEL, 1);
    any_numbers(k, KEYS * PIXEL, 2);
    any_numbers(v, KEYS * PIXEL, 3);
    convoy_fp16 *device[] = {on_device(q, QUERIES * PIXEL), on_device(k, KEYS * PIXEL),
                             on_device(v, KEYS * PIXEL), on_device(y, QUERIES * PIXEL)};
    for (int head = 0; head < (one_by_one ? HEADS : 1); head++)
        cr_assert_eq(convoy_launch_nhwc_attention(&shape, device[0] + head * D, device[1] + head * D,
                                                  device[2] + head * D, NULL, device[3] + head * D,
                                                  (struct convoy_overflow){NULL, MARK}, NULL),
                     cudaSuccess);
    cr_assert_eq(cudaDeviceSynchronize(), cudaSuccess);
    cr_assert_eq(cudaMemcpy(y, device[3], QUERIES * PIXEL * sizeof *y, cudaMemcpyDeviceToHost), cudaSuccess);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(cudaFree(device[i]), cudaSuccess);
}

/* How many numbers differ between whole heads and heads by themselves. */
static int differences(void)
{
    static convoy_fp16 whole[QUERIES * PIXEL], divided[QUERIES * PIXEL];
    int count = 0;
    memset(whole, 0xff, sizeof whole);
    memset(divided, 0xff, sizeof divided);
    attend(false, whole);
    attend(true, divided);
    for (int i = 0; i < QUERIES * PIXEL; i++) {
        cr_assert_neq(whole[i], 0xffff, "number %d was not written", i);
        count += whole[i] != divided[i];
    }
    return count;
}

Test(attention, divided_queries_give_the_same_bits)
{
    cr_expect_eq(differences(), 0);
}
