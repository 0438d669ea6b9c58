#include "kernels/check/check_harness.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD  64 /* floats: 256 bytes */
#define POISON UINT32_C(0x7fc0bad1)

/* splitmix64 */
static uint64_t next_random(struct convoy_check *check)
{
    uint64_t z = check->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

int convoy_check_between(struct convoy_check *check, int low, int high)
{
    return low + (int)(next_random(check) % (uint64_t)(high - low + 1));
}

double convoy_check_random(struct convoy_check *check, double low, double high)
{
    return low + (high - low) * (double)(next_random(check) >> 11) * 0x1p-53;
}

static struct convoy_unary some_unary(struct convoy_check *check, int kinds)
{
    struct convoy_unary unary = {
        .kind = (enum convoy_unary_kind)convoy_check_between(check, CONVOY_UNARY_NONE, kinds - 1)};
    if (unary.kind == CONVOY_UNARY_LEAKY_RELU)
        unary.alpha = 0.1f;
    if (unary.kind == CONVOY_UNARY_CLIP) {
        unary.alpha = -0.5f;
        unary.beta = 0.75f;
    }
    if (unary.kind == CONVOY_UNARY_HARD_SIGMOID) {
        unary.alpha = 0.2f;
        unary.beta = 0.5f;
    }
    if (unary.kind == CONVOY_UNARY_ELU || unary.kind == CONVOY_UNARY_THRESHOLDED)
        unary.alpha = 0.7f;
    if (unary.kind == CONVOY_UNARY_POW)
        unary.alpha = -0.75f;
    return unary;
}

struct convoy_unary convoy_check_any_unary(struct convoy_check *check)
{
    return some_unary(check, CONVOY_UNARY_FUSED_KINDS);
}

struct convoy_unary convoy_check_every_unary(struct convoy_check *check, double *low)
{
    struct convoy_unary unary = some_unary(check, CONVOY_UNARY_KINDS);
    bool of_positive =
        unary.kind == CONVOY_UNARY_LOG || unary.kind == CONVOY_UNARY_SQRT || unary.kind == CONVOY_UNARY_POW;
    *low = of_positive ? 0.125 : -4;
    return unary;
}

const char *convoy_check_unary_name(enum convoy_unary_kind kind)
{
    switch (kind) {
    case CONVOY_UNARY_NONE:
        return "none";
    case CONVOY_UNARY_RELU:
        return "relu";
    case CONVOY_UNARY_LEAKY_RELU:
        return "leaky_relu";
    case CONVOY_UNARY_SIGMOID:
        return "sigmoid";
    case CONVOY_UNARY_TANH:
        return "tanh";
    case CONVOY_UNARY_CLIP:
        return "clip";
    case CONVOY_UNARY_HARD_SIGMOID:
        return "hard_sigmoid";
    case CONVOY_UNARY_HARD_SWISH:
        return "hard_swish";
    case CONVOY_UNARY_SWISH:
        return "swish";
    case CONVOY_UNARY_EXP:
        return "exp";
    case CONVOY_UNARY_LOG:
        return "log";
    case CONVOY_UNARY_SQRT:
        return "sqrt";
    case CONVOY_UNARY_ABS:
        return "abs";
    case CONVOY_UNARY_ERF:
        return "erf";
    case CONVOY_UNARY_GELU:
        return "gelu";
    case CONVOY_UNARY_GELU_TANH:
        return "gelu_tanh";
    case CONVOY_UNARY_ELU:
        return "elu";
    case CONVOY_UNARY_SOFTPLUS:
        return "softplus";
    case CONVOY_UNARY_MISH:
        return "mish";
    case CONVOY_UNARY_ROUND:
        return "round";
    case CONVOY_UNARY_FLOOR:
        return "floor";
    case CONVOY_UNARY_CEIL:
        return "ceil";
    case CONVOY_UNARY_SIGN:
        return "sign";
    case CONVOY_UNARY_POW:
        return "pow";
    case CONVOY_UNARY_THRESHOLDED:
        return "thresholded";
    case CONVOY_UNARY_SIN:
        return "sin";
    case CONVOY_UNARY_COS:
        return "cos";
    case CONVOY_UNARY_ATAN:
        return "atan";
    }
    return "unknown";
}

static double clamp(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

double convoy_check_apply_unary(struct convoy_unary unary, double x)
{
    switch (unary.kind) {
    case CONVOY_UNARY_NONE:
        return x;
    case CONVOY_UNARY_RELU:
        return x < 0 ? 0 : x;
    case CONVOY_UNARY_LEAKY_RELU:
        return x < 0 ? (double)unary.alpha * x : x;
    case CONVOY_UNARY_SIGMOID:
        return 1 / (1 + exp(-x));
    case CONVOY_UNARY_TANH:
        return tanh(x);
    case CONVOY_UNARY_CLIP:
        return clamp(x, (double)unary.alpha, (double)unary.beta);
    case CONVOY_UNARY_HARD_SIGMOID:
        return clamp((double)unary.alpha * x + (double)unary.beta, 0, 1);
    case CONVOY_UNARY_HARD_SWISH:
        return x * clamp(x / 6 + 0.5, 0, 1);
    case CONVOY_UNARY_SWISH:
        return x / (1 + exp(-x));
    case CONVOY_UNARY_EXP:
        return exp(x);
    case CONVOY_UNARY_LOG:
        return log(x);
    case CONVOY_UNARY_SQRT:
        return sqrt(x);
    case CONVOY_UNARY_ABS:
        return fabs(x);
    case CONVOY_UNARY_ERF:
        return erf(x);
    case CONVOY_UNARY_GELU:
        return x / 2 * (1 + erf(x / sqrt(2)));
    case CONVOY_UNARY_GELU_TANH:
        return x / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * pow(x, 3))));
    case CONVOY_UNARY_ELU:
        return x < 0 ? (double)unary.alpha * (exp(x) - 1) : x;
    case CONVOY_UNARY_SOFTPLUS:
        return log(1 + exp(x));
    case CONVOY_UNARY_MISH:
        return x * tanh(log(1 + exp(x)));
    case CONVOY_UNARY_ROUND:
        return rint(x);
    case CONVOY_UNARY_FLOOR:
        return floor(x);
    case CONVOY_UNARY_CEIL:
        return ceil(x);
    case CONVOY_UNARY_SIGN:
        return (x > 0) - (x < 0);
    case CONVOY_UNARY_POW:
        return pow(x, (double)unary.alpha);
    case CONVOY_UNARY_THRESHOLDED:
        return x > (double)unary.alpha ? x : 0;
    case CONVOY_UNARY_SIN:
        return sin(x);
    case CONVOY_UNARY_COS:
        return cos(x);
    case CONVOY_UNARY_ATAN:
        return atan(x);
    }
    return NAN;
}

