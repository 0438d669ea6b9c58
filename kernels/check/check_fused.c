/* The check of whole networks: random ones, layer after layer in float64, every tensor rounded where the
 * kernel rounds it. */
#include "kernels/check/check_fused.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In each precision, and how many where there is a tool that makes each slow. */
#define CASES     24
#define FEW_CASES 8
/* Networks for kernels on warpgroups. */
#define SHARED_NETWORKS 2
#define WIDE_NETWORKS   4
#define TRIES           4 /* kernels for a network */

/* A sum that lies between two numbers of 11 bits is rounded to the one or the other, as its last bits fall
 * out, and layer after layer carries that on: 1.1e-3 at worst in 90 runs of this check. fp32 has no such
 * steps: it is what shows a wrong address. */
#define ROUNDED_BOUND 3e-3

static void *memory(size_t bytes)
{
    void *got = calloc(bytes > 0 ? bytes : 1, 1);
    if (!got)
        exit(1);
    return got;
}

/* ---- A network of chance ---- */

static const float *constants(struct convoy_check *check, struct check_network *net, int count, double most)
{
    float *values = memory((size_t)count * sizeof *values);
    for (int i = 0; i < count; i++)
        values[i] = (float)convoy_check_random(check, -most, most);
    net->constants[net->constant_count++] = values;
    return values;
}

/* Weights that keep activations about as large as they were. */
void check_network_fill(struct convoy_check *check, struct check_network *net,
                        struct convoy_fused_layer *layer)
{
    const struct convoy_conv_shape *s = &layer->shape;
    int terms = layer->kind == CONVOY_FUSED_CONV ? s->c * s->r * s->s : s->c * s->h * s->w;
    layer->weights = constants(check, net, terms * s->k, 2.5 / sqrt(terms));
    if (s->bias)
        layer->bias = constants(check, net, s->k, 1);
}

/* What the layer reads: c, h and w of the tensor that layer `input` made. */
static void set_input(const struct check_network *net, struct convoy_conv_shape *s, int input)
{
    const struct convoy_fused_layer *from = &net->layers[input];
    bool plane = from->kind == CONVOY_FUSED_CONV;
    s->c = from->kind == CONVOY_FUSED_MEAN ? from->shape.c : from->shape.k;
    s->h = plane ? from->shape.oh / from->shape.pool : 1;
    s->w = plane ? from->shape.ow / from->shape.pool : 1;
}

struct convoy_fused_layer *check_network_add(struct check_network *net, enum convoy_fused_kind kind,
                                             int input)
{
    struct convoy_fused_layer *layer = &net->layers[net->shape.count++];
    *layer = (struct convoy_fused_layer){.kind = kind, .input = input, .residual = -1};
    layer->shape.pool = layer->shape.groups = 1;
    if (input >= 0)
        set_input(net, &layer->shape, input);
    return layer;
}

