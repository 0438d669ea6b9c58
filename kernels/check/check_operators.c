#include "kernels/check/check_operators.h"

#include "kernels/nhwc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int dims[] = {1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 31, 32, 33, 40};

static double *doubles(int64_t count)
{
    double *values = malloc((size_t)count * sizeof *values);
    if (!values)
        exit(1);
    for (int64_t i = 0; i < count; i++)
        values[i] = NAN;
    return values;
}

/* Mostly on 16 bytes. */
static int any_offset(struct convoy_check *check)
{
    return convoy_check_between(check, 0, 3) ? 0 : convoy_check_between(check, 1, 3);
}

/* y for an input x of as many floats: x itself, or memory of its own. */
static struct convoy_check_buffer output_or(struct convoy_check *check, struct convoy_check_buffer *x)
{
    return convoy_check_between(check, 0, 1) ? *x : convoy_check_buffer(x->floats, any_offset(check));
}

static void free_both(struct convoy_check_buffer *x, struct convoy_check_buffer *y)
{
    if (y->host != x->host)
        convoy_check_free(y);
    convoy_check_free(x);
}

/* ---- Elementwise ---- */

/* Of a single number that is near 0 after cancellation, fp32 need not have the leading digits: the first
 * elements give something of about 1. */
static void set_first(struct convoy_check_buffer *buffer, float value)
{
    buffer->host[0] = value;
    convoy_check_upload(buffer);
}

static void check_unary(struct convoy_check *check)
{
    int64_t count = convoy_check_between(check, 0, 1) ? convoy_check_between(check, 1, 9)
                                                      : convoy_check_between(check, 1000, 9000);
    double low;
    struct convoy_unary act = convoy_check_every_unary(check, &low);
    struct convoy_check_buffer x = convoy_check_input(check, count, any_offset(check), low, 4);
    set_first(&x, 1.5f);
    struct convoy_check_buffer y = output_or(check, &x);
    double *want = doubles(count);
    for (int64_t i = 0; i < count; i++)
        want[i] = convoy_check_apply_unary(act, (double)x.host[i]);
    cudaError_t launched = convoy_launch_unary(count, act, x.device, y.device, NULL);
    convoy_check_result(check, launched, &y, want, NULL, "unary act %d count %lld offsets %d %d",
                        (int)act.kind, (long long)count, x.offset, y.offset);
    free(want);
    free_both(&x, &y);
}

static void check_zero(struct convoy_check *check)
{
    int64_t count = convoy_check_between(check, 1, 5000);
    struct convoy_check_buffer y = convoy_check_buffer(count, any_offset(check));
    double *want = doubles(count);
    memset(want, 0, (size_t)count * sizeof *want);
    cudaError_t launched = convoy_launch_zero(count, y.device, NULL);
    convoy_check_result(check, launched, &y, want, NULL, "zero count %lld offset %d", (long long)count,
                        y.offset);
    free(want);
    convoy_check_free(&y);
}

static void check_scale_shift(struct convoy_check *check)
{
    int64_t outer = convoy_check_between(check, 1, 5);
    int64_t channels = CONVOY_CHECK_PICK(check, dims);
    int64_t inner = convoy_check_between(check, 0, 2) ? CONVOY_CHECK_PICK(check, dims) : 1;
    int64_t count = outer * channels * inner;
    struct convoy_check_buffer x = convoy_check_input(check, count, any_offset(check), -2, 2);
    struct convoy_check_buffer scale = convoy_check_input(check, channels, any_offset(check), -2, 2);
    struct convoy_check_buffer shift = convoy_check_input(check, channels, scale.offset, -1, 1);
    set_first(&x, 1);
    set_first(&scale, 1);
    set_first(&shift, 0.5f);
    struct convoy_check_buffer y = output_or(check, &x);
    struct convoy_unary act = convoy_check_any_unary(check);
    double *want = doubles(count);
    for (int64_t i = 0; i < count; i++) {
        int64_t c = i / inner % channels;
        want[i] =
            convoy_check_apply_unary(act, (double)x.host[i] * (double)scale.host[c] + (double)shift.host[c]);
    }
    cudaError_t launched = convoy_launch_scale_shift(outer, channels, inner, act, x.device, scale.device,
                                                     shift.device, y.device, NULL);
    convoy_check_result(check, launched, &y, want, NULL,
                        "scale_shift %lld x %lld x %lld act %d offsets %d %d %d", (long long)outer,
                        (long long)channels, (long long)inner, (int)act.kind, x.offset, scale.offset,
                        y.offset);
    free(want);
    convoy_check_free(&scale);
    convoy_check_free(&shift);
    free_both(&x, &y);
}

