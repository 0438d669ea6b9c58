#include "engine/cuda/plan/bottlenecks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An estimate decides for so many images at most. With 8 of resnet50's, on an H100, three layers were as fast
 * or faster. */
#define FEW_IMAGES 8
/* Three layers take 0.8 of the sum of their estimates, each of which has a launch of its own (resnet50's four
 * sizes with 1 image on an H100: 0.72 to 0.84). */
#define LAYERS_TOGETHER 0.8f

bool convoy_cuda_find_bottleneck(const struct convoy_cuda_lowering *l, int group, int first, int end,
                                 int groups[CONVOY_BOTTLENECK_LAYERS], struct convoy_bottleneck_shape *shape)
{
    const struct convoy_cuda_group *all = l->source->groups->groups;
    struct convoy_conv_shape layers[CONVOY_BOTTLENECK_LAYERS] = {{0}};
    *shape = (struct convoy_bottleneck_shape){0};
    for (int layer = end - 1; layer >= first; layer--) {
        if (group < 0 || (layer < CONVOY_BOTTLENECK_LAYERS - 1 && all[group].residual >= 0) ||
            !convoy_cuda_plain_conv(l, group, &layers[layer]) ||
            (layer != 1 && !convoy_cuda_keeps_size(&layers[layer], 1)))
            return false;
        groups[layer] = group;
        shape->bias[layer] = layers[layer].bias;
        shape->act[layer] = layers[layer].act;
        if (layer > first)
            group = convoy_cuda_writer_of(l, l->graph->nodes[all[group].anchor].inputs[0], group);
    }
    const struct convoy_conv_shape *middle = &layers[1];
    const struct convoy_conv_shape *last = end == CONVOY_BOTTLENECK_LAYERS ? &layers[2] : NULL;
    int x = l->graph->nodes[all[groups[first]].anchor].inputs[0];
    int added = last != NULL ? all[groups[2]].residual : -1;
    shape->n = layers[first].n;
    shape->h = layers[first].h;
    shape->w = layers[first].w;
    shape->c = layers[first].c;
    shape->mid = middle->c;
    shape->k = last != NULL ? last->k : 0;
    shape->side = middle->r;
    shape->stride = middle->stride[0];
    shape->oh = middle->oh;
    shape->ow = middle->ow;
    shape->residual = added >= 0;
    shape->depthwise = middle->groups > 1;
    shape->separable = first > 0;
    shape->x_pixel = convoy_nhwc_channels(shape->c);
    shape->y_pixel = convoy_nhwc_channels(last != NULL ? shape->k : shape->mid);
    if (middle->k != shape->mid || (added >= 0 && added != x))
        return false;
    return shape->depthwise ? middle->groups == shape->mid
                            : first == 0 && last != NULL && convoy_cuda_keeps_size(middle, 3) && added == x &&
                                  shape->k == shape->c;
}

bool convoy_cuda_takes_bottleneck(const struct convoy_bottleneck_shape *shape)
{
    int count;
    const struct convoy_bottleneck_kernel *const *kernels = convoy_bottleneck_kernels(&count);
    for (int i = 0; i < count; i++)
        if (kernels[i]->takes(shape))
            return true;
    return false;
}

void convoy_cuda_bottleneck_key(const struct convoy_bottleneck_shape *s, struct convoy_cuda_key *key)
{
    char inverted[64] = "";
    if (s->depthwise)
        snprintf(inverted, sizeof(inverted), " k%d %dx%d/%d r%d", s->k, s->side, s->side, s->stride,
                 s->residual);
    snprintf(key->text, sizeof(key->text), "%s n%d x%dx%dx%d m%d%s b%d,%d,%d a%d,%d,%d",
             s->separable   ? "separable"
             : s->depthwise ? "inverted"
                            : "bottleneck",
             s->n, s->c, s->h, s->w, s->mid, inverted, s->bias[0], s->bias[1], s->bias[2],
             (int)s->act[0].kind, (int)s->act[1].kind, (int)s->act[2].kind);
}