/* Takes the layer back if nothing would come out of it. */
static void add_conv(struct convoy_check *check, struct check_network *net, int c, int h, int w)
{
    int input = net->shape.count - 1;
    struct convoy_fused_layer *layer = check_network_add(net, CONVOY_FUSED_CONV, input);
    struct convoy_conv_shape *s = &layer->shape;
    if (input < 0) {
        s->c = c;
        s->h = h;
        s->w = w;
    }
    if (net->narrow)
        s->k = convoy_check_between(check, 1, 4);
    else if (net->wide && convoy_check_between(check, 0, 3) == 0)
        s->k = convoy_check_between(check, 0, 1) ? 128 : 8 * convoy_check_between(check, 1, 7);
    else if (net->wide)
        s->k = 16 * convoy_check_between(check, 1, 4);
    else
        s->k = convoy_check_between(check, 0, 3) ? convoy_check_between(check, 1, 40)
                                                 : 8 * convoy_check_between(check, 1, 12);
    /* As large as before: may have a way around. */
    bool even = net->wide ? convoy_check_between(check, 0, 2) != 0 : convoy_check_between(check, 0, 2) == 0;
    even = even || net->narrow;
    s->r = even ? 3 : convoy_check_between(check, 1, 5);
    s->s = even ? 3 : convoy_check_between(check, 1, 5);
    for (int i = 0; i < 2; i++) {
        int filter = i == 0 ? s->r : s->s;
        s->stride[i] = even || net->wide ? 1 : convoy_check_between(check, 1, 2);
        s->dilation[i] = even || convoy_check_between(check, 0, 4) ? 1 : 2;
        s->pad[i] = even ? 1 : convoy_check_between(check, 0, filter - 1);
    }
    int reach_y = s->h + 2 * s->pad[0] - (s->r - 1) * s->dilation[0] - 1;
    int reach_x = s->w + 2 * s->pad[1] - (s->s - 1) * s->dilation[1] - 1;
    s->oh = reach_y / s->stride[0] + 1;
    s->ow = reach_x / s->stride[1] + 1;
    if (reach_y < 0 || reach_x < 0) {
        net->shape.count--;
        return;
    }
    s->bias = convoy_check_between(check, 0, 3) != 0;
    s->act = convoy_check_any_unary(check);
    if (s->oh > 1 && s->ow > 1 && convoy_check_between(check, 0, 2) == 0)
        s->pool = 2;
    if (even && input >= 0 && s->pool == 1 && convoy_check_between(check, 0, 1)) {
        layer->residual = convoy_check_between(check, 0, 3) ? input : convoy_check_between(check, 0, input);
        struct convoy_conv_shape around = {0};
        set_input(net, &around, layer->residual);
        if (around.h != s->oh || around.w != s->ow || net->layers[layer->residual].kind != CONVOY_FUSED_CONV)
            layer->residual = -1;
        else
            s->k = around.c;
    }
    check_network_fill(check, net, layer);
}

static void add_dense(struct convoy_check *check, struct check_network *net, int least, int most)
{
    struct convoy_fused_layer *layer = check_network_add(net, CONVOY_FUSED_DENSE, net->shape.count - 1);
    layer->shape.k = convoy_check_between(check, least, most);
    layer->shape.bias = convoy_check_between(check, 0, 3) != 0;
    layer->shape.act = convoy_check_any_unary(check);
    check_network_fill(check, net, layer);
}

/* As large as one has to be to be divided; returns whether that is not too much. */
static bool add_large_dense(struct convoy_check *check, struct check_network *net)
{
    int inputs = convoy_fused_outputs(&net->layers[net->shape.count - 1]);
    int least = CONVOY_FUSED_LARGE_DENSE / inputs + 1;
    if (least > 400)
        return false;
    add_dense(check, net, least, least + 12);
    return true;
}

/* A convolution of small images and a dense layer, for many of them: what a product over all images takes. */
static void make_shared_network(struct convoy_check *check, struct check_network *net)
{
    *net = (struct check_network){0};
    int h = convoy_check_between(check, 3, 6), w = convoy_check_between(check, 3, 6);
    while (net->shape.count == 0)
        add_conv(check, net, convoy_check_between(check, 1, CONVOY_KERNEL_CHANNELS), h, w);
    add_dense(check, net, 4, 300);
    net->shape.n = convoy_check_between(check, 40, 300);
}

/* wide: most layers are for warpgroups. */
static void make_network(struct convoy_check *check, struct check_network *net, bool wide)
{
    *net = (struct check_network){.wide = wide, .narrow = !wide && convoy_check_between(check, 0, 5) == 0};
    /* Grey images may be read in phases, which is code of its own. */
    int c =
        convoy_check_between(check, 0, 2) == 0 ? 1 : convoy_check_between(check, 1, CONVOY_KERNEL_CHANNELS);
    int least = wide ? 8 : 3, most = wide ? 12 : 24;
    if (wide && convoy_check_between(check, 0, 1)) /* patches that are whole */
        most = 8;
    int h = convoy_check_between(check, least, most), w = convoy_check_between(check, least, most);
    int convs = convoy_check_between(check, wide ? 3 : 1, wide ? 4 : 6);
    while (net->shape.count == 0 || convs-- > 1)
        add_conv(check, net, c, h, w);
    bool large = convoy_check_between(check, 0, 2) == 0 && add_large_dense(check, net);
    if (!large && convoy_check_between(check, 0, 3) == 0) {
        check_network_add(net, CONVOY_FUSED_MEAN, net->shape.count - 1);
        if (convoy_check_between(check, 0, 3) == 0) /* of the one place that is left */
            add_conv(check, net, c, h, w);
    }
    int dense = large ? 0 : convoy_check_between(check, 0, 2);
    for (int i = 0; i < dense; i++)
        /* Of a single output the error may be large because its terms cancel. */
        add_dense(check, net, i + 1 == dense ? 4 : 1, i == 0 ? 200 : 12);
    /* Some more than a launch has clusters, each of which then takes several; of those, small images. */
    bool many = h * w <= 100 && !wide && convoy_check_between(check, 0, 1);
    net->shape.n = many ? convoy_check_between(check, 20, 36) : convoy_check_between(check, 1, wide ? 2 : 5);
}

