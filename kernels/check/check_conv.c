/* Random input, running a kernel on it, comparing and timing. */
#include "kernels/check/check_conv.h"

#include "kernels/check/check_nhwc.h"
#include "kernels/check/check_normalized.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE         2000.0F  /* how many times larger or smaller */
#define HIDDEN        40000.0F /* fp16 holds it, but not twice it */
#define OFFSET        4.0F
#define SAMPLE_IMAGES 16
#define SAMPLE_WORK   2e9          /* multiply-adds of the reference, about */
#define PIECE_FLOATS  (16ll << 20) /* of y, copied back at a time to look for poison */
#define WARM_UP       3

void check_die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("convoy-kernels: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    exit(1);
}

void check_cuda(cudaError_t error, const char *what)
{
    if (error != cudaSuccess)
        check_die("%s failed: %s (%s)%s", what, cudaGetErrorString(error), cudaGetErrorName(error),
                  error == cudaErrorMemoryAllocation
                      ? "; try fewer images, or another --device, or see with nvidia-smi who uses the memory"
                      : "");
}

static void *host_memory(size_t bytes)
{
    void *memory = calloc(bytes ? bytes : 1, 1);
    if (!memory)
        check_die("no memory for %zu bytes on the host; try fewer images", bytes);
    return memory;
}

static void *device_memory(size_t bytes)
{
    void *memory = NULL;
    check_cuda(cudaMalloc(&memory, bytes ? bytes : 1), "allocating device memory");
    return memory;
}

static float *random_floats(size_t count, float scale, struct convoy_check *random)
{
    float *values = host_memory(count * sizeof(float));
    for (size_t i = 0; i < count; i++)
        values[i] = (float)convoy_check_random(random, -1, 1) * scale;
    return values;
}

static float *to_device(const float *values, size_t count)
{
    float *memory = device_memory(count * sizeof(float));
    check_cuda(cudaMemcpy(memory, values, count * sizeof(float), cudaMemcpyHostToDevice),
               "copying to the device");
    return memory;
}

int64_t check_outputs(const struct convoy_conv_shape *s)
{
    if (s->nhwc.pool.oh > 0)
        return (int64_t)s->k * s->nhwc.pool.oh * s->nhwc.pool.ow;
    return (int64_t)s->k * (s->oh / s->pool) * (s->ow / s->pool);
}

double check_work(const struct convoy_conv_shape *s)
{
    int group_c = s->c / s->groups;
    return (double)s->k * s->oh * s->ow * group_c * s->r * s->s;
}

bool check_complete(struct check_case *which)
{
    struct convoy_conv_shape *s = &which->shape;
    s->oh = s->h + 2 * s->pad[0] - (s->r - 1) * s->dilation[0] - 1;
    s->ow = s->w + 2 * s->pad[1] - (s->s - 1) * s->dilation[1] - 1;
    if (s->oh < 0 || s->ow < 0)
        return false;
    s->oh = s->oh / s->stride[0] + 1;
    s->ow = s->ow / s->stride[1] + 1;
    int64_t bytes = (int64_t)s->c * s->h * s->w * (s->u8 ? 1 : 4);
    which->image_bytes = s->u8 ? (bytes + 63) / 64 * 64 : bytes;
    return s->oh >= s->pool && s->ow >= s->pool;
}

void check_pool_overlapping(struct check_case *which, int pad)
{
    const struct convoy_conv_shape *s = &which->shape;
    which->shape.nhwc.pool =
        (struct convoy_nhwc_pool){(s->oh + 2 * pad - 3) / 2 + 1, (s->ow + 2 * pad - 3) / 2 + 1, pad};
}

void check_describe(const struct check_case *which, char *text, size_t bytes)
{
    static const char *const compute_type[] = {"fp32", "tf32", "fp16"};
    const struct convoy_conv_shape *s = &which->shape;
    snprintf(text, bytes,
             "n %d, c %d, %d x %d, k %d, filter %d x %d, stride %d %d, pad %d %d, dilation %d %d, groups %d, "
             "to %d x %d, "
             "act %s, pool %d%s, image bytes %lld, products %s%s%s%s%s%s",
             s->n, s->c, s->h, s->w, s->k, s->r, s->s, s->stride[0], s->stride[1], s->pad[0], s->pad[1],
             s->dilation[0], s->dilation[1], s->groups, s->oh, s->ow, convoy_check_unary_name(s->act.kind),
             s->pool,
             s->nhwc.pool.oh == 0    ? ""
             : s->nhwc.pool.pad == 1 ? " and 3 x 3 of stride 2, padded"
                                     : " and 3 x 3 of stride 2",
             (long long)which->image_bytes, compute_type[s->compute_type], s->u8 ? ", u8" : "",
             s->bias ? ", bias" : "", s->residual ? ", residual" : "", which->in_place ? " in place" : "",
             which->nan                        ? ", NaN"
             : which->numbers == CHECK_CROSSED ? ", crossed"
             : which->numbers == CHECK_BEYOND  ? ", large beyond"
             : which->numbers == CHECK_HIDDEN  ? ", hidden"
             : which->numbers == CHECK_OFFSET  ? ", offset"
                                               : "");
}

