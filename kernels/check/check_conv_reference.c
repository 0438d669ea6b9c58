/* The float64 reference of convoy-kernels: the plainest loops, over the same float inputs. */
#include "kernels/check/check_conv.h"

#include "kernels/check/check_normalized.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS_MAX 64
#define SMALL_WORK  2e6 /* multiply-adds that are not worth a thread */

/* The operands of one image, rounded once. */
struct operands {
    const struct check_problem *problem;
    int n;
    double *x;       /* c x h x w */
    double *weights; /* as the problem's */
};

static void *memory(size_t doubles)
{
    void *got = calloc(doubles, sizeof(double));
    if (got == NULL)
        check_die("no memory for the reference");
    return got;
}

static double input(const struct operands *operands, int c, int y, int x)
{
    const struct convoy_conv_shape *s = &operands->problem->which.shape;
    if (y < 0 || y >= s->h || x < 0 || x >= s->w)
        return 0;
    return operands->x[((int64_t)c * s->h + y) * s->w + x];
}

/* A number of the image, rounded. */
static double pixel_of(const struct operands *operands, enum convoy_compute_type compute_type, int c,
                       int64_t at)
{
    const struct check_problem *problem = operands->problem;
    const struct convoy_conv_shape *s = &problem->which.shape;
    const struct convoy_images *images = &problem->device_images;
    const char *image = (const char *)problem->images + operands->n * problem->which.image_bytes;
    double value;
    if (!s->u8) {
        value = ((const float *)image)[(int64_t)c * s->h * s->w + at];
    } else {
        float pixel = ((const unsigned char *)image)[at * s->c + c];
        value = compute_type == CONVOY_COMPUTE_FP32
                    ? (double)pixel * images->multiply[c] + images->add[c]
                    : fmaf(pixel, images->multiply[c], images->add[c]); /* rounded twice, as there */
    }
    return convoy_check_round(value, compute_type);
}

/* Those that a kernel makes of the image. The caller frees them. */
static double *excited_gates(const struct operands *operands, enum convoy_compute_type compute_type)
{
    const struct convoy_conv_shape *s = &operands->problem->which.shape;
    int64_t plane = (int64_t)s->h * s->w;
    double *gates = memory((size_t)s->c);
    for (int64_t i = 0; i < s->c * plane; i++)
        operands->x[i] = pixel_of(operands, compute_type, (int)(i / plane), i % plane);
    check_excitation_gates(&operands->problem->excitation, s, operands->x, gates);
    return gates;
}

/* Normalises the pixels along the channels. Their deviations are the reference's own: of differences to the
 * mean. */
static void normalize_image(struct operands *operands)
{
    const struct convoy_conv_shape *s = &operands->problem->which.shape;
    const struct convoy_nhwc_normalization how = check_normalization_of(s);
    int64_t plane = (int64_t)s->h * s->w;
    for (int64_t at = 0; at < plane; at++) {
        double mean = 0, variance = 0;
        for (int c = 0; c < s->c && !how.rms; c++)
            mean += operands->x[c * plane + at] / s->c;
        for (int c = 0; c < s->c; c++)
            variance += pow(operands->x[c * plane + at] - mean, 2) / s->c;
        double *first = operands->x + at, factor = how.factor / sqrt(variance + how.epsilon);
        for (int c = 0; c < s->c; c++)
            first[c * plane] = (first[c * plane] - mean) * factor;
    }
}

static void round_image(struct operands *operands, enum convoy_compute_type compute_type,
                        enum convoy_nhwc_input input)
{
    const struct check_problem *problem = operands->problem;
    const struct convoy_conv_shape *s = &problem->which.shape;
    int64_t plane = (int64_t)s->h * s->w;
    double *gates = input == CONVOY_NHWC_EXCITED ? excited_gates(operands, compute_type) : NULL;
    for (int c = 0; c < s->c; c++) {
        for (int64_t at = 0; at < plane; at++) {
            double value = pixel_of(operands, compute_type, c, at);
            if (input == CONVOY_NHWC_GATED)
                value *= problem->gates[operands->n * s->c + c];
            else if (input == CONVOY_NHWC_EXCITED)
                value *= gates[c];
            else if (input == CONVOY_NHWC_SCALED || input == CONVOY_NHWC_SCALED_RELU)
                value = value * problem->input_scale[c] + problem->input_shift[c];
            if (input == CONVOY_NHWC_SCALED_RELU)
                value = convoy_check_larger(value, 0);
            value = convoy_check_round(value, compute_type);
            operands->x[c * plane + at] = value;
        }
    }
    free(gates);
    if (input == CONVOY_NHWC_NORMALIZED)
        normalize_image(operands); /* rounded before, not behind it: such inputs are in no memory */
}

