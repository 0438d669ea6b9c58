/* 16 bytes of the result at a time, which are of six pixels: one load brings four taps of all of them, and
 * one permutation puts four pixels' bytes of a colour beside each other for each. The weights are three
 * digits, as in weighted_sums_avx512.c. Beside that, which makes four rows of a pixel, 12 bytes, with four
 * loads: 330 rows of 330 pixels to 224 take 73 us there and 38 here. */
#include "server/image/weighted_sums_vbmi.h"

#include "server/image/weighted_sums_avx512.h"

#ifdef __x86_64__

#include <immintrin.h>

#define VBMI   __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi")))
#define INLINE static inline __attribute__((always_inline)) VBMI
#define HALF   (1 << (CONVOY_WEIGHT_BITS - 1))
#define PIXELS 240 /* of a stretch: whole vectors */
#define NEAR   6   /* pixels that a vector is of */
#define BYTES  16  /* of the result, a vector; each is a sum of 32 bits meanwhile */
#define MANY   4   /* fours of taps */
#define DIGITS 3   /* of a weight, of -128 to 127, each 256 times the one before it */

bool convoy_has_vbmi(void)
{
    return convoy_has_avx512_bytes() && __builtin_cpu_supports("avx512vbmi");
}

/* Of the pixels of a stretch, and of those that a vector may reach behind it. */
struct stretch {
    size_t count;
    int32_t firsts[PIXELS + BYTES];
    /* Digit d of the weights of four taps, the first one's in the lowest byte. */
    int32_t digits[MANY][DIGITS][PIXELS + BYTES];
};

/* What makes a vector. */
struct group {
    size_t first; /* byte of a row, of all that is needed */
    __m512i places;
    __mmask64 there[MANY]; /* bytes that are needed, of the 64 from 12 x four on */
    __m512i weights[MANY][DIGITS];
};

/* The digits of the weights of taps 4 four to 4 four + 3 of four pixels. False: one is too large. */
VBMI static bool split_weights(const struct convoy_taps *taps, size_t pixels, const int32_t *weights,
                               size_t stride, size_t four, int32_t *digits[DIGITS])
{
    const __m512i tap = _mm512_setr_epi32(0, 3, 6, 9, 0, 3, 6, 9, 0, 3, 6, 9, 0, 3, 6, 9);
    const __m512i pixel = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    __m512i at = _mm512_add_epi32(_mm512_mullo_epi32(pixel, _mm512_set1_epi32((int)stride)), tap);
    unsigned there = 0;
    for (size_t i = 0; i < pixels; i++) {
        size_t left = taps[i].count > 4 * four ? taps[i].count - 4 * four : 0;
        there |= ((1u << (left < 4 ? left : 4)) - 1) << 4 * i;
    }
    __m512i rest = _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), (__mmask16)there, at,
                                               weights + 12 * four, sizeof *weights);
    for (int d = 0; d < DIGITS; d++) {
        __m512i digit = _mm512_srai_epi32(_mm512_slli_epi32(rest, 24), 24);
        rest = _mm512_srai_epi32(_mm512_sub_epi32(rest, digit), 8);
        _mm_storeu_si128((__m128i *)(void *)digits[d], _mm512_cvtepi32_epi8(digit));
    }
    return _mm512_test_epi32_mask(rest, rest) == 0;
}

/* Whether 64 bytes hold the first four taps of one pixel and of another. */
static bool are_near(const struct convoy_taps *one, const struct convoy_taps *other)
{
    size_t apart = one->first < other->first ? other->first - one->first : one->first - other->first;
    return 3 * apart + 12 <= 64;
}

/* Returns how many fours of taps its pixels have; 0: it cannot be made, which where pixels lie too far apart
 * is found before anything is computed. */
VBMI static size_t plan(struct stretch *stretch, const struct convoy_taps *taps, const int32_t *weights,
                        size_t stride)
{
    size_t fours = 1;
    for (size_t i = 0; i < stretch->count; i++) {
        fours = (taps[i].count + 3) / 4 > fours ? (taps[i].count + 3) / 4 : fours;
        stretch->firsts[i] = (int32_t)taps[i].first;
        if (fours > MANY || (i + 1 >= NEAR && !are_near(&taps[i + 1 - NEAR], &taps[i])))
            return 0;
    }
    for (size_t i = stretch->count; i < stretch->count + BYTES; i++)
        stretch->firsts[i] = (int32_t)taps[stretch->count - 1].first;
    for (size_t k = 0; k < fours; k++)
        for (size_t i = 0; i < stretch->count; i += 4) {
            int32_t *digits[DIGITS] = {&stretch->digits[k][0][i], &stretch->digits[k][1][i],
                                       &stretch->digits[k][2][i]};
            size_t pixels = stretch->count - i < 4 ? stretch->count - i : 4;
            if (!split_weights(taps + i, pixels, weights + i * stride, stride, k, digits))
                return 0;
        }
    return fours;
}

/* The group whose first byte is of pixel `pixel` and that colour. False: 64 bytes do not hold what it needs.
 */