/* Numbers of channels, `of_each` for each, again and again. */
static void cross(float *numbers, size_t count, int channels, size_t of_each, float first)
{
    for (size_t i = 0; i < count; i++)
        numbers[i] *= i / of_each % (size_t)channels < (size_t)channels / 2 ? first : 1 / first;
}

/* Planes of h x w: of images, or of filters. */
static void put_large_beyond(float *numbers, size_t count, int h, int w, bool filter)
{
    for (size_t i = 0; i < count; i++) {
        int row = (int)(i / (size_t)w % (size_t)h), column = (int)(i % (size_t)w);
        bool first = row == 0 || column == 0, last = row == h - 1 || column == w - 1;
        numbers[i] *= (filter ? first && !last : last) ? LARGE : filter && last ? 0 : 1;
    }
}

/* The last pixel of the last image. */
static void hide_large_input(struct check_problem *problem)
{
    const struct convoy_conv_shape *s = &problem->which.shape;
    int64_t image = problem->which.image_bytes / (int64_t)sizeof(float), pixels = (int64_t)s->h * s->w;
    ((float *)problem->images)[(s->n - 1) * image + pixels - 1] = HIDDEN;
}

/* Its gate, its scale and its weights. */
static void hide_large_products(struct check_problem *problem)
{
    const struct convoy_conv_shape *s = &problem->which.shape;
    problem->gates[(int64_t)(s->n - 1) * s->c] = problem->input_scale[0] = 2;
    for (int k = 0; k < s->k; k++)
        problem->weights[(int64_t)k * s->c] = -0.5F;
}

static void make_images(struct check_problem *problem, struct convoy_check *random)
{
    const struct convoy_conv_shape *s = &problem->which.shape;
    struct convoy_images *images = &problem->device_images;
    size_t bytes = (size_t)s->n * (size_t)problem->which.image_bytes;
    images->u8 = s->u8;
    images->image_bytes = problem->which.image_bytes;
    if (s->u8) {
        unsigned char *pixels = host_memory(bytes);
        for (size_t i = 0; i < bytes; i++)
            pixels[i] = (unsigned char)convoy_check_between(random, 0, 255);
        problem->images = pixels;
        for (int c = 0; c < s->c; c++) {
            images->multiply[c] = (1.0F + 0.5F * (float)convoy_check_random(random, -1, 1)) / 127.0F;
            images->add[c] = (float)convoy_check_random(random, -1, 1) - 1.0F;
        }
    } else {
        problem->images = random_floats(bytes / sizeof(float), 1.0F, random);
        if (problem->which.numbers == CHECK_CROSSED)
            cross(problem->images, bytes / sizeof(float), s->c, (size_t)s->h * s->w, LARGE);
        else if (problem->which.numbers == CHECK_BEYOND)
            put_large_beyond(problem->images, bytes / sizeof(float), s->h, s->w, false);
        else if (problem->which.numbers == CHECK_HIDDEN)
            hide_large_input(problem);
        for (size_t i = 0; i < bytes / sizeof(float) && problem->which.numbers == CHECK_OFFSET; i++)
            ((float *)problem->images)[i] += OFFSET;
        for (int n = problem->which.nan == CHECK_NAN_LAST ? s->n - 1 : 0; n < s->n; n++)
            convoy_check_put_nan(problem->which.nan,
                                 (float *)problem->images + n * images->image_bytes / (int64_t)sizeof(float),
                                 s->c, s->h, s->w);
    }
    void *memory = device_memory(bytes);
    check_cuda(cudaMemcpy(memory, problem->images, bytes, cudaMemcpyHostToDevice),
               "copying images to the device");
    images->data = memory;
}

/* The first image, the last, and others drawn between them; all if they are few. */
static void draw_sample(struct check_problem *problem, struct convoy_check *random)
{
    const struct convoy_conv_shape *s = &problem->which.shape;
    double work = check_work(s);
    int most = (int)fmax(2, fmin(SAMPLE_IMAGES, SAMPLE_WORK / work));
    problem->samples = s->n < most ? s->n : most;
    problem->sample = host_memory((size_t)problem->samples * sizeof(int));
    for (int i = 0; i < problem->samples; i++) {
        bool all = problem->samples == s->n;
        problem->sample[i] = all      ? i
                             : i == 0 ? 0
                             : i == 1 ? s->n - 1
                                      : convoy_check_between(random, 0, s->n - 1);
    }
}

