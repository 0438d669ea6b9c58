#include "server/image/weighted_sums_avx512.h"

#ifdef __x86_64__

#include <immintrin.h>

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define INLINE static inline __attribute__((always_inline)) AVX512
#define HALF   (1 << (CONVOY_WEIGHT_BITS - 1))
#define GROUPS 256 /* of four weights */

bool convoy_has_avx512_bytes(void)
{
    return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vnni");
}

/* Four weights as digits of -128 to 127, each 256 times the one before it: digits[d] has digit d of all four,
 * the first weight's in its lowest byte. One instruction multiplies them by four bytes of the picture, and
 * adds all products up, for 16 means at once; 32-bit products are two for 8 pixels. */
struct factors {
    int32_t digits[3];
};

/* Weight number k is weights[k x apart]. False: one is too large for three digits. */
static bool split_weights(const int32_t *weights, size_t apart, size_t count, struct factors *factors)
{
    for (size_t k = 0; k < count; k++) {
        uint32_t digits[3] = {0}, shift = k % 4 * 8;
        int32_t rest = weights[k * apart];
        for (int d = 0; d < 3; d++) {
            int8_t digit = (int8_t)(uint8_t)((uint32_t)rest & 255);
            digits[d] = (uint8_t)digit;
            rest = (rest - digit) / 256;
        }
        if (rest != 0)
            return false;
        for (int d = 0; d < 3; d++) {
            uint32_t before = k % 4 == 0 ? 0 : (uint32_t)factors[k / 4].digits[d];
            factors[k / 4].digits[d] = (int32_t)(before | digits[d] << shift);
        }
    }
    return true;
}

/* Adds four bytes times weights to each of 16 sums, digit by digit. */
INLINE void add(__m512i sums[3], __m512i bytes, const struct factors *factors)
{
    for (int d = 0; d < 3; d++)
        sums[d] = _mm512_dpbusd_epi32(sums[d], bytes, _mm512_set1_epi32(factors->digits[d]));
}

/* The means, not yet cut to 0..255. */
INLINE __m512i mean(const __m512i sums[3])
{
    __m512i upper = _mm512_add_epi32(sums[1], _mm512_slli_epi32(sums[2], 8));
    __m512i all = _mm512_add_epi32(sums[0], _mm512_slli_epi32(upper, 8));
    return _mm512_srai_epi32(all, CONVOY_WEIGHT_BITS);
}

INLINE void clear(__m512i sums[3])
{
    sums[0] = _mm512_set1_epi32(HALF);
    sums[1] = sums[2] = _mm512_setzero_si512();
}

/* Packing with saturation cuts to 0..255, and works within each quarter. */
INLINE __m512i packed(const __m512i means[4])
{
    return _mm512_packus_epi16(_mm512_packs_epi32(means[0], means[1]),
                               _mm512_packs_epi32(means[2], means[3]));
}

/* ---- Along rows ---- */

/* The pixels that the mask's bits are bytes of. wide: 16 bytes may be read. */
INLINE __m128i pixels_of(const uint8_t *from, __mmask16 mask, bool wide)
{
    return wide ? _mm_loadu_si128((const __m128i *)(const void *)from) : _mm_maskz_loadu_epi8(mask, from);
}

/* Adds four pixels, or fewer, of four rows, of each in one quarter. wide: of the last rows, too, 16 bytes may
 * be read. */
INLINE void add_pixels(__m512i sums[3], const uint8_t *from, size_t row_stride, size_t count,
                       const struct factors *factors, bool wide)
{
    const __m512i by_colour =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11, -1, -1, -1, -1));
    __mmask16 mask = (__mmask16)((1u << (count < 4 ? count : 4) * 3) - 1);
    __m512i rows = _mm512_castsi128_si512(pixels_of(from, mask, true));
    rows = _mm512_inserti32x4(rows, pixels_of(from + row_stride, mask, true), 1);
    rows = _mm512_inserti32x4(rows, pixels_of(from + 2 * row_stride, mask, wide), 2);
    rows = _mm512_inserti32x4(rows, pixels_of(from + 3 * row_stride, mask, wide), 3);
    add(sums, _mm512_shuffle_epi8(rows, by_colour), factors);
}

/* One pixel of four rows. few: of four pixels at most. */
INLINE __m512i mean_of_colours(const uint8_t *from, size_t row_stride, size_t count,
                               const struct factors *factors, bool few, bool wide)
{
    __m512i sums[3];
    clear(sums);
    add_pixels(sums, from, row_stride, count, factors, wide);
    for (size_t k = 4; !few && k < count; k += 4)
        add_pixels(sums, from + 3 * k, row_stride, count - k, factors + k / 4, wide);
    return mean(sums);
}

/* Some pixels, one behind the other. */
struct stretch {
    size_t count;
    const struct convoy_taps *taps;
    const struct factors *factors;
};