void check_network_free(struct check_network *net)
{
    for (int i = 0; i < net->constant_count; i++)
        free(net->constants[i]);
}

/* ---- The reference ---- */

static double conv_at(const struct convoy_fused_layer *layer, enum convoy_compute_type compute_type,
                      const double *x, const double *residual, int k, int oy, int ox)
{
    const struct convoy_conv_shape *s = &layer->shape;
    double sum = s->bias ? (double)layer->bias[k] : 0;
    for (int c = 0; c < s->c; c++)
        for (int r = 0; r < s->r; r++)
            for (int t = 0; t < s->s; t++) {
                int iy = oy * s->stride[0] - s->pad[0] + r * s->dilation[0];
                int ix = ox * s->stride[1] - s->pad[1] + t * s->dilation[1];
                if (iy < 0 || iy >= s->h || ix < 0 || ix >= s->w)
                    continue;
                double weight = (double)layer->weights[((k * s->c + c) * s->r + r) * s->s + t];
                sum += convoy_check_round(weight, compute_type) * x[(c * s->h + iy) * s->w + ix];
            }
    if (residual)
        sum += residual[(k * s->oh + oy) * s->ow + ox];
    return convoy_check_apply_unary(s->act, sum);
}

static void compute_conv(const struct convoy_fused_layer *layer, enum convoy_compute_type compute_type,
                         const double *x, const double *residual, double *y)
{
    const struct convoy_conv_shape *s = &layer->shape;
    for (int k = 0; k < s->k; k++)
        for (int oy = 0; oy < s->oh / s->pool; oy++)
            for (int ox = 0; ox < s->ow / s->pool; ox++) {
                double most = -INFINITY;
                for (int i = 0; i < s->pool * s->pool; i++)
                    most = convoy_check_larger(most, conv_at(layer, compute_type, x, residual, k,
                                                             oy * s->pool + i / s->pool,
                                                             ox * s->pool + i % s->pool));
                *y++ = most;
            }
}

static void compute_other(const struct convoy_fused_layer *layer, enum convoy_compute_type compute_type,
                          const double *x, double *y)
{
    const struct convoy_conv_shape *s = &layer->shape;
    int places = s->h * s->w, inputs = s->c * places;
    for (int k = 0; k < convoy_fused_outputs(layer); k++) {
        double sum = 0;
        if (layer->kind == CONVOY_FUSED_MEAN) {
            for (int i = 0; i < places; i++)
                sum += x[k * places + i];
            y[k] = sum / places;
            continue;
        }
        for (int i = 0; i < inputs; i++) {
            double weight = (double)layer->weights[k * inputs + i];
            /* tf32 has no need to round the weights of a dense layer. */
            sum += (compute_type == CONVOY_COMPUTE_FP16 ? convoy_check_round(weight, compute_type) : weight) *
                   x[i];
        }
        y[k] = convoy_check_apply_unary(s->act, sum + (s->bias ? (double)layer->bias[k] : 0));
    }
}

static void softmax(double *y, int count)
{
    double most = -INFINITY, sum = 0;
    for (int i = 0; i < count; i++)
        most = fmax(most, y[i]);
    for (int i = 0; i < count; i++)
        sum += exp(y[i] - most);
    for (int i = 0; i < count; i++)
        y[i] = exp(y[i] - most) / sum;
}