void check_problem_make(struct check_problem *problem, const struct check_case *which, uint64_t seed)
{
    *problem = (struct check_problem){.which = *which};
    const struct convoy_conv_shape *s = &problem->which.shape;
    struct convoy_check random = {.random = seed};
    size_t outputs = (size_t)check_outputs(s), taps = (size_t)(s->c / s->groups) * s->r * s->s;
    make_images(problem, &random);
    problem->weights = random_floats((size_t)s->k * taps, sqrtf(3.0F / (float)taps), &random);
    if (which->numbers == CHECK_CROSSED)
        cross(problem->weights, (size_t)s->k * taps, s->c / s->groups, (size_t)s->r * s->s, 1 / LARGE);
    else if (which->numbers == CHECK_BEYOND)
        put_large_beyond(problem->weights, (size_t)s->k * taps, s->r, s->s, true);
    if (s->bias) {
        problem->bias = random_floats((size_t)s->k, 0.5F, &random);
        problem->device_bias = to_device(problem->bias, (size_t)s->k);
    }
    if (s->residual) {
        problem->residual = random_floats(s->n * outputs, 1.0F, &random);
        problem->device_residual = to_device(problem->residual, s->n * outputs);
    }
    problem->gates = random_floats((size_t)s->n * (size_t)s->c, 1.5F, &random);
    for (int64_t i = 0; i < (int64_t)s->n * s->c; i++)
        problem->gates[i] = (float)convoy_check_round(problem->gates[i], CONVOY_COMPUTE_FP16);
    problem->input_scale = random_floats((size_t)s->c, 1.5F, &random);
    if (which->numbers == CHECK_HIDDEN)
        hide_large_products(problem);
    problem->device_sums = check_weight_sums(s, problem->weights);
    if (!s->u8 && s->r == 1 && s->s == 1)
        problem->device_moments = check_image_moments(s, problem->images, which->image_bytes);
    problem->device_gates = to_device(problem->gates, (size_t)s->n * (size_t)s->c);
    problem->device_scale = to_device(problem->input_scale, (size_t)s->c);
    problem->input_shift = random_floats((size_t)s->c, 0.5F, &random);
    problem->device_shift = to_device(problem->input_shift, (size_t)s->c);
    check_excitation_make(&problem->excitation, s, &random);
    problem->y = device_memory(s->n * outputs * sizeof(float));
    size_t got = s->n * outputs < PIECE_FLOATS ? s->n * outputs : PIECE_FLOATS;
    problem->got = host_memory((got > outputs ? got : outputs) * sizeof(float));
    draw_sample(problem, &random);
}

/* The place in struct check_problem of what kernels should answer. */
static int expected_of(enum convoy_compute_type compute_type, enum convoy_nhwc_input input)
{
    return (int)compute_type + (int)input; /* inputs are changed in fp16 alone */
}

/* What kernels with these products should answer. */
static const double *expect(struct check_problem *problem, enum convoy_compute_type compute_type,
                            enum convoy_nhwc_input input)
{
    size_t outputs = (size_t)check_outputs(&problem->which.shape);
    int number = expected_of(compute_type, input);
    if (problem->expected[number] != NULL)
        return problem->expected[number];
    double *expected = host_memory((size_t)problem->samples * outputs * sizeof(double));
    for (int i = 0; i < problem->samples; i++)
        check_reference(problem, compute_type, input, problem->sample[i], expected + i * outputs);
    for (size_t i = 0; i < problem->samples * outputs; i++)
        problem->largest[number] = fmax(problem->largest[number], fabs(expected[i]));
    return problem->expected[number] = expected;
}

void check_problem_free(struct check_problem *problem)
{
    void *const device[] = {(void *)problem->device_images.data,
                            problem->device_weights,
                            problem->device_bias,
                            problem->device_residual,
                            problem->device_gates,
                            problem->device_scale,
                            problem->device_shift,
                            problem->device_sums,
                            problem->device_moments,
                            problem->y,
                            problem->scratch};
    for (size_t i = 0; i < sizeof(device) / sizeof(device[0]); i++)
        check_cuda(cudaFree(device[i]), "freeing device memory");
    free(problem->images);
    free(problem->weights);
    free(problem->bias);
    free(problem->residual);
    check_excitation_free(&problem->excitation);
    free(problem->gates);
    free(problem->input_scale);
    free(problem->input_shift);
    free(problem->sample);
    for (int i = 0; i < CHECK_EXPECTED; i++)
        free(problem->expected[i]);
    free(problem->got);
}