static void check_softmax(struct convoy_check *check)
{
    int64_t outer = convoy_check_between(check, 1, 20);
    int64_t length = convoy_check_between(check, 0, 3) ? CONVOY_CHECK_PICK(check, dims)
                                                       : convoy_check_between(check, 100, 1100);
    int64_t inner = convoy_check_between(check, 0, 1) ? 1 : CONVOY_CHECK_PICK(check, dims);
    int64_t count = outer * length * inner;
    double most = convoy_check_between(check, 0, 1) ? 5 : 300; /* 300: exp() of it is infinite */
    bool ln = convoy_check_between(check, 0, 2) == 0;
    struct convoy_check_buffer x = convoy_check_input(check, count, 0, -most, most);
    if (length > 2) { /* masked out */
        x.host[inner] = -INFINITY;
        convoy_check_upload(&x);
    }
    struct convoy_check_buffer y = output_or(check, &x);
    double *want = doubles(count);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            const float *column = x.host + o * length * inner + i;
            double *to = want + o * length * inner + i;
            double highest = -INFINITY;
            for (int64_t l = 0; l < length; l++)
                highest = fmax(highest, (double)column[l * inner]);
            double sum = exp((double)column[0] - highest);
            for (int64_t l = 1; l < length; l++)
                sum += exp((double)column[l * inner] - highest);
            for (int64_t l = 0; l < length; l++)
                to[l * inner] = ln ? (double)column[l * inner] - highest - log(sum)
                                   : exp((double)column[l * inner] - highest - log(sum));
        }
    cudaError_t launched = convoy_launch_softmax(outer, length, inner, ln, x.device, y.device, NULL);
    convoy_check_result(check, launched, &y, want, NULL, "softmax %lld x %lld x %lld, ln %d",
                        (long long)outer, (long long)length, (long long)inner, (int)ln);
    free(want);
    free_both(&x, &y);
}

/* Small whole numbers, so that many are equal, and sometimes NaN and infinity. */
static void check_top(struct convoy_check *check)
{
    struct convoy_top_shape shape = {
        .outer = convoy_check_between(check, 1, 20),
        .length = convoy_check_between(check, 0, 3) ? CONVOY_CHECK_PICK(check, dims)
                                                    : convoy_check_between(check, 100, 1100),
        .inner = convoy_check_between(check, 0, 1) ? 1 : CONVOY_CHECK_PICK(check, dims),
        .smallest = convoy_check_between(check, 0, 1) == 1,
        .last = convoy_check_between(check, 0, 1) == 1,
        .places = convoy_check_between(check, 0, 1) == 1};
    shape.count = convoy_check_between(check, 1, shape.length < 8 ? (int)shape.length : 8);
    int64_t elements = shape.outer * shape.length * shape.inner,
            results = shape.outer * shape.count * shape.inner;
    bool odd = convoy_check_between(check, 0, 2) == 0;
    struct convoy_check_buffer x = convoy_check_input(check, elements, 0, -4, 4);
    for (int64_t i = 0; i < elements; i++)
        x.host[i] = rintf(x.host[i]);
    if (odd) {
        x.host[elements / 2] = INFINITY;
        x.host[elements / 3] = -INFINITY;
        x.host[shape.places ? elements / 4 : 0] = shape.places ? NAN : 3;
    }
    convoy_check_upload(&x);
    struct convoy_check_buffer y = convoy_check_buffer(results, any_offset(check));
    double *want = doubles(results);
    for (int64_t i = 0; i < elements; i++) { /* as many come before a number as it has before it */
        int64_t place = i / shape.inner % shape.length, start = i - place * shape.inner, before = 0;
        for (int64_t k = 0; k < shape.length; k++) {
            float a = x.host[start + k * shape.inner], b = x.host[i];
            bool same = a == b || (isnan(a) && isnan(b));
            before += same ? (shape.last ? k > place : k < place)
                           : isnan(a) || (!isnan(b) && (shape.smallest ? a < b : a > b));
        }
        if (before < shape.count)
            want[i / shape.inner / shape.length * shape.count * shape.inner + before * shape.inner +
                 i % shape.inner] = shape.places ? (double)place : (double)x.host[i];
    }
    cudaError_t launched = convoy_launch_top(&shape, x.device, y.device, NULL);
    convoy_check_result(check, launched, &y, want, NULL,
                        "top %lld of %lld x %lld x %lld, smallest %d, last %d, places %d",
                        (long long)shape.count, (long long)shape.outer, (long long)shape.length,
                        (long long)shape.inner, (int)shape.smallest, (int)shape.last, (int)shape.places);
    free(want);
    free_both(&x, &y);
}

