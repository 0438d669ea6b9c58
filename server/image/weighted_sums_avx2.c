#include "server/image/weighted_sums_avx2.h"

#ifdef __x86_64__

#include <immintrin.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2")))
#define HALF (1 << (CONVOY_WEIGHT_BITS - 1))

static inline AVX2 __m256i eight_bytes(const uint8_t *from)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)from));
}

/* Four bytes of each of two rows: those of the second in the upper half. */
static inline AVX2 __m256i four_and_four(const uint8_t *first, const uint8_t *second)
{
    int32_t a, b;
    memcpy(&a, first, sizeof a);
    memcpy(&b, second, sizeof b);
    return _mm256_cvtepu8_epi32(_mm_insert_epi32(_mm_cvtsi32_si128(a), b, 1));
}

static inline AVX2 __m256i for_both(const int32_t *weights)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)weights));
}

/* One pixel of both rows, each in the lowest three bytes of its half. */
static inline AVX2 __m256i mean_of_colours(const uint8_t *from, size_t row_stride, const int32_t *weights,
                                           size_t count)
{
    __m256i a = _mm256_setzero_si256(), b = a, c = a;
    size_t k = 0;

    for (; k + 4 <= count; k += 4, from += 12, weights += 12) {
        const uint8_t *below = from + row_stride;
        a = _mm256_add_epi32(a, _mm256_mullo_epi32(four_and_four(from, below), for_both(weights)));
        b = _mm256_add_epi32(b,
                             _mm256_mullo_epi32(four_and_four(from + 4, below + 4), for_both(weights + 4)));
        c = _mm256_add_epi32(c,
                             _mm256_mullo_epi32(four_and_four(from + 8, below + 8), for_both(weights + 8)));
    }
    /* Lane k of a, b and c, one behind the other, belongs to component k % 3: the sum of lanes 0 to 3, 3 to
     * 6, 6 to 9 and 9 to 12 has the components in order. */
    __m256i sums = _mm256_add_epi32(_mm256_add_epi32(a, _mm256_alignr_epi8(b, a, 12)),
                                    _mm256_add_epi32(_mm256_alignr_epi8(c, b, 8), _mm256_srli_si256(c, 4)));
    for (; k < count; k++, from += 3, weights += 3) {
        const uint8_t *below = from + row_stride;
        __m256i pixels = _mm256_setr_epi32(from[0], from[1], from[2], 0, below[0], below[1], below[2], 0);
        __m256i factors =
            _mm256_setr_epi32(weights[0], weights[1], weights[2], 0, weights[0], weights[1], weights[2], 0);
        sums = _mm256_add_epi32(sums, _mm256_mullo_epi32(pixels, factors));
    }
    sums = _mm256_srai_epi32(_mm256_add_epi32(sums, _mm256_set1_epi32(HALF)), CONVOY_WEIGHT_BITS);
    sums = _mm256_packs_epi32(sums, sums); /* packing with saturation cuts to 0..255 */
    return _mm256_packus_epi16(sums, sums);
}

AVX2 void convoy_mean_along_two_rows_avx2(const uint8_t *rows, size_t row_stride, size_t out,
                                          const struct convoy_taps *taps, const int32_t *weights,
                                          size_t stride, uint8_t *to)
{
    uint8_t *below = to + 3 * out;
    int32_t pair[2];
    for (size_t i = 0; i < out; i++, weights += stride) {
        __m256i pixels = mean_of_colours(rows + 3 * taps[i].first, row_stride, weights, taps[i].count);
        pair[0] = _mm256_cvtsi256_si32(pixels);
        pair[1] = _mm256_extract_epi32(pixels, 4);
        if (i + 1 == out)
            break;
        /* The next pixel overwrites the fourth byte. */
        memcpy(to + 3 * i, &pair[0], 4);
        memcpy(below + 3 * i, &pair[1], 4);
    }
    memcpy(to + 3 * (out - 1), &pair[0], 3);
    memcpy(below + 3 * (out - 1), &pair[1], 3);
}

/* 32 bytes of all rows at a time: their sums stay in registers. */
AVX2 size_t convoy_mean_of_rows_avx2(const uint8_t *rows, size_t stride, size_t count, const int32_t *weights,
                                     size_t bytes, uint8_t *to)
{
    size_t b = 0;

    for (; b + 32 <= bytes; b += 32) {
        __m256i sums[4];
        const uint8_t *from = rows + b;
        for (int i = 0; i < 4; i++)
            sums[i] = _mm256_set1_epi32(HALF);
        for (size_t r = 0; r < count; r++, from += stride) {
            __m256i weight = _mm256_set1_epi32(weights[r]);
            for (int i = 0; i < 4; i++)
                sums[i] = _mm256_add_epi32(sums[i], _mm256_mullo_epi32(eight_bytes(from + 8 * i), weight));
        }
        for (int i = 0; i < 4; i++)
            sums[i] = _mm256_srai_epi32(sums[i], CONVOY_WEIGHT_BITS);
        /* Packing works within halves of 16 bytes: four lanes of each vector, then the other four. */
        __m256i words[2] = {_mm256_packs_epi32(sums[0], sums[1]), _mm256_packs_epi32(sums[2], sums[3])};
        __m256i mixed = _mm256_packus_epi16(words[0], words[1]);
        __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        _mm256_storeu_si256((__m256i *)(to + b), _mm256_permutevar8x32_epi32(mixed, order));
    }
    return b;
}

AVX2 size_t convoy_sums_add_avx2(int32_t *sums, const uint8_t *rows, size_t stride, size_t count,
                                 const int32_t *weights, size_t bytes)
{
    size_t b = 0;

    for (; b + 32 <= bytes; b += 32) {
        __m256i in_part[4];
        const uint8_t *from = rows + b;
        for (int i = 0; i < 4; i++)
            in_part[i] = _mm256_loadu_si256((const __m256i *)(const void *)(sums + b + 8 * i));
        for (size_t r = 0; r < count; r++, from += stride) {
            __m256i weight = _mm256_set1_epi32(weights[r]);
            for (int i = 0; i < 4; i++)
                in_part[i] =
                    _mm256_add_epi32(in_part[i], _mm256_mullo_epi32(eight_bytes(from + 8 * i), weight));
        }
        for (int i = 0; i < 4; i++)
            _mm256_storeu_si256((__m256i *)(void *)(sums + b + 8 * i), in_part[i]);
    }
    return b;
}

#endif