/* The kernel's own weights and scratch memory, both kept while they are large enough for the next kernel. */
static struct convoy_conv_operands operands_for(struct check_problem *problem,
                                                const struct convoy_conv_kernel *kernel,
                                                const struct convoy_conv_shape *s)
{
    size_t floats = kernel->packed_floats(s), bytes = kernel->scratch_bytes(s);
    float *packed = host_memory(floats * sizeof(float));
    kernel->pack(s, problem->weights, packed);
    if (floats > problem->device_weight_floats) {
        check_cuda(cudaFree(problem->device_weights), "freeing device memory");
        problem->device_weights = device_memory(floats * sizeof(float));
        problem->device_weight_floats = floats;
    }
    check_cuda(cudaMemcpy(problem->device_weights, packed, floats * sizeof(float), cudaMemcpyHostToDevice),
               "copying weights to the device");
    free(packed);
    if (bytes > problem->scratch_bytes) {
        check_cuda(cudaFree(problem->scratch), "freeing device memory");
        problem->scratch = device_memory(bytes);
        problem->scratch_bytes = bytes;
    }
    if (bytes > 0)
        check_cuda(cudaMemset(problem->scratch, 0xff, bytes), "poisoning scratch memory");
    return (struct convoy_conv_operands){
        .x = problem->device_images,
        .weights = problem->device_weights,
        .bias = problem->device_bias,
        .residual = problem->which.in_place ? problem->y : problem->device_residual,
        .y = problem->y,
        .scratch = bytes > 0 ? problem->scratch : NULL,
        .input_scale = problem->device_scale,
        .input_shift = problem->device_shift,
        .input_sums = problem->device_sums,
        .input_moments = problem->device_moments,
        .excitation = problem->excitation.packed,
        .excitation_bias = {problem->excitation.device_bias[0], problem->excitation.device_bias[1]},
    };
}

static void copy_back(struct check_problem *problem, int64_t first, int64_t count)
{
    check_cuda(
        cudaMemcpy(problem->got, problem->y + first, (size_t)count * sizeof(float), cudaMemcpyDeviceToHost),
        "copying the answer back");
}

/* As cudaMemset() left it. */
static bool is_untouched(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits == UINT32_MAX;
}

/* Of what a kernel wrote of sample i. */
static double moments_error(const struct check_problem *problem, const struct check_nhwc *nhwc, int i,
                            const double *expected, double largest)
{
    const struct convoy_conv_shape *s = &problem->which.shape;
    int64_t count = (int64_t)s->oh * s->ow * convoy_nhwc_moments(s->k) * 2;
    float *moments = host_memory((size_t)count * sizeof(float));
    check_cuda(check_nhwc_moments(nhwc, problem->sample[i], moments), "copying the moments");
    double error = check_moments_error(s, moments, expected, largest);
    free(moments);
    return error;
}

static void compare(struct check_problem *problem, enum convoy_compute_type compute_type,
                    const struct check_nhwc *nhwc, struct check_result *result)
{
    enum convoy_nhwc_input input = nhwc->shape.nhwc.input;
    const double *expected = expect(problem, compute_type, input);
    int64_t outputs = check_outputs(&problem->which.shape), all = problem->which.shape.n * outputs;
    double worst = 0;
    for (int i = 0; i < problem->samples; i++) {
        copy_back(problem, problem->sample[i] * outputs, outputs);
        for (int64_t j = 0; j < outputs; j++) {
            double want = expected[i * outputs + j], difference = fabs(problem->got[j] - want);
            if (isnan(want))
                difference = isnan(problem->got[j]) ? 0 : INFINITY;
            worst = difference <= worst ? worst : isnan(difference) ? INFINITY : difference;
        }
    }
    double largest = problem->largest[expected_of(compute_type, input)];
    result->error = largest > 0 ? worst / largest : worst;
    for (int i = 0; i < problem->samples && nhwc->shape.nhwc.moments && largest > 0; i++)
        result->error = fmax(result->error, moments_error(problem, nhwc, i, expected + i * outputs, largest));
    for (int64_t first = 0; first < all; first += PIECE_FLOATS) {
        int64_t count = all - first < PIECE_FLOATS ? all - first : PIECE_FLOATS;
        copy_back(problem, first, count);
        for (int64_t j = 0; j < count; j++)
            result->poison +=
                problem->which.nan ? is_untouched(problem->got[j]) : isnan(problem->got[j]) != 0;
    }
}

