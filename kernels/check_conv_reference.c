/* The float64 reference of convoy-kernels: the plainest loops, over the same float inputs. */
#include "kernels/check_conv.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS_MAX 64
#define SMALL_WORK  2e6 /* multiply-adds that are not worth a thread */

/* As the hardware takes it: the nearest, ties away from zero in tf32 and to even in fp16. */
static double rounded(double x, enum convoy_products products)
{
    if (products == CONVOY_PRODUCTS_FP32)
        return x;
    if (products == CONVOY_PRODUCTS_FP16)
        return (double)(_Float16)(float)x;
    float value = (float)x;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits = (bits + 0x1000) & 0xffffe000;
    memcpy(&value, &bits, sizeof bits);
    return value;
}

static double input(const struct check_problem *problem, enum convoy_products products, int n, int c, int y,
                    int x)
{
    const struct convoy_conv_shape *s = &problem->which.shape;
    if (y < 0 || y >= s->h || x < 0 || x >= s->w)
        return 0;
    const char *image = (const char *)problem->images + n * problem->which.image_bytes;
    if (s->u8) {
        const struct convoy_images *images = &problem->device_images;
        int64_t at = ((int64_t)y * s->w + x) * s->c + c;
        float pixel = ((const unsigned char *)image)[at];
        if (products != CONVOY_PRODUCTS_FP32) /* rounded twice, as on the device */
            return rounded(fmaf(pixel, images->multiply[c], images->add[c]), products);
        return (double)pixel * images->multiply[c] + images->add[c];
    }
    return rounded(((const float *)image)[((int64_t)c * s->h + y) * s->w + x], products);
}

/* Before pooling. */
static double output(const struct check_problem *problem, enum convoy_products products, int n, int k, int oy,
                     int ox)
{
    const struct convoy_conv_shape *s = &problem->which.shape;
    int group_c = s->c / s->groups, first_c = k / (s->k / s->groups) * group_c;
    const float *weight = problem->weights + (size_t)k * group_c * s->r * s->s;
    double sum = 0;
    for (int c = 0; c < group_c; c++)
        for (int r = 0; r < s->r; r++)
            for (int t = 0; t < s->s; t++)
                sum +=
                    rounded(*weight++, products) * input(problem, products, n, first_c + c,
                                                         oy * s->stride[0] - s->pad[0] + r * s->dilation[0],
                                                         ox * s->stride[1] - s->pad[1] + t * s->dilation[1]);
    if (s->bias)
        sum += problem->bias[k];
    if (s->residual)
        sum += problem->residual[(((int64_t)n * s->k + k) * s->oh + oy) * s->ow + ox];
    return convoy_check_apply_unary(s->act, sum);
}

struct part {
    const struct check_problem *problem;
    enum convoy_products products;
    int n, first_k, end_k;
    double *y; /* of the whole image */
};

static void *compute(void *argument)
{
    const struct part *part = argument;
    const struct convoy_conv_shape *s = &part->problem->which.shape;
    int ph = s->oh / s->pool, pw = s->ow / s->pool;
    for (int k = part->first_k; k < part->end_k; k++) {
        for (int y = 0; y < ph; y++) {
            for (int x = 0; x < pw; x++) {
                double best = -INFINITY;
                for (int i = 0; i < s->pool * s->pool; i++)
                    best = fmax(best, output(part->problem, part->products, part->n, k,
                                             y * s->pool + i / s->pool, x * s->pool + i % s->pool));
                part->y[((size_t)k * ph + y) * pw + x] = best;
            }
        }
    }
    return NULL;
}

void check_reference(const struct check_problem *problem, enum convoy_products products, int n, double *y)
{
    const struct convoy_conv_shape *s = &problem->which.shape;
    double work = check_work(s);
    int threads = (int)fmin(fmin(THREADS_MAX, (double)sysconf(_SC_NPROCESSORS_ONLN)),
                            fmin(s->k, 1 + work / SMALL_WORK));
    if (threads < 1)
        threads = 1;
    struct part parts[THREADS_MAX] = {{problem, products, n, 0, 0, y}};
    pthread_t ids[THREADS_MAX];
    for (int i = 0; i < threads; i++) {
        parts[i] = (struct part){problem,
                                 products,
                                 n,
                                 (int)((int64_t)s->k * i / threads),
                                 (int)((int64_t)s->k * (i + 1) / threads),
                                 y};
        if (i > 0 && pthread_create(&ids[i], NULL, compute, &parts[i]) != 0)
            check_die(
                "cannot start a thread for the reference: is the limit on processes (ulimit -u) reached?");
    }
    compute(&parts[0]);
    for (int i = 1; i < threads; i++)
        pthread_join(ids[i], NULL);
}
