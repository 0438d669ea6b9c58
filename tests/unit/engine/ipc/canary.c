/* Canaries: what is taken of an answer, and which two answers agree. */
#include "engine/ipc/canary.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static struct convoy_error error;

static struct convoy_canary canary_of(const float *outputs, uint32_t count, const uint32_t *elements)
{
    struct convoy_canary canary;
    convoy_canary_take(outputs, count, elements, &canary);
    return canary;
}

Test(canary, takes_samples_of_each_output)
{
    static float outputs[3 + 1000];
    const uint32_t elements[2] = {3, 1000};
    for (int i = 0; i < 1003; i++)
        outputs[i] = i < 3 ? -8 : (float)i;
    struct convoy_canary canary = canary_of(outputs, 2, elements);
    cr_assert_eq(canary.count, 3 + 32);
    cr_assert(canary.finite);
    cr_assert(canary.values[2] == -8 && canary.ranges[2] == 8);
    cr_assert(canary.values[3] == 3 && canary.ranges[3] == 1002);
    cr_assert_gt(canary.values[34], 960.0f); /* to the end of the output */
    outputs[1002] = 0;
    cr_assert_neq(canary_of(outputs, 2, elements).hash, canary.hash);
    outputs[700] = NAN; /* where no sample is */
    cr_assert(!canary_of(outputs, 2, elements).finite);
}

Test(canary, takes_the_most_outputs)
{
    static float outputs[16 * 5];
    uint32_t elements[16];
    for (int i = 0; i < 16; i++)
        elements[i] = 5;
    cr_assert_eq(canary_of(outputs, 16, elements).count, CONVOY_CANARY_SAMPLES);
}

Test(canary, agrees_within_the_bound_of_each_output)
{
    float first[4] = {1000, -500, 0.5f, 0.25f}, now[4];
    const uint32_t elements[2] = {2, 2};
    struct convoy_canary a = canary_of(first, 2, elements), b;
    static const struct {
        int at;
        float by;
        bool agrees;
    } cases[] = {{0, 0, true},      {0, 0.9f, true},  {1, 0.9f, true},  {1, 1.2f, false},
                 {0, -1.2f, false}, {2, 0.9f, false}, {3, 4e-4f, true}, {3, 7e-4f, false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        memcpy(now, first, sizeof now);
        now[cases[i].at] += cases[i].by;
        b = canary_of(now, 2, elements);
        error.message[0] = '\0';
        cr_assert_eq(convoy_canary_agrees(&a, &b, 0.001f, &error), cases[i].agrees, "case %zu: %s", i,
                     error.message);
        cr_assert_eq(error.message[0] == '\0', cases[i].agrees);
    }
}

/* Comparisons, roundings: other kernels let single ones fall to the other side. */
Test(canary, few_of_many_samples_may_stray)
{
    static float outputs[1000];
    const uint32_t many = 1000, few = 31;
    for (int i = 0; i < 1000; i++)
        outputs[i] = (float)(i % 2);
    struct convoy_canary first = canary_of(outputs, 1, &many), start = canary_of(outputs, 1, &few);
    outputs[0] += 1; /* the first sample */
    struct convoy_canary now = canary_of(outputs, 1, &few);
    cr_assert(!convoy_canary_agrees(&start, &now, 0.25f, &error));
    now = canary_of(outputs, 1, &many);
    cr_assert(now.values[0] == 1 && convoy_canary_agrees(&first, &now, 0.25f, &error), "%s", error.message);
    for (uint32_t strays = 1; strays <= 3; strays++) {
        now = first;
        for (uint32_t i = 0; i < strays; i++)
            now.values[i * 20] += 1;
        cr_assert_eq(convoy_canary_agrees(&first, &now, 0.25f, &error), strays <= 2, "%u", strays);
    }
    cr_assert_not_null(strstr(error.message, "3 of 64 samples"), "%s", error.message);
}

Test(canary, what_was_finite_must_stay_so)
{
    const float finite[2] = {1, 2}, nan[2] = {1, NAN}, infinite[2] = {INFINITY, 2}, other[2] = {3, 2};
    const uint32_t elements = 2;
    struct convoy_canary good = canary_of(finite, 1, &elements), bad = canary_of(nan, 1, &elements);
    struct convoy_canary worse = canary_of(infinite, 1, &elements), off = canary_of(other, 1, &elements);
    cr_assert(!convoy_canary_agrees(&good, &bad, 0.5f, &error));
    cr_assert(!convoy_canary_agrees(&good, &worse, 0.5f, &error));
    cr_assert(convoy_canary_agrees(&bad, &bad, 0.5f, &error), "%s", error.message);
    cr_assert(convoy_canary_agrees(&bad, &good, 0.5f, &error), "%s",
              error.message);                                   /* no number to compare */
    cr_assert(!convoy_canary_agrees(&bad, &off, 0.5f, &error)); /* where there is one */
    cr_assert(!convoy_canary_agrees(&bad, &worse, 0.5f, &error));
}

Test(canary, what_is_not_finite_between_the_samples)
{
    static float outputs[1000];
    const uint32_t elements = 1000;
    struct convoy_canary good = canary_of(outputs, 1, &elements);
    outputs[999] = NAN;
    struct convoy_canary bad = canary_of(outputs, 1, &elements);
    cr_assert(!convoy_canary_agrees(&good, &bad, 0.5f, &error));
    cr_assert(convoy_canary_agrees(&bad, &bad, 0.5f, &error), "%s", error.message);
}

Test(canary, outputs_that_are_all_but_zero_agree)
{
    const float zero[2] = {0, 0}, rounded[2] = {1e-7f, -1e-7f}, more[2] = {1e-3f, 0};
    const uint32_t elements = 2;
    struct convoy_canary a = canary_of(zero, 1, &elements), b = canary_of(rounded, 1, &elements);
    struct convoy_canary c = canary_of(more, 1, &elements);
    cr_assert(convoy_canary_agrees(&a, &b, 0.01f, &error), "%s", error.message);
    cr_assert(!convoy_canary_agrees(&a, &c, 0.01f, &error));
}

Test(canary, answers_of_another_shape_differ)
{
    const float outputs[3] = {1, 1, 1};
    const uint32_t three = 3, two = 2;
    struct convoy_canary a = canary_of(outputs, 1, &three), b = canary_of(outputs, 1, &two);
    cr_assert(!convoy_canary_agrees(&a, &b, 0.01f, &error));
}

/* Another row would be a fault in all answers that are kept. */
Test(canary, the_row_is_always_the_same)
{
    uint8_t pixels[3000], again[3000];
    float numbers[500];
    convoy_canary_fill(pixels, sizeof pixels, true);
    convoy_canary_fill(again, sizeof again, true);
    cr_assert_arr_eq(pixels, again, sizeof pixels);
    int least = 255, most = 0;
    for (size_t i = 0; i < sizeof pixels; i++) {
        least = pixels[i] < least ? pixels[i] : least;
        most = pixels[i] > most ? pixels[i] : most;
    }
    cr_assert(least == 64 && most == 191, "%d to %d", least, most);
    convoy_canary_fill(numbers, sizeof numbers, false);
    for (int i = 0; i < 500; i++)
        cr_assert(numbers[i] >= 0 && numbers[i] < 1 && numbers[i] != numbers[(i + 1) % 500]);
}