/* Of four rows, four pixels at a time. */
INLINE void make_stretch(const struct stretch *stretch, const uint8_t *rows, size_t row_stride, uint8_t *to,
                         size_t to_stride, bool few, bool wide)
{
    const __m512i close =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1));
    const struct factors *factors = stretch->factors;
    for (size_t i = 0; i < stretch->count; i += 4, to += 12) {
        const struct convoy_taps *taps = stretch->taps + i;
        size_t some = stretch->count - i < 4 ? stretch->count - i : 4;
        __m512i means[4];
        for (size_t k = 0; k < 4; k++) {
            means[k] = _mm512_setzero_si512();
            if (k >= some)
                continue;
            means[k] =
                mean_of_colours(rows + 3 * taps[k].first, row_stride, taps[k].count, factors, few, wide);
            factors += (taps[k].count + 3) / 4;
        }
        __m512i pixels = _mm512_shuffle_epi8(packed(means), close);
        __mmask16 mask = (__mmask16)((1u << some * 3) - 1);
        _mm_mask_storeu_epi8(to, mask, _mm512_castsi512_si128(pixels));
        _mm_mask_storeu_epi8(to + to_stride, mask, _mm512_extracti32x4_epi32(pixels, 1));
        _mm_mask_storeu_epi8(to + 2 * to_stride, mask, _mm512_extracti32x4_epi32(pixels, 2));
        _mm_mask_storeu_epi8(to + 3 * to_stride, mask, _mm512_extracti32x4_epi32(pixels, 3));
    }
}

/* The last four rows may begin before the others have ended: some are made twice. Behind the last row nothing
 * is read. */
INLINE void make_rows(const struct stretch *stretch, const uint8_t *rows, size_t row_stride, size_t row_count,
                      uint8_t *to, size_t to_stride, bool few)
{
    size_t last = row_count - 4;
    for (size_t row = 0; row < last; row += 4)
        make_stretch(stretch, rows + row * row_stride, row_stride, to + row * to_stride, to_stride, few,
                     true);
    make_stretch(stretch, rows + last * row_stride, row_stride, to + last * to_stride, to_stride, few, false);
}

AVX512 bool convoy_mean_along_rows_avx512(const uint8_t *rows, size_t row_stride, size_t row_count,
                                          size_t out, const struct convoy_taps *taps, const int32_t *weights,
                                          size_t stride, uint8_t *to)
{
    struct factors factors[GROUPS];
    size_t done = 0;
    while (done < out) {
        struct stretch stretch = {0, taps + done, factors};
        size_t used = 0;
        for (size_t i = done; i < out && used + (taps[i].count + 3) / 4 <= GROUPS &&
                              split_weights(weights + i * stride, 3, taps[i].count, factors + used);
             i++) {
            used += (taps[i].count + 3) / 4;
            stretch.count++;
        }
        if (stretch.count == 0)
            return false;
        if (used == stretch.count)
            make_rows(&stretch, rows, row_stride, row_count, to + 3 * done, out * 3, true);
        else
            make_rows(&stretch, rows, row_stride, row_count, to + 3 * done, out * 3, false);
        done += stretch.count;
    }
    return true;
}

/* ---- Down columns ---- */

INLINE __m512i bytes_of(const uint8_t *rows, size_t stride, size_t row, size_t count)
{
    return _mm512_loadu_si512(rows +
                              (row < count ? row : 0) * stride); /* those that are not there have no weight */
}

/* Adds four rows, or fewer, of 64 bytes: sums[i] are of bytes 4 i to 4 i + 3 of each quarter. */
INLINE void add_rows(__m512i sums[4][3], const uint8_t *rows, size_t stride, size_t count,
                     const struct factors *factors)
{
    __m512i first = bytes_of(rows, stride, 0, count), second = bytes_of(rows, stride, 1, count);
    __m512i third = bytes_of(rows, stride, 2, count), fourth = bytes_of(rows, stride, 3, count);
    __m512i low[2] = {_mm512_unpacklo_epi8(first, second), _mm512_unpacklo_epi8(third, fourth)};
    __m512i high[2] = {_mm512_unpackhi_epi8(first, second), _mm512_unpackhi_epi8(third, fourth)};
    add(sums[0], _mm512_unpacklo_epi16(low[0], low[1]), factors);
    add(sums[1], _mm512_unpackhi_epi16(low[0], low[1]), factors);
    add(sums[2], _mm512_unpacklo_epi16(high[0], high[1]), factors);
    add(sums[3], _mm512_unpackhi_epi16(high[0], high[1]), factors);
}

INLINE size_t make_bytes(const uint8_t *rows, size_t stride, size_t count, const struct factors *factors,
                         size_t bytes, uint8_t *to, bool few)
{
    size_t b = 0;
    for (; b + 64 <= bytes; b += 64) {
        __m512i sums[4][3], means[4];
        for (int i = 0; i < 4; i++)
            clear(sums[i]);
        add_rows(sums, rows + b, stride, count, factors);
        for (size_t r = 4; !few && r < count; r += 4)
            add_rows(sums, rows + b + r * stride, stride, count - r, factors + r / 4);
        for (int i = 0; i < 4; i++)
            means[i] = mean(sums[i]);
        _mm512_storeu_si512(to + b, packed(means));
    }
    return b;
}

AVX512 size_t convoy_mean_of_rows_avx512(const uint8_t *rows, size_t stride, size_t count,
                                         const int32_t *weights, size_t bytes, uint8_t *to)
{
    struct factors factors[GROUPS];
    if (count > 4 * GROUPS || !split_weights(weights, 1, count, factors))
        return 0;
    return count <= 4 ? make_bytes(rows, stride, count, factors, bytes, to, true)
                      : make_bytes(rows, stride, count, factors, bytes, to, false);
}

#endif