void check_network_reference(const struct check_network *net, enum convoy_compute_type compute_type,
                             const struct convoy_images *images, const char *data, double *want)
{
    const struct convoy_conv_shape *first = &net->layers[0].shape;
    double *tensors[CONVOY_FUSED_LAYERS + 1];
    int places = first->h * first->w;
    double *x = memory((size_t)(first->c * places) * sizeof *x);
    for (int i = 0; i < first->c * places; i++) {
        int c = i / places, place = i % places;
        float value = images->u8 ? fmaf((float)((const unsigned char *)data)[place * first->c + c],
                                        images->multiply[c], images->add[c])
                                 : ((const float *)(const void *)data)[i];
        x[i] = convoy_check_round((double)value, compute_type);
    }
    for (int i = 0; i < net->shape.count; i++) {
        const struct convoy_fused_layer *layer = &net->layers[i];
        const double *from = layer->input < 0 ? x : tensors[layer->input];
        tensors[i] = memory((size_t)convoy_fused_outputs(layer) * sizeof(double));
        if (layer->kind == CONVOY_FUSED_CONV)
            compute_conv(layer, compute_type, from, layer->residual >= 0 ? tensors[layer->residual] : NULL,
                         tensors[i]);
        else
            compute_other(layer, compute_type, from, tensors[i]);
        for (int k = 0; i + 1 < net->shape.count && k < convoy_fused_outputs(layer); k++)
            tensors[i][k] = convoy_check_round(tensors[i][k], compute_type);
    }
    int outputs = convoy_fused_outputs(&net->layers[net->shape.count - 1]);
    memcpy(want, tensors[net->shape.count - 1], (size_t)outputs * sizeof *want);
    if (net->shape.softmax)
        softmax(want, outputs);
    for (int i = 0; i < net->shape.count; i++)
        free(tensors[i]);
    free(x);
}

/* ---- A case ---- */

static void describe(const struct check_network *net, char *text, size_t bytes)
{
    size_t at = 0;
    static const char *const kinds[] = {"conv", "dense", "mean"};
    for (int i = 0; i < net->shape.count && at < bytes; i++) {
        const struct convoy_fused_layer *l = &net->layers[i];
        const struct convoy_conv_shape *s = &l->shape;
        at += (size_t)snprintf(text + at, bytes - at, "%s%s %dx%dx%d k%d", i > 0 ? "; " : "", kinds[l->kind],
                               s->c, s->h, s->w, s->k);
        if (l->kind == CONVOY_FUSED_CONV && at < bytes)
            at +=
                (size_t)snprintf(text + at, bytes - at, " %dx%d s%d,%d p%d,%d d%d,%d %s pool%d around%d",
                                 s->r, s->s, s->stride[0], s->stride[1], s->pad[0], s->pad[1], s->dilation[0],
                                 s->dilation[1], convoy_check_unary_name(s->act.kind), s->pool, l->residual);
    }
}

static bool run(struct convoy_check *check, const struct check_network *net,
                const struct convoy_fused_kernel *kernel, const struct convoy_check_buffer *x,
                const struct convoy_images *images, const double *want)
{
    struct convoy_fused_plan *plan = NULL;
    char text[2000];
    if (convoy_fused_plan_make(kernel, &net->shape, true, &plan) != 0)
        exit(1);
    if (!plan)
        return false;
    size_t weight_bytes = convoy_fused_weight_bytes(plan), table_bytes = convoy_fused_table_bytes(plan);
    struct convoy_check_buffer weights = convoy_check_buffer((int64_t)(weight_bytes + 3) / 4, 0);
    struct convoy_check_buffer tables = convoy_check_buffer((int64_t)(table_bytes + 3) / 4, 0);
    struct convoy_check_buffer scratch =
        convoy_check_buffer((int64_t)(convoy_fused_scratch_bytes(plan) + 3) / 4 + 1, 0);
    struct convoy_check_buffer y = convoy_check_buffer(net->shape.n * net->shape.y_stride, 0);
    memset(weights.host, 0, weight_bytes);
    convoy_fused_pack_weights(plan, &net->shape, weights.host);
    memcpy(tables.host, convoy_fused_tables(plan), table_bytes);
    convoy_check_upload(&weights);
    convoy_check_upload(&tables);
    struct convoy_fused_operands operands = {*images, weights.device, tables.device, scratch.device,
                                             y.device};
    operands.x.data = x->device;
    describe(net, text, sizeof text);
    convoy_check_result(check, convoy_launch_fused(plan, &operands, NULL), &y, want, &scratch,
                        "%s n %d u8 %d softmax %d: %s", kernel->name, net->shape.n, net->shape.u8,
                        net->shape.softmax, text);
    convoy_check_free(&weights);
    convoy_check_free(&tables);
    convoy_check_free(&scratch);
    convoy_check_free(&y);
    convoy_fused_plan_free(plan);
    return true;
}