/* scale and shift may be NULL. */
static void normalize_column(const struct convoy_normalize_shape *shape, const float *x, const float *scale,
                             const float *shift, double *y)
{
    double mean = 0;
    double squares = 0;
    for (int64_t l = 0; l < shape->length && !shape->rms; l++)
        mean += (double)x[l * shape->inner] / (double)shape->length;
    for (int64_t l = 0; l < shape->length; l++)
        squares += pow((double)x[l * shape->inner] - mean, 2) / (double)shape->length;
    for (int64_t l = 0; l < shape->length; l++)
        y[l * shape->inner] = ((double)x[l * shape->inner] - mean) / sqrt(squares + (double)shape->epsilon) *
                                  (scale != NULL ? (double)scale[l] : 1) +
                              (shift != NULL ? (double)shift[l] : 0);
}

static void check_normalize(struct convoy_check *check)
{
    struct convoy_normalize_shape shape = {
        .outer = convoy_check_between(check, 1, 20),
        .length = convoy_check_between(check, 0, 3) ? CONVOY_CHECK_PICK(check, dims)
                                                    : convoy_check_between(check, 900, 2100),
        .inner = convoy_check_between(check, 0, 1) ? 1 : CONVOY_CHECK_PICK(check, dims),
        .epsilon = 1e-5f,
        .rms = convoy_check_between(check, 0, 1)};
    double centre =
        convoy_check_between(check, 0, 1) ? 0 : 30; /* far from 0, as sums of squares do not like */
    int64_t count = shape.outer * shape.length * shape.inner;
    struct convoy_check_buffer x =
        convoy_check_input(check, count, any_offset(check), centre - 2, centre + 2);
    struct convoy_check_buffer scale = convoy_check_input(check, shape.length, 0, -2, 2);
    struct convoy_check_buffer shift = convoy_check_input(check, shape.length, 0, -1, 1);
    bool scaled = convoy_check_between(check, 0, 1);
    bool shifted = convoy_check_between(check, 0, 1);
    set_first(&scale, 1);
    set_first(&shift, 0.5f);
    struct convoy_check_buffer y = output_or(check, &x);
    double *want = doubles(count);
    for (int64_t i = 0; i < shape.outer * shape.inner; i++) {
        int64_t start = i / shape.inner * shape.length * shape.inner + i % shape.inner;
        normalize_column(&shape, x.host + start, scaled ? scale.host : NULL, shifted ? shift.host : NULL,
                         want + start);
    }
    cudaError_t launched = convoy_launch_normalize(&shape, x.device, scaled ? scale.device : NULL,
                                                   shifted ? shift.device : NULL, y.device, NULL);
    convoy_check_result(check, launched, &y, want, NULL,
                        "normalize %lld x %lld x %lld, rms %d, scale %d, shift %d, centre %g",
                        (long long)shape.outer, (long long)shape.length, (long long)shape.inner,
                        (int)shape.rms, (int)scaled, (int)shifted, centre);
    free(want);
    convoy_check_free(&scale);
    convoy_check_free(&shift);
    free_both(&x, &y);
}

/* ---- Walks ---- */

/* Element i of a box, as a place in a tensor. */
static int64_t place_of(int rank, const int64_t *box, const int64_t *stride, int64_t i)
{
    int64_t place = 0;
    for (int d = rank - 1; d >= 0; d--) {
        int64_t size = box[d] > 0 ? box[d] : 1;
        place += i % size * stride[d];
        i /= size;
    }
    return place;
}

static int64_t count_of(int rank, const int64_t *box)
{
    int64_t count = 1;
    for (int d = 0; d < rank; d++)
        count *= box[d];
    return count;
}

static void any_box(struct convoy_check *check, int *rank, int64_t *box)
{
    *rank = convoy_check_between(check, 0, 7) ? convoy_check_between(check, 1, 4) : CONVOY_KERNEL_RANK;
    for (int d = 0; d < *rank; d++)
        box[d] =
            *rank > 4 ? convoy_check_between(check, 1, 3) : CONVOY_CHECK_PICK(check, dims) / (d < 2 ? 4 : 1);
    for (int d = 0; d < *rank; d++)
        box[d] = box[d] < 1 ? 1 : box[d];
}

/* Strides of a tensor that holds the box with its dimensions in any order and, perhaps, gaps between rows.
 * Returns how many floats that takes. */