double convoy_check_larger(double a, double b)
{
    return isnan(a) || a > b ? a : b;
}

static int64_t whole(const struct convoy_check_buffer *buffer)
{
    return buffer->floats + buffer->offset + 2 * GUARD;
}

/* Where the memory that was allocated begins. */
static float *host_start(const struct convoy_check_buffer *buffer)
{
    return buffer->host - GUARD - buffer->offset;
}

static float *device_start(const struct convoy_check_buffer *buffer)
{
    return buffer->device - GUARD - buffer->offset;
}

static void must(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "The check cannot go on: %s: %s.\n", what, cudaGetErrorString(error));
    exit(1);
}

static void poison(float *at, int64_t count)
{
    uint32_t bits = POISON;
    for (int64_t i = 0; i < count; i++)
        memcpy(at + i, &bits, sizeof bits);
}

static bool is_poison(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits == POISON;
}

struct convoy_check_buffer convoy_check_buffer(int64_t floats, int offset)
{
    struct convoy_check_buffer buffer = {.floats = floats, .offset = offset};
    size_t count = (size_t)whole(&buffer);
    float *host = malloc(count * sizeof *host);
    void *device = NULL;
    if (!host) {
        fprintf(stderr, "The check cannot go on: no memory for %zu floats.\n", count);
        exit(1);
    }
    must(cudaMalloc(&device, count * sizeof *host), "allocating device memory");
    poison(host, (int64_t)count);
    buffer.host = host + GUARD + offset;
    buffer.device = (float *)device + GUARD + offset;
    convoy_check_upload(&buffer);
    return buffer;
}

void convoy_check_upload(const struct convoy_check_buffer *buffer)
{
    must(cudaMemcpy(device_start(buffer), host_start(buffer), (size_t)whole(buffer) * sizeof(float),
                    cudaMemcpyHostToDevice),
         "copying to the device");
}

convoy_fp16 *convoy_check_halves(const struct convoy_check_buffer *buffer)
{
    return (convoy_fp16 *)(void *)buffer->device;
}

void convoy_check_put_nan(enum check_nan where, float *planes, int count, int h, int w)
{
    for (int i = 0; i < count * h * w; i++) {
        int line = where == CHECK_NAN_ROWS ? i / w % h : i % w;
        if (where == CHECK_NAN_LAST || (where != CHECK_NO_NAN && (line == 0 || line == 3)))
            planes[i] = NAN;
    }
}

struct convoy_check_buffer convoy_check_input(struct convoy_check *check, int64_t floats, int offset,
                                              double low, double high)
{
    struct convoy_check_buffer buffer = convoy_check_buffer(floats, offset);
    for (int64_t i = 0; i < floats; i++)
        buffer.host[i] = (float)convoy_check_random(check, low, high);
    convoy_check_upload(&buffer);
    return buffer;
}

void convoy_check_free(struct convoy_check_buffer *buffer)
{
    if (buffer->host) {
        free(host_start(buffer));
        must(cudaFree(device_start(buffer)), "freeing device memory");
    }
    *buffer = (struct convoy_check_buffer){0};
}