/* Random images for the network, on the device too. */
static struct convoy_check_buffer make_images(struct convoy_check *check, const struct check_network *net,
                                              struct convoy_images *images)
{
    const struct convoy_conv_shape *first = &net->layers[0].shape;
    int64_t values = (int64_t)first->c * first->h * first->w, unit = net->shape.u8 ? 16 : 4;
    *images = (struct convoy_images){.u8 = net->shape.u8};
    images->image_bytes = ((net->shape.u8 ? values : 4 * values) + unit - 1) / unit * unit;
    for (int i = 0; i < CONVOY_KERNEL_CHANNELS; i++) {
        images->multiply[i] = (float)convoy_check_random(check, 0.01, 0.02);
        images->add[i] = (float)convoy_check_random(check, -2, -1);
    }
    struct convoy_check_buffer x =
        convoy_check_input(check, net->shape.n * images->image_bytes / 4, 0, -2, 2);
    if (net->shape.u8) {
        for (int64_t i = 0; i < net->shape.n * images->image_bytes; i++)
            ((unsigned char *)x.host)[i] = (unsigned char)convoy_check_between(check, 0, 255);
        convoy_check_upload(&x);
    }
    return x;
}

/* What should come out, NaN between the images; freed by the caller. */
static double *make_want(const struct check_network *net, const struct convoy_images *images,
                         const struct convoy_check_buffer *x)
{
    double *want = memory((size_t)(net->shape.n * net->shape.y_stride) * sizeof *want);
    for (int64_t i = 0; i < net->shape.n * net->shape.y_stride; i++)
        want[i] = NAN;
    for (int n = 0; n < net->shape.n; n++)
        check_network_reference(net, net->shape.compute_type, images,
                                (const char *)x->host + n * images->image_bytes,
                                want + n * net->shape.y_stride);
    return want;
}

/* Networks of chance, and such as kernels on warpgroups take. */
enum sort { ANY, SHARED, WIDE };

/* A network on up to TRIES kernels of that precision. */
static void check_one(struct convoy_check *check, enum convoy_compute_type compute_type, enum sort sort)
{
    struct check_network net;
    struct convoy_images images;
    int count;
    const struct convoy_fused_kernel *const *kernels = convoy_fused_kernels(&count);
    if (sort == SHARED)
        make_shared_network(check, &net);
    else
        make_network(check, &net, sort == WIDE);
    net.shape.layers = net.layers;
    net.shape.compute_type = compute_type;
    net.shape.u8 = convoy_check_between(check, 0, 1);
    net.shape.softmax = sort != SHARED && convoy_check_between(check, 0, 5) == 0;
    net.shape.y_stride =
        convoy_fused_outputs(&net.layers[net.shape.count - 1]) + convoy_check_between(check, 0, 16);
    struct convoy_check_buffer x = make_images(check, &net, &images);
    double *want = make_want(&net, &images, &x);
    for (int tries = 0; tries < TRIES; tries++) {
        const struct convoy_fused_kernel *kernel = kernels[convoy_check_between(check, 0, count - 1)];
        if (kernel->compute_type == compute_type && kernel->span == CONVOY_FUSED_ALL)
            (void)run(check, &net, kernel, &x, &images, want);
    }
    for (int i = 0; i < count; i++) { /* which take few of the networks; teams are many threads to emulate */
        bool teams = kernels[i]->teams > 1 && convoy_check_between(check, 0, 2) == 0;
        if (kernels[i]->compute_type == compute_type && (teams || kernels[i]->wgmma || kernels[i]->product))
            (void)run(check, &net, kernels[i], &x, &images, want);
    }
    free(want);
    convoy_check_free(&x);
    check_network_free(&net);
}