static int64_t any_strides(struct convoy_check *check, int rank, const int64_t *box, int64_t *stride)
{
    int order[CONVOY_KERNEL_RANK] = {0};
    for (int d = 0; d < rank; d++)
        order[d] = d;
    if (convoy_check_between(check, 0, 1))
        for (int d = rank - 1; d > 0; d--) {
            int other = convoy_check_between(check, 0, d);
            int kept = order[d];
            order[d] = order[other];
            order[other] = kept;
        }
    int64_t floats = 1;
    int64_t gap = convoy_check_between(check, 0, 2) * convoy_check_between(check, 1, 4);
    for (int i = rank - 1; i >= 0; i--) {
        stride[order[i]] = floats;
        floats *= box[order[i]];
        if (i == rank - 1)
            floats += gap;
    }
    return floats;
}

static void check_copy(struct convoy_check *check)
{
    struct convoy_strided_copy copy = {0};
    any_box(check, &copy.rank, copy.dims);
    int64_t x_floats = any_strides(check, copy.rank, copy.dims, copy.x_stride);
    int64_t y_floats = any_strides(check, copy.rank, copy.dims, copy.y_stride);
    if (convoy_check_between(check, 0, 4) == 0) /* repeats */
        copy.x_stride[convoy_check_between(check, 0, copy.rank - 1)] = 0;
    struct convoy_check_buffer x = convoy_check_input(check, x_floats, any_offset(check), -1, 1);
    struct convoy_check_buffer y = convoy_check_buffer(y_floats, any_offset(check));
    double *want = doubles(y_floats);
    for (int64_t i = 0; i < count_of(copy.rank, copy.dims); i++)
        want[place_of(copy.rank, copy.dims, copy.y_stride, i)] =
            (double)x.host[place_of(copy.rank, copy.dims, copy.x_stride, i)];
    cudaError_t launched = convoy_launch_copy(&copy, x.device, y.device, NULL);
    convoy_check_result(
        check, launched, &y, want, NULL,
        "copy rank %d, last dims %lld %lld, strides of x %lld %lld, of y %lld %lld, offsets %d %d", copy.rank,
        (long long)copy.dims[copy.rank - 1], (long long)copy.dims[copy.rank > 1 ? copy.rank - 2 : 0],
        (long long)copy.x_stride[copy.rank - 1], (long long)copy.x_stride[copy.rank > 1 ? copy.rank - 2 : 0],
        (long long)copy.y_stride[copy.rank - 1], (long long)copy.y_stride[copy.rank > 1 ? copy.rank - 2 : 0],
        x.offset, y.offset);
    free(want);
    convoy_check_free(&x);
    convoy_check_free(&y);
}

/* Dense strides, with 0 in the dimensions of `repeated` (a bit each, the last dimension's first); the floats
 * that takes. */
static int64_t dense_strides(int rank, const int64_t *box, int repeated, int64_t *stride)
{
    int64_t floats = 1;
    for (int d = rank - 1; d >= 0; d--, repeated /= 2) {
        stride[d] = repeated % 2 ? 0 : floats;
        if (stride[d])
            floats *= box[d];
    }
    return floats;
}

static double apply_binary(enum convoy_binary_operator op, double a, double b)
{
    switch (op) {
    case CONVOY_BINARY_ADD:
        return a + b;
    case CONVOY_BINARY_SUB:
        return a - b;
    case CONVOY_BINARY_MUL:
        return a * b;
    case CONVOY_BINARY_DIV:
        return a / b;
    case CONVOY_BINARY_MAX:
        return fmax(a, b);
    case CONVOY_BINARY_MIN:
        return fmin(a, b);
    case CONVOY_BINARY_POWER:
        return pow(a, b);
    case CONVOY_BINARY_EQUAL:
        return a == b;
    case CONVOY_BINARY_LESS:
        return a < b;
    case CONVOY_BINARY_LESS_EQUAL:
        return a <= b;
    case CONVOY_BINARY_KEEP:
        return b != 0 ? a : 0;
    }
    return NAN;
}