static void download(const struct convoy_check_buffer *buffer)
{
    must(cudaMemcpy(host_start(buffer), device_start(buffer), (size_t)whole(buffer) * sizeof(float),
                    cudaMemcpyDeviceToHost),
         "copying from the device");
}

static bool guards_stand(const struct convoy_check_buffer *buffer)
{
    for (int64_t i = 0; i < GUARD + buffer->offset; i++)
        if (!is_poison(host_start(buffer)[i]))
            return false;
    for (int64_t i = 0; i < GUARD; i++)
        if (!is_poison(buffer->host[buffer->floats + i]))
            return false;
    return true;
}

/* NULL if y is right, else what is wrong; the greatest error over max |want| in *error, and where in *at. */
static const char *compare(const struct convoy_check *check, const struct convoy_check_buffer *y,
                           const double *want, double *error, int64_t *at)
{
    double most = 0, bound = check->bound > 0 ? check->bound : CONVOY_CHECK_BOUND;
    *error = 0;
    for (int64_t i = 0; i < y->floats; i++)
        if (isfinite(want[i]))
            most = fmax(most, fabs(want[i]));
    for (int64_t i = 0; i < y->floats; i++) {
        *at = i;
        if (isnan(want[i]) && !check->has_nan) {
            if (!is_poison(y->host[i]))
                return "written where nothing belongs";
            continue;
        }
        if (is_poison(y->host[i]))
            return "not written";
        if (isnan(want[i]) && isnan(y->host[i]))
            continue;
        if (isinf(want[i]) && (double)y->host[i] == want[i])
            continue;
        double difference = fabs((double)y->host[i] - want[i]);
        if (!(difference <= bound * most))
            return "wrong";
        if (most > 0)
            *error = fmax(*error, difference / most);
    }
    return NULL;
}

void convoy_check_result(struct convoy_check *check, cudaError_t launched, struct convoy_check_buffer *y,
                         const double *want, struct convoy_check_buffer *scratch, const char *format, ...)
{
    double error = 0;
    int64_t at = 0;
    const char *what = NULL;
    check->cases++;
    if (launched != cudaSuccess) {
        what = cudaGetErrorString(launched);
    } else {
        must(cudaDeviceSynchronize(), "waiting for a kernel");
        download(y);
        what = compare(check, y, want, &error, &at);
        check->worst = fmax(check->worst, error);
        if (!what && !guards_stand(y))
            what = "written outside the output";
        if (!what && scratch && scratch->host) {
            download(scratch);
            if (!guards_stand(scratch))
                what = "written outside the scratch memory";
        }
    }
    if (!what)
        return;
    check->failures++;
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "FAILED: ");
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, ": %s", what);
    if (launched == cudaSuccess)
        fprintf(stderr, " (element %lld is %.9g, expected %.9g)", (long long)at, (double)y->host[at],
                want[at]);
    fprintf(stderr, "\n");
}

/* Adding a number so large that the last of its 53 bits is a unit of the half rounds to that, ties to even.
 */
static double round_to_half(double x)
{
    uint64_t bits, exponent;
    double large;

    if (!isfinite(x))
        return x;
    memcpy(&bits, &x, sizeof bits);
    exponent = bits >> 52 & 0x7ff;
    if (exponent < 1023 - 14)
        exponent = 1023 - 14; /* a subnormal half */
    bits = (exponent + 42) << 52 | UINT64_C(1) << 51;
    memcpy(&large, &bits, sizeof large);
    double nearest = x + large - large;
    return copysign(fabs(nearest) > 65504 ? INFINITY : nearest, x);
}

double convoy_check_round(double x, enum convoy_compute_type compute_type)
{
    if (compute_type == CONVOY_COMPUTE_FP32)
        return x;
    if (compute_type == CONVOY_COMPUTE_FP16)
        return round_to_half((float)x);
    float value = (float)x;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0x1000) & 0xffffe000;
    memcpy(&value, &bits, sizeof bits);
    return value;
}

void *convoy_check_memory(int64_t count, size_t size)
{
    void *bytes = calloc((size_t)count, size);
    if (bytes == NULL)
        exit(1);
    return bytes;
}

void *convoy_check_device_copy(const void *host, size_t bytes)
{
    void *device = NULL;
    if (cudaMalloc(&device, bytes) != cudaSuccess ||
        cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice) != cudaSuccess) {
        fprintf(stderr, "no device memory for a check\n");
        exit(1);
    }
    return device;
}

bool convoy_check_marked(const uint32_t *marks, int64_t n, int64_t loud, uint32_t mark)
{
    uint32_t *host = convoy_check_memory(n, sizeof *host);
    bool right = cudaDeviceSynchronize() == cudaSuccess &&
                 cudaMemcpy(host, marks, (size_t)n * sizeof *host, cudaMemcpyDeviceToHost) == cudaSuccess;
    for (int64_t i = 0; i < n; i++)
        right = right && host[i] == (i == loud ? mark : 0);
    free(host);
    return right;
}