/* Before pooling. */
static double output(const struct operands *operands, int k, int oy, int ox)
{
    const struct check_problem *problem = operands->problem;
    const struct convoy_conv_shape *s = &problem->which.shape;
    int group_c = s->c / s->groups, first_c = k / (s->k / s->groups) * group_c;
    const double *weight = operands->weights + (size_t)k * group_c * s->r * s->s;
    double sum = 0;
    for (int c = 0; c < group_c; c++)
        for (int r = 0; r < s->r; r++)
            for (int t = 0; t < s->s; t++)
                sum += *weight++ * input(operands, first_c + c,
                                         oy * s->stride[0] - s->pad[0] + r * s->dilation[0],
                                         ox * s->stride[1] - s->pad[1] + t * s->dilation[1]);
    if (s->bias)
        sum += problem->bias[k];
    if (s->residual)
        sum += problem->residual[(((int64_t)operands->n * s->k + k) * s->oh + oy) * s->ow + ox];
    return convoy_check_apply_unary(s->act, sum);
}

/* The largest output of a window, of what is not outside. */
static double pooled(const struct operands *operands, int k, int top, int left, int side)
{
    const struct convoy_conv_shape *s = &operands->problem->which.shape;
    double best = -INFINITY;
    for (int y = top; y < top + side; y++)
        for (int x = left; x < left + side; x++)
            if (y >= 0 && y < s->oh && x >= 0 && x < s->ow)
                best = convoy_check_larger(best, output(operands, k, y, x));
    return best;
}

struct part {
    const struct operands *operands;
    int first_k, end_k;
    double *y; /* of the whole image */
};

static void *compute(void *argument)
{
    const struct part *part = argument;
    const struct convoy_conv_shape *s = &part->operands->problem->which.shape;
    bool overlapping = s->nhwc.pool.oh > 0;
    int ph = overlapping ? s->nhwc.pool.oh : s->oh / s->pool;
    int pw = overlapping ? s->nhwc.pool.ow : s->ow / s->pool;
    int side = overlapping ? 3 : s->pool, apart = overlapping ? 2 : s->pool;
    for (int k = part->first_k; k < part->end_k; k++)
        for (int y = 0; y < ph; y++)
            for (int x = 0; x < pw; x++)
                part->y[((size_t)k * ph + y) * pw + x] = pooled(
                    part->operands, k, y * apart - s->nhwc.pool.pad, x * apart - s->nhwc.pool.pad, side);
    return NULL;
}

void check_reference(const struct check_problem *problem, enum convoy_compute_type compute_type,
                     enum convoy_nhwc_input input, int n, double *y)
{
    const struct convoy_conv_shape *s = &problem->which.shape;
    size_t weights = (size_t)s->k * (s->c / s->groups) * s->r * s->s;
    struct operands operands = {problem, n, memory((size_t)s->c * s->h * s->w), memory(weights)};
    round_image(&operands, compute_type, input);
    for (size_t i = 0; i < weights; i++)
        operands.weights[i] = convoy_check_round(problem->weights[i], compute_type);
    double work = check_work(s);
    int threads = (int)fmin(fmin(THREADS_MAX, (double)sysconf(_SC_NPROCESSORS_ONLN)),
                            fmin(s->k, 1 + work / SMALL_WORK));
    if (threads < 1)
        threads = 1;
    struct part parts[THREADS_MAX];
    pthread_t ids[THREADS_MAX];
    for (int i = 0; i < threads; i++) {
        parts[i] = (struct part){&operands, (int)((int64_t)s->k * i / threads),
                                 (int)((int64_t)s->k * (i + 1) / threads), y};
        if (i > 0 && pthread_create(&ids[i], NULL, compute, &parts[i]) != 0)
            check_die(
                "cannot start a thread for the reference: is the limit on processes (ulimit -u) reached?");
    }
    compute(&parts[0]);
    for (int i = 1; i < threads; i++)
        pthread_join(ids[i], NULL);
    free(operands.x);
    free(operands.weights);
}
