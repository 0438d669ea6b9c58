/* The loops of resizing: one row alone and fewer bytes than a vector has go through the plain ones, which
 * must give the bits of the vectors. */
#include "server/image/weighted_sums.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH 97
#define OUT   5

Test(image_weighted_sums, plain_loops_and_vectors_agree)
{
    static const size_t counts[OUT] = {1, 4, 7, 12, WIDTH};
    static uint8_t rows[2][WIDTH * 3], together[2][OUT * 3], alone[OUT * 3];
    static int32_t weights[OUT][WIDTH * 3];
    struct convoy_taps taps[OUT];
    srand(7);
    for (int i = 0; i < WIDTH * 3; i++)
        rows[0][i] = rows[1][i] = (uint8_t)(rand() & 255);
    for (size_t i = 0; i < OUT; i++) {
        taps[i] = (struct convoy_taps){i * 3 % (WIDTH - counts[i] + 1), counts[i]};
        /* Some are negative, and some sums are outside of 0..255. */
        for (size_t k = 0; k < counts[i] * 3; k++)
            weights[i][k] =
                (rand() % 7 - 2) * (1 << CONVOY_WEIGHT_BITS) / (2 * (int)counts[i]) + rand() % 1000;
    }
    convoy_mean_along_rows(rows[0], sizeof rows[0], 2, 3, OUT, taps, weights[0], WIDTH * 3, together[0]);
    convoy_mean_along_rows(rows[0], sizeof rows[0], 1, 3, OUT, taps, weights[0], WIDTH * 3, alone);
    cr_expect_arr_eq(together[0], alone, sizeof alone);
    cr_expect_arr_eq(together[1], alone, sizeof alone);

    static uint8_t many[9][96], whole[96], pieces[96];
    static int32_t down[9];
    for (int r = 0; r < 9; r++) {
        down[r] = (rand() % 5 - 1) * (1 << CONVOY_WEIGHT_BITS) / 9;
        for (int b = 0; b < 96; b++)
            many[r][b] = (uint8_t)(rand() & 255);
    }
    convoy_mean_of_rows(many[0], 96, 9, down, 96, whole);
    for (size_t b = 0; b < 96; b += 24)
        convoy_mean_of_rows(many[0] + b, 96, 9, down, 24, pieces + b);
    cr_expect_arr_eq(whole, pieces, sizeof whole);

    /* Rows a few at a time, in whole vectors and in pieces that are shorter. */
    for (size_t width = 24; width <= 96; width += 72)
        for (size_t b = 0; b < 96; b += width) {
            int32_t sums[96];
            convoy_sums_begin(sums, width);
            for (size_t r = 0, more = 1; r < 9; r += more, more = more == 1 ? 3 : 5)
                convoy_sums_add(sums, many[r] + b, 96, more, down + r, width);
            convoy_sums_end(sums, width, pieces + b);
            cr_expect_arr_eq(pieces + b, whole + b, width, "%zu bytes from %zu on", width, b);
        }
}