/* A convolution that is pooled, of images with NaN, on all kernels of that precision. */
static void check_nan(struct convoy_check *check, enum convoy_compute_type compute_type, enum check_nan where)
{
    struct check_network net = {0};
    struct convoy_images images;
    int count;
    bool rows = where == CHECK_NAN_ROWS;
    const struct convoy_fused_kernel *const *kernels = convoy_fused_kernels(&count);
    struct convoy_conv_shape *s = &check_network_add(&net, CONVOY_FUSED_CONV, -1)->shape;
    /* Rows of one channel, large enough to be read in phases; columns of three, because many columns of one
     * lie in a cell, which is multiplied as a whole. */
    s->c = rows ? 1 : 3;
    s->h = s->w = rows ? 42 : 12;
    s->k = 12;
    s->r = rows ? 1 : 3;
    s->s = rows ? 3 : 1;
    s->stride[0] = s->stride[1] = s->dilation[0] = s->dilation[1] = 1;
    s->oh = s->h - s->r + 1;
    s->ow = s->w - s->s + 1;
    s->bias = true;
    s->act.kind = CONVOY_UNARY_TANH;
    s->pool = 2;
    check_network_fill(check, &net, &net.layers[0]);
    net.shape.layers = net.layers;
    net.shape.n = 2;
    net.shape.compute_type = compute_type;
    net.shape.y_stride = convoy_fused_outputs(&net.layers[0]);
    struct convoy_check_buffer x = make_images(check, &net, &images);
    convoy_check_put_nan(where, x.host, net.shape.n * s->c, s->h, s->w);
    convoy_check_upload(&x);
    double *want = make_want(&net, &images, &x);
    check->has_nan = true;
    for (int i = 0; i < count; i++)
        if (kernels[i]->compute_type == compute_type && kernels[i]->span == CONVOY_FUSED_ALL)
            (void)run(check, &net, kernels[i], &x, &images, want);
    check->has_nan = false;
    free(want);
    convoy_check_free(&x);
    check_network_free(&net);
}

int convoy_check_fused(uint64_t seed, bool few)
{
    static const char *const names[] = {"whole_net", "whole_net_tf32", "whole_net_fp16"};
    int failures = 0;
    for (int compute_type = CONVOY_COMPUTE_FP32; compute_type <= CONVOY_COMPUTE_FP16; compute_type++) {
        struct convoy_check check = {.random = seed + 200 + (uint64_t)compute_type,
                                     .bound = compute_type == CONVOY_COMPUTE_FP32 ? 0 : ROUNDED_BOUND};
        for (int i = 0; compute_type == CONVOY_COMPUTE_FP16 && i < (few ? 1 : SHARED_NETWORKS); i++)
            check_one(&check, CONVOY_COMPUTE_FP16, SHARED);
        for (int i = 0; compute_type == CONVOY_COMPUTE_FP16 && i < (few ? 1 : WIDE_NETWORKS); i++)
            check_one(&check, CONVOY_COMPUTE_FP16, WIDE);
        for (int begun = check.cases; check.cases < begun + (few ? FEW_CASES : CASES);)
            check_one(&check, (enum convoy_compute_type)compute_type, ANY);
        check_nan(&check, (enum convoy_compute_type)compute_type, CHECK_NAN_ROWS);
        check_nan(&check, (enum convoy_compute_type)compute_type, CHECK_NAN_COLUMNS);
        printf("%-24s %4d cases, worst error %.1e, %d failed\n", names[compute_type], check.cases,
               check.worst, check.failures);
        failures += check.failures;
    }
    return failures;
}
