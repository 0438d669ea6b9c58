/* The loops of resizing: one row alone and fewer bytes than a vector has go through the plain ones, which
 * must give the bits of all vectors that this processor has. */
#include "server/image/weighted_sums.h"
#include "server/image/weighted_sums_avx2.h"
#include "server/image/weighted_sums_avx512.h"
#include "server/image/weighted_sums_vbmi.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WIDTH 97
#define OUT   11
#define ROWS  9

/* Some are negative, and some sums are outside of 0..255. large: some are nearly as large as they may be. */
static int32_t draw_weight(size_t count, bool large)
{
    int32_t part = (1 << CONVOY_WEIGHT_BITS) / (large ? 2 : 4) / (int)count;
    return (rand() % 7 - 2) * part + rand() % 1000;
}

static void check_along(const size_t counts[OUT], bool large)
{
    static uint8_t rows[ROWS][WIDTH * 3], together[ROWS][OUT * 3], alone[ROWS][OUT * 3];
    static int32_t weights[OUT][WIDTH * 3];
    struct convoy_taps taps[OUT];
    for (int r = 0; r < ROWS; r++)
        for (int b = 0; b < WIDTH * 3; b++)
            rows[r][b] = (uint8_t)(rand() & 255);
    for (size_t i = 0; i < OUT; i++) {
        taps[i] = (struct convoy_taps){i == OUT - 1 ? WIDTH - counts[i] : i * 3 % (WIDTH - counts[i] + 1),
                                       counts[i]};
        for (size_t k = 0; k < counts[i]; k++) {
            int32_t weight = draw_weight(counts[i], large);
            for (size_t c = 0; c < 3; c++)
                weights[i][3 * k + c] = weight;
        }
    }
    for (size_t n = 1; n <= ROWS; n++) {
        memset(together, 0xA5, sizeof together);
        convoy_mean_along_rows(rows[0], sizeof rows[0], n, 3, OUT, taps, weights[0], WIDTH * 3, together[0]);
        convoy_mean_along_rows(rows[n - 1], sizeof rows[0], 1, 3, OUT, taps, weights[0], WIDTH * 3,
                               alone[n - 1]);
        cr_expect_arr_eq(together, alone, n * OUT * 3, "%zu rows", n);
        cr_expect(n == ROWS || together[n][0] == 0xA5, "a row too many was written");
    }
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) {
        convoy_mean_along_two_rows_avx2(rows[0], sizeof rows[0], OUT, taps, weights[0], WIDTH * 3,
                                        together[0]);
        cr_expect_arr_eq(together, alone, 2 * OUT * 3, "AVX2");
    }
    if (convoy_has_avx512_bytes()) {
        bool made = convoy_mean_along_rows_avx512(rows[0], sizeof rows[0], ROWS, OUT, taps, weights[0],
                                                  WIDTH * 3, together[0]);
        cr_expect(made || large);
        if (made)
            cr_expect_arr_eq(together, alone, ROWS * OUT * 3, "AVX-512");
    }
#endif
}

Test(image_weighted_sums, along_rows)
{
    static const size_t mixed[OUT] = {1, 4, 7, 12, WIDTH, 8, 3, 2, 5, 1, 6};
    static const size_t few[OUT] = {1, 4, 3, 2, 4, 4, 3, 2, 4, 1, 4};
    srand(7);
    for (int large = 0; large < 2; large++) {
        check_along(mixed, large);
        check_along(few, large);
    }
}

/* ---- Windows of a picture, of more pixels than a stretch, up to the end of memory that may be read ---- */

#define WIDE      250 /* pixels of the result */
#define WIDE_ROWS 7
#define MOST      32 /* taps */

struct picture {
    uint8_t *memory, *rows; /* the last row ends where no memory is */
    size_t columns, bytes;
    struct convoy_taps taps[WIDE];
    int32_t weights[WIDE][MOST * 3];
};