INLINE bool begin(struct group *group, const struct stretch *stretch, const struct convoy_taps *taps,
                  size_t pixel, size_t colour, size_t fours)
{
    const __m512i bytes =
        _mm512_add_epi32(_mm512_set1_epi32((int)colour),
                         _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    /* A third of numbers up to 17, and what it leaves. */
    const __m512i pixels = _mm512_srli_epi32(_mm512_mullo_epi32(bytes, _mm512_set1_epi32(11)), 5);
    const __m512i colours = _mm512_sub_epi32(bytes, _mm512_mullo_epi32(pixels, _mm512_set1_epi32(3)));
    const __m512i low =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12));
    size_t last = pixel + (colour + BYTES - 1) / 3, first = taps[pixel].first, end = 0, latest = 0;
    for (size_t i = pixel; i <= last && i < stretch->count; i++) {
        first = taps[i].first < first ? taps[i].first : first;
        latest = taps[i].first > latest ? taps[i].first : latest;
        end = taps[i].first + taps[i].count > end ? taps[i].first + taps[i].count : end;
    }
    if (3 * (latest - first) + 12 > 64) /* plan() looked at the first and the last */
        return false;
    group->first = 3 * first;
    __m512i from = _mm512_permutexvar_epi32(pixels, _mm512_loadu_si512(stretch->firsts + pixel));
    from = _mm512_mullo_epi32(_mm512_sub_epi32(from, _mm512_set1_epi32((int)first)), _mm512_set1_epi32(3));
    from = _mm512_shuffle_epi8(_mm512_add_epi32(from, colours), low);
    group->places = _mm512_add_epi8(from, _mm512_set1_epi32(0x09060300));
    for (size_t k = 0; k < fours; k++) {
        size_t need = 3 * (end - first) > 12 * k ? 3 * (end - first) - 12 * k : 0;
        group->there[k] = need >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << need) - 1;
        for (int d = 0; d < DIGITS; d++)
            group->weights[k][d] =
                _mm512_permutexvar_epi32(pixels, _mm512_loadu_si512(stretch->digits[k][d] + pixel));
    }
    return true;
}

/* The means of one row, not yet cut to 0..255. Two shifts by a digit make HALF of what is there first. */
INLINE __m512i means_of(const struct group *group, const uint8_t *row, size_t fours)
{
    __m512i bytes[MANY], sums = _mm512_set1_epi32(HALF >> 16);
    for (size_t k = 0; k < fours; k++)
        bytes[k] = _mm512_permutexvar_epi8(
            group->places, _mm512_maskz_loadu_epi8(group->there[k], row + group->first + 12 * k));
    for (int d = DIGITS - 1; d >= 0; d--) {
        for (size_t k = 0; k < fours; k++)
            sums = _mm512_dpbusd_epi32(sums, bytes[k], group->weights[k][d]);
        if (d > 0)
            sums = _mm512_slli_epi32(sums, 8);
    }
    return _mm512_srai_epi32(sums, CONVOY_WEIGHT_BITS);
}

/* Of four rows. mask: of the bytes that are written of each. */
INLINE void make(const struct group *group, const uint8_t *rows, size_t row_stride, uint8_t *to,
                 size_t to_stride, __mmask16 mask, size_t fours)
{
    const __m512i by_row = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i means[4];
    for (size_t r = 0; r < 4; r++)
        means[r] = means_of(group, rows + r * row_stride, fours);
    /* Packing with saturation cuts to 0..255, and works within each quarter. */
    __m512i packed =
        _mm512_packus_epi16(_mm512_packs_epi32(means[0], means[1]), _mm512_packs_epi32(means[2], means[3]));
    packed = _mm512_permutexvar_epi32(by_row, packed);
    _mm_mask_storeu_epi8(to, mask, _mm512_castsi512_si128(packed));
    _mm_mask_storeu_epi8(to + to_stride, mask, _mm512_extracti32x4_epi32(packed, 1));
    _mm_mask_storeu_epi8(to + 2 * to_stride, mask, _mm512_extracti32x4_epi32(packed, 2));
    _mm_mask_storeu_epi8(to + 3 * to_stride, mask, _mm512_extracti32x4_epi32(packed, 3));
}

/* The last four rows may begin before the others have ended: some are made twice. */
INLINE bool make_stretch(const struct stretch *stretch, const struct convoy_taps *taps, const uint8_t *rows,
                         size_t row_stride, size_t row_count, uint8_t *to, size_t to_stride, size_t fours)
{
    size_t bytes = 3 * stretch->count, last = row_count - 4;
    for (size_t b = 0; b < bytes; b += BYTES) {
        struct group group;
        __mmask16 mask = (__mmask16)(bytes - b < BYTES ? (1u << (bytes - b)) - 1 : 0xffff);
        if (!begin(&group, stretch, taps, b / 3, b % 3, fours))
            return false;
        for (size_t row = 0; row < last; row += 4)
            make(&group, rows + row * row_stride, row_stride, to + row * to_stride + b, to_stride, mask,
                 fours);
        make(&group, rows + last * row_stride, row_stride, to + last * to_stride + b, to_stride, mask, fours);
    }
    return true;
}

VBMI bool convoy_mean_along_rows_vbmi(const uint8_t *rows, size_t row_stride, size_t row_count, size_t out,
                                      const struct convoy_taps *taps, const int32_t *weights, size_t stride,
                                      uint8_t *to)
{
    struct stretch stretch;
    for (size_t done = 0; done < out; done += stretch.count) {
        stretch.count = out - done < PIXELS ? out - done : PIXELS;
        size_t fours = plan(&stretch, taps + done, weights + done * stride, stride);
        uint8_t *there = to + 3 * done;
        bool made;
        switch (fours) { /* each unrolls its loops */
        case 1:
            made = make_stretch(&stretch, taps + done, rows, row_stride, row_count, there, out * 3, 1);
            break;
        case 2:
            made = make_stretch(&stretch, taps + done, rows, row_stride, row_count, there, out * 3, 2);
            break;
        case 3:
            made = make_stretch(&stretch, taps + done, rows, row_stride, row_count, there, out * 3, 3);
            break;
        case MANY:
            made = make_stretch(&stretch, taps + done, rows, row_stride, row_count, there, out * 3, MANY);
            break;
        default:
            made = false;
        }
        if (!made)
            return false;
    }
    return true;
}

#endif