int check_by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static float median_us(const struct convoy_conv_kernel *kernel, const struct convoy_conv_shape *shape,
                       const struct convoy_conv_operands *operands, cudaStream_t stream, int runs)
{
    cudaEvent_t from = NULL, to = NULL;
    float *us = host_memory((size_t)runs * sizeof(float));
    check_cuda(cudaEventCreate(&from), "creating an event");
    check_cuda(cudaEventCreate(&to), "creating an event");
    for (int i = -WARM_UP; i < runs; i++) {
        float ms = 0;
        check_cuda(cudaEventRecord(from, stream), "recording an event");
        check_cuda(kernel->launch(shape, operands, stream), kernel->name);
        check_cuda(cudaEventRecord(to, stream), "recording an event");
        check_cuda(cudaEventSynchronize(to), kernel->name);
        check_cuda(cudaEventElapsedTime(&ms, from, to), "reading an event");
        if (i >= 0)
            us[i] = ms * 1000;
    }
    qsort(us, (size_t)runs, sizeof(float), check_by_value);
    float median = us[runs / 2];
    check_cuda(cudaEventDestroy(from), "destroying an event");
    check_cuda(cudaEventDestroy(to), "destroying an event");
    free(us);
    return median;
}

struct check_result check_run(struct check_problem *problem, const struct convoy_conv_kernel *kernel,
                              int runs)
{
    const struct convoy_conv_shape *s = &problem->which.shape;
    struct check_result result = {.bound = kernel->nhwc ? CHECK_NHWC_BOUND : CONVOY_CHECK_BOUND};
    struct check_nhwc nhwc = {.shape = *s};
    if (kernel->nhwc)
        check_cuda(check_nhwc_make(&nhwc, kernel, s, &problem->device_images,
                                   s->residual ? problem->device_residual : NULL, problem->which.in_place,
                                   problem->device_gates),
                   "converting the operands");
    struct convoy_conv_operands operands = operands_for(problem, kernel, &nhwc.shape);
    if (kernel->nhwc)
        check_nhwc_operands(&nhwc, &operands);
    size_t bytes = (size_t)s->n * check_outputs(s) * sizeof(float);
    cudaStream_t stream = NULL;
    check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
    if (problem->which.in_place)
        check_cuda(
            cudaMemcpyAsync(problem->y, problem->device_residual, bytes, cudaMemcpyDeviceToDevice, stream),
            "copying the residual");
    else
        check_cuda(cudaMemsetAsync(problem->y, 0xff, bytes, stream), "poisoning the outputs");
    /* A copy from ordinary memory may still be under way when it returns, and this stream does not wait for
     * it. */
    check_cuda(cudaStreamSynchronize(NULL), "waiting for the operands");
    check_cuda(kernel->launch(&nhwc.shape, &operands, stream), kernel->name);
    check_cuda(cudaStreamSynchronize(stream), kernel->name);
    if (kernel->nhwc)
        check_cuda(check_nhwc_answer(&nhwc, problem->y), "converting the answer");
    if (kernel->nhwc) {
        enum check_nan nan = problem->which.nan; /* else in each image, or in none */
        int marked = 0;
        check_cuda(check_nhwc_overflowed(&nhwc, &marked), "copying the overflows");
        bool hidden = problem->which.numbers == CHECK_HIDDEN && nhwc.shape.nhwc.input != CONVOY_NHWC_AS_IS &&
                      nhwc.shape.nhwc.input != CONVOY_NHWC_EXCITED &&
                      nhwc.shape.nhwc.input != CONVOY_NHWC_NORMALIZED;
        result.overflow = nan == CHECK_NAN_LAST || hidden
                              ? !convoy_check_marked(nhwc.overflow, s->n, s->n - 1, CHECK_MARK)
                              : marked != (nan != CHECK_NO_NAN ? s->n : 0);
    }
    compare(problem, kernel->compute_type, &nhwc, &result);
    if (runs > 0)
        result.us = median_us(kernel, &nhwc.shape, &operands, stream, runs);
    if (kernel->nhwc)
        check_cuda(check_nhwc_free(&nhwc), "freeing device memory");
    check_cuda(cudaStreamDestroy(stream), "destroying a stream");
    return result;
}

bool check_name_matches(const struct convoy_conv_kernel *kernel, const char *name)
{
    size_t length = strlen(name);
    if (strcmp(name, "all") == 0)
        return true;
    return strncmp(kernel->name, name, length) == 0 &&
           (kernel->name[length] == '\0' || kernel->name[length] == ':');
}