/* What is to run the shape: a kernel's name or CONVOY_CUDA_LAYERS; NULL: nothing says it. */
static const char *said(const struct convoy_cuda_source *source, const struct convoy_bottleneck_shape *shape)
{
    struct convoy_cuda_key key;
    const char *wish = getenv("CONVOY_BOTTLENECK");
    if (wish != NULL && wish[0] != '\0')
        return wish;
    convoy_cuda_bottleneck_key(shape, &key);
    return convoy_cuda_kernel_choices_get(source->choices, &key);
}

bool convoy_cuda_knows_bottleneck(const struct convoy_cuda_source *source,
                                  const struct convoy_bottleneck_shape *shape)
{
    return said(source, shape) != NULL;
}

/* A layer as a convolution by itself. */
static struct convoy_conv_shape layer_of(const struct convoy_cuda_source *source,
                                         const struct convoy_bottleneck_shape *s, int layer)
{
    int side = layer == 1 ? s->side : 1, stride = layer == 1 ? s->stride : 1;
    struct convoy_conv_shape shape = {.n = s->n,
                                      .c = layer == 0 ? s->c : s->mid,
                                      .h = layer == 2 ? s->oh : s->h,
                                      .w = layer == 2 ? s->ow : s->w,
                                      .k = layer == 2 ? s->k : s->mid,
                                      .r = side,
                                      .s = side,
                                      .groups = layer == 1 && s->depthwise ? s->mid : 1,
                                      .stride = {stride, stride},
                                      .dilation = {1, 1},
                                      .pad = {side / 2, side / 2},
                                      .oh = layer == 0 ? s->h : s->oh,
                                      .ow = layer == 0 ? s->w : s->ow,
                                      .bias = s->bias[layer],
                                      .residual = layer == 2 && s->residual,
                                      .act = s->act[layer],
                                      .pool = 1,
                                      .compute_type = source->compute_type};
    shape.nhwc.on = true;
    shape.nhwc.pixel = convoy_nhwc_channels(shape.c);
    shape.nhwc.row = shape.nhwc.pixel * shape.w;
    shape.nhwc.image = shape.nhwc.row * shape.h;
    shape.nhwc.y_pixel = shape.nhwc.residual_pixel = convoy_nhwc_channels(shape.k);
    return shape;
}

float convoy_cuda_estimate_layers(const struct convoy_cuda_source *source,
                                  const struct convoy_bottleneck_shape *shape)
{
    float us = 0;
    for (int layer = convoy_bottleneck_first(shape); layer < convoy_bottleneck_end(shape); layer++) {
        const struct convoy_conv_shape conv = layer_of(source, shape, layer);
        const struct convoy_conv_kernel *kernel = convoy_cuda_choose_conv(source->choices, &conv);
        us += kernel != NULL ? kernel->estimate_us(&conv) : 0;
    }
    return us;
}

/* The kernel with the least estimate, if that is less than the layers'. */
static const struct convoy_bottleneck_kernel *estimated(const struct convoy_cuda_source *source,
                                                        const struct convoy_bottleneck_shape *shape)
{
    int count;
    const struct convoy_bottleneck_kernel *const *kernels = convoy_bottleneck_kernels(&count), *best = NULL;
    if (shape->n > FEW_IMAGES && !shape->depthwise)
        return NULL;
    /* Of depthwise layers the estimates are too low themselves. */
    float least = (shape->depthwise ? 1 : LAYERS_TOGETHER) * convoy_cuda_estimate_layers(source, shape);
    for (int i = 0; i < count; i++) {
        if (!kernels[i]->takes(shape))
            continue;
        float us = kernels[i]->estimate_us(shape);
        if (us < least) {
            best = kernels[i];
            least = us;
        }
    }
    return best;
}

const struct convoy_bottleneck_kernel *
convoy_cuda_choose_bottleneck(const struct convoy_cuda_source *source,
                              const struct convoy_bottleneck_shape *shape)
{
    int count;
    const struct convoy_bottleneck_kernel *const *kernels = convoy_bottleneck_kernels(&count);
    const char *name = said(source, shape);
    if (name == NULL)
        return source->layers_first ? NULL : estimated(source, shape);
    for (int i = 0; i < count; i++)
        if (strcmp(kernels[i]->name, name) == 0 && kernels[i]->takes(shape))
            return kernels[i];
    return NULL;
}