static void check_binary(struct convoy_check *check)
{
    struct convoy_broadcast box = {.act = convoy_check_any_unary(check)};
    any_box(check, &box.rank, box.dims);
    box.op = (enum convoy_binary_operator)convoy_check_between(check, CONVOY_BINARY_ADD, CONVOY_BINARY_KEEP);
    int a_repeated = 0;
    int b_repeated = 0;
    if (convoy_check_between(check, 0, 1)) { /* images, and what networks add to them or multiply them with */
        static const int forms[] = {0, 3, 4, 5, 6, 7};
        box.rank = 3;
        box.dims[0] = convoy_check_between(check, 1, 5);
        box.dims[1] = CONVOY_CHECK_PICK(check, dims);
        box.dims[2] = CONVOY_CHECK_PICK(check, dims);
        b_repeated = CONVOY_CHECK_PICK(check, forms);
    } else if (convoy_check_between(check, 0, 3)) {
        b_repeated = convoy_check_between(check, 1, (1 << box.rank) - 1);
    }
    if (convoy_check_between(check, 0, 1)) {
        a_repeated = b_repeated;
        b_repeated = 0;
        if (convoy_check_between(check, 0, 3) == 0)
            b_repeated = convoy_check_between(check, 1, (1 << box.rank) - 1);
    }
    int64_t a_floats = dense_strides(box.rank, box.dims, a_repeated, box.a_stride);
    int64_t b_floats = dense_strides(box.rank, box.dims, b_repeated, box.b_stride);
    int64_t count = count_of(box.rank, box.dims);
    struct convoy_check_buffer a = convoy_check_input(check, a_floats, any_offset(check), 0.5, 2);
    struct convoy_check_buffer b = convoy_check_input(check, b_floats, any_offset(check), 0.5, 2);
    struct convoy_check_buffer y = {0};
    int in_place = convoy_check_between(check, 0, 2);
    if (in_place == 1 && a_repeated == 0)
        y = a;
    else if (in_place == 2 && b_repeated == 0)
        y = b;
    else
        y = convoy_check_buffer(count, any_offset(check));
    double *want = doubles(count);
    for (int64_t i = 0; i < count; i++)
        want[i] = convoy_check_apply_unary(
            box.act, apply_binary(box.op, (double)a.host[place_of(box.rank, box.dims, box.a_stride, i)],
                                  (double)b.host[place_of(box.rank, box.dims, box.b_stride, i)]));
    cudaError_t launched = convoy_launch_binary(&box, a.device, b.device, y.device, NULL);
    convoy_check_result(
        check, launched, &y, want, NULL,
        "binary op %d act %d rank %d, count %lld, a repeated in %#x, b in %#x, in place %d, last dim %lld",
        (int)box.op, (int)box.act.kind, box.rank, (long long)count, (unsigned)a_repeated,
        (unsigned)b_repeated,
        y.host == a.host   ? 1
        : y.host == b.host ? 2
                           : 0,
        (long long)box.dims[box.rank - 1]);
    free(want);
    if (y.host != a.host)
        free_both(&b, &y);
    else
        convoy_check_free(&b);
    convoy_check_free(&a);
}

/* ---- All ---- */

static const struct {
    const char *name;
    void (*check)(struct convoy_check *check);
    bool nhwc; /* of tensors in 16 bits: not on every device */
} operators[] = {{"unary", check_unary},
                 {"zero", check_zero},
                 {"scale_shift", check_scale_shift},
                 {"softmax", check_softmax},
                 {"normalize", check_normalize},
                 {"top", check_top},
                 {"copy", check_copy},
                 {"binary", check_binary},
                 {"pool", convoy_check_pool},
                 {"read_images", convoy_check_read_images},
                 {"fit_images", convoy_check_fit_images},
                 {"decoded_planes", convoy_check_decoded_planes},
                 {"gather", convoy_check_gather, true},
                 {"excite", convoy_check_excite, true},
                 {"patches", convoy_check_patches, true},
                 {"attention", convoy_check_attention, true},
                 {"nhwc_pool", convoy_check_nhwc_pool, true},
                 {"nhwc_normalize", convoy_check_nhwc_normalize, true},
                 {"bottleneck", convoy_check_bottleneck, true},
                 {"inverted", convoy_check_inverted, true}};

bool convoy_check_has_operator(const char *name)
{
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++)
        if (strcmp(name, operators[i].name) == 0)
            return true;
    return false;
}

int convoy_check_operators(uint64_t seed, int cases, const char *only)
{
    int failures = 0;
    for (size_t i = 0; i < sizeof operators / sizeof operators[0]; i++) {
        struct convoy_check check = {.random = seed + 100 + i};
        if ((only != NULL && strcmp(only, operators[i].name) != 0) ||
            (operators[i].nhwc && !convoy_nhwc_here()))
            continue;
        while (check.cases < cases)
            operators[i].check(&check);
        printf("%-24s %4d cases, worst error %.1e, %d failed\n", operators[i].name, check.cases, check.worst,
               check.failures);
        failures += check.failures;
    }
    return failures;
}