/* Every pixel is of `count` others, the first ones `apart` from each other on average. */
static struct picture *make_picture(double apart, size_t count, bool mirrored, bool large)
{
    struct picture *picture = calloc(1, sizeof *picture);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    picture->columns = (size_t)((WIDE - 1) * apart) + count;
    size_t used = WIDE_ROWS * picture->columns * 3;
    picture->bytes = (used + page - 1) / page * page + page;
    picture->memory = mmap(NULL, picture->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(picture->memory, MAP_FAILED);
    cr_assert_eq(mprotect(picture->memory + picture->bytes - page, page, PROT_NONE), 0);
    picture->rows = picture->memory + picture->bytes - page - used;
    for (size_t b = 0; b < used; b++)
        picture->rows[b] = (uint8_t)(rand() & 255);
    for (size_t i = 0; i < WIDE; i++) {
        size_t at = mirrored ? WIDE - 1 - i : i;
        picture->taps[i] = (struct convoy_taps){(size_t)((double)at * apart), count - (size_t)rand() % 2};
        memset(picture->weights[i], 0x55,
               sizeof picture->weights[i]); /* those that are not there count for nothing */
        for (size_t k = 0; k < picture->taps[i].count; k++) {
            int32_t weight = draw_weight(count, large);
            for (size_t c = 0; c < 3; c++)
                picture->weights[i][3 * k + c] = weight;
        }
    }
    return picture;
}

static void free_picture(struct picture *picture)
{
    munmap(picture->memory, picture->bytes);
    free(picture);
}

/* More than three digits hold. */
static void make_too_large(struct picture *picture)
{
    for (size_t i = 0; i < 3 * picture->taps[WIDE - 2].count; i++)
        picture->weights[WIDE - 2][i] = i < 3 ? 1 << (CONVOY_WEIGHT_BITS + 1) : 0;
}

static void check_picture(double apart, size_t count, bool mirrored, bool large, bool vbmi,
                          void (*change)(struct picture *))
{
    static uint8_t alone[WIDE_ROWS][WIDE * 3], together[WIDE_ROWS + 1][WIDE * 3];
    struct picture *picture = make_picture(apart, count, mirrored, large);
    size_t stride = picture->columns * 3;
    if (change != NULL)
        change(picture);
    for (size_t r = 0; r < WIDE_ROWS; r++)
        convoy_mean_along_rows(picture->rows + r * stride, stride, 1, 3, WIDE, picture->taps,
                               picture->weights[0], MOST * 3, alone[r]);
    for (size_t n = 4; n <= WIDE_ROWS; n++) {
        const uint8_t *rows = picture->rows + (WIDE_ROWS - n) * stride;
        memset(together, 0xA5, sizeof together);
        convoy_mean_along_rows(rows, stride, n, 3, WIDE, picture->taps, picture->weights[0], MOST * 3,
                               together[0]);
        cr_expect_arr_eq(together, alone[WIDE_ROWS - n], n * WIDE * 3, "%zu rows, %g apart, %zu taps", n,
                         apart, count);
        cr_expect_eq(together[n][0], 0xA5, "a row too many was written");
#ifdef __x86_64__
        if (convoy_has_vbmi())
            cr_expect_eq(convoy_mean_along_rows_vbmi(rows, stride, n, WIDE, picture->taps,
                                                     picture->weights[0], MOST * 3, together[0]),
                         vbmi, "%g apart, %zu taps", apart, count);
        if (convoy_has_avx512_bytes() &&
            convoy_mean_along_rows_avx512(rows, stride, n, WIDE, picture->taps, picture->weights[0], MOST * 3,
                                          together[0]))
            cr_expect_arr_eq(together, alone[WIDE_ROWS - n], n * WIDE * 3, "AVX-512");
#else
        (void)vbmi;
#endif
    }
    free_picture(picture);
}

Test(image_weighted_sums, along_rows_of_pictures)
{
    srand(7);
    for (int turn = 0; turn < 4; turn++) {
        bool mirrored = (turn & 1) != 0, large = (turn & 2) != 0;
        check_picture(0.4, 3, mirrored, large, true, NULL);
        check_picture(1.4648, 4, mirrored, large, true, NULL);
        check_picture(2.2, 7, mirrored, large, true, NULL);
        check_picture(2.9, 12, mirrored, large, true, NULL);
        check_picture(3.3, 16, mirrored, large, true, NULL);
        check_picture(1.5, 20, mirrored, large, false, NULL); /* too many taps */
        check_picture(4.5, 10, mirrored, large, false, NULL); /* too far apart */
        check_picture(1.4648, 4, mirrored, large, false, make_too_large);
    }
}

#define BYTES 160

Test(image_weighted_sums, down_columns)
{
    static uint8_t many[ROWS][BYTES], whole[BYTES], pieces[BYTES];
    srand(7);
    for (int turn = 0; turn < 40; turn++) {
        int32_t down[ROWS];
        size_t rows = 1 + (size_t)turn % ROWS;
        for (size_t r = 0; r < rows; r++) {
            down[r] = draw_weight(rows, turn % 3 == 0);
            for (int b = 0; b < BYTES; b++)
                many[r][b] = (uint8_t)(rand() & 255);
        }
        convoy_mean_of_rows(many[0], BYTES, rows, down, BYTES, whole);
        for (size_t b = 0; b < BYTES; b += 20)
            convoy_mean_of_rows(many[0] + b, BYTES, rows, down, 20, pieces + b);
        cr_expect_arr_eq(whole, pieces, sizeof whole, "%zu rows", rows);
#ifdef __x86_64__
        if (__builtin_cpu_supports("avx2")) {
            cr_expect_eq(convoy_mean_of_rows_avx2(many[0], BYTES, rows, down, BYTES, whole), BYTES);
            cr_expect_arr_eq(whole, pieces, sizeof whole, "%zu rows, AVX2", rows);
        }
#endif
        /* Rows a few at a time, in whole vectors and in pieces that are shorter. */
        for (size_t width = 20; width <= BYTES; width += BYTES - 20)
            for (size_t b = 0; b < BYTES; b += width) {
                int32_t sums[BYTES];
                convoy_sums_begin(sums, width);
                for (size_t r = 0, more = 1; r < rows; r += more, more = more == 1 ? 3 : 5)
                    convoy_sums_add(sums, many[r] + b, BYTES, r + more < rows ? more : rows - r, down + r,
                                    width);
                convoy_sums_end(sums, width, pieces + b);
                cr_expect_arr_eq(pieces + b, whole + b, width, "%zu bytes from %zu on", width, b);
            }
    }
}
