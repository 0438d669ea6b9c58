/* Convolutions, and what is computed as one. oneDNN chooses the layouts of input, weights and output. */
#include "engine/cpu/check.h"
#include "engine/cpu/emit.h"
#include "engine/cpu/layouts.h"
#include "engine/cpu/lower_internal.h"
#include "engine/cpu/reps.h"

#include <errno.h>
#include <string.h>

struct convolution {
    dnnl_dims_t x, y, weight, stride, dilation, before, after; /* weight: G K/G C/G R S, or K C R S */
    int weight_rank;
    int source, output;             /* tensors, whose dimensions x and y are (or collapse) */
    int weight_tensor, bias_tensor; /* bias -1: none */
};

/* Where the result goes: a buffer of its own, or the residual's, to which the convolution then adds. */
static int destination(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group, int fused,
                       const dnnl_memory_desc_t *md, int source)
{
    for (int i = 0; i < fused; i++)
        if (group->posts[i].kind == CONVOY_CPU_SUM)
            return convoy_cpu_writable(l, group->posts[i].tensor, md, source);
    return convoy_cpu_new_rep(l, md);
}

static int emit_convolution(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group,
                            const struct convolution *c, dnnl_primitive_desc_t description, int fused, int x)
{
    dnnl_memory_desc_t weight_md = *dnnl_primitive_desc_query_md(description, dnnl_query_weights_md, 0);
    dnnl_memory_desc_t y_md = *dnnl_primitive_desc_query_md(description, dnnl_query_dst_md, 0);
    int y = -1;
    int bias = 0;
    int weight = convoy_cpu_constant_rep(l, c->weight_tensor, &weight_md);
    int failed = weight < 0 ? weight : 0;
    if (!failed) {
        y = destination(l, group, fused, &y_md, x);
        failed = y < 0 ? y : 0;
    }
    if (!failed && c->bias_tensor >= 0) {
        dnnl_memory_desc_t bias_md = *dnnl_primitive_desc_query_md(description, dnnl_query_weights_md, 1);
        bias = convoy_cpu_constant_rep(l, c->bias_tensor, &bias_md);
        failed = bias < 0 ? bias : 0;
    }
    if (failed) {
        dnnl_primitive_desc_destroy(description);
        return failed;
    }
    struct convoy_cpu_use uses[4] = {
        {DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, weight}, {DNNL_ARG_DST, y}, {DNNL_ARG_BIAS, bias}};
    failed = convoy_cpu_emit(l, description, uses, c->bias_tensor >= 0 ? 4 : 3);
    return failed ? failed : y;
}

/* Describes the convolution, computed by `algorithm`. */
static int describe_by(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group,
                       const struct convolution *c, dnnl_alg_kind_t algorithm,
                       const dnnl_memory_desc_t *x_wanted, dnnl_primitive_desc_t *description, int *fused)
{
    dnnl_convolution_desc_t op;
    dnnl_memory_desc_t weight_md = convoy_cpu_any_md(c->weight_rank, c->weight);
    dnnl_memory_desc_t y_md = convoy_cpu_any_md(4, c->y);
    dnnl_memory_desc_t bias_md = convoy_cpu_plain_md(1, &c->y[1]);
    int failed = convoy_cpu_check(
        dnnl_dilated_convolution_forward_desc_init(&op, dnnl_forward_inference, algorithm, x_wanted,
                                                   &weight_md, c->bias_tensor >= 0 ? &bias_md : NULL, &y_md,
                                                   c->stride, c->dilation, c->before, c->after),
        l->error, l->node, "describe a convolution");
    return failed ? failed : convoy_cpu_choose(l, &op, group->posts, group->post_count, description, fused);
}

/* Winograd's algorithm computes a 3 x 3 convolution with 2.25 to 4 times fewer products (Lavin and Gray,
 * 2016). Measured with AVX-512 (oneDNN 2.6, two threads, 16 to 512 channels, batches of 1, 8 and 32) the
 * shapes below take 0.41 to 0.95 of the time, smaller images and channels that do not divide so up to 2.2
 * times as long. Not for:
 *  - rows with NaN, which would spread over a tile of pixels;
 *  - quantised networks, whose sums of whole numbers are exact and are rounded behind. */
#define WINOGRAD_CHANNELS 32
#define WINOGRAD_PIXELS   196

static bool suits_winograd(const struct convoy_cpu_lowering *l, const struct convolution *c)
{
    return !l->groups->keeps_nan && !l->groups->rounds && c->weight_rank == 4 && c->weight[2] == 3 &&
           c->weight[3] == 3 && c->stride[0] == 1 && c->stride[1] == 1 && c->dilation[0] == 0 &&
           c->dilation[1] == 0 && c->weight[0] % WINOGRAD_CHANNELS == 0 &&
           c->weight[1] % WINOGRAD_CHANNELS == 0 && c->y[2] * c->y[3] >= WINOGRAD_PIXELS;
}

static int lower_convolution(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group,
                             const struct convolution *c, const dnnl_memory_desc_t *x_wanted, int *fused)
{
    dnnl_primitive_desc_t description = NULL;
    int failed = -ENOTSUP;
    if (suits_winograd(l, c)) /* oneDNN has it for AVX-512 alone */
        failed = describe_by(l, group, c, dnnl_convolution_winograd, x_wanted, &description, fused);
    if (failed)
        failed = describe_by(l, group, c, dnnl_convolution_direct, x_wanted, &description, fused);
    if (failed)
        return failed;
    convoy_cpu_name_kernel(l, convoy_cpu_implementation(description));

    dnnl_memory_desc_t x_md = *dnnl_primitive_desc_query_md(description, dnnl_query_src_md, 0);
    int x = convoy_cpu_as(l, c->source, &x_md);
    if (x < 0) {
        dnnl_primitive_desc_destroy(description);
        return x;
    }
    return emit_convolution(l, group, c, description, *fused, x);
}

int convoy_cpu_lower_conv(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group, int *fused)
{
    const struct convoy_node *node = &l->graph->nodes[group->anchor];
    const struct convoy_conv *conv = &node->conv;
    const int64_t *w = l->graph->tensors[node->inputs[1]].shape.dims;
    struct convolution c = {.source = group->source,
                            .output = node->output,
                            .weight_tensor = node->inputs[1],
                            .bias_tensor = node->input_count > 2 ? node->inputs[2] : -1};
    convoy_cpu_dims(l, group->source, c.x);
    convoy_cpu_dims(l, node->output, c.y);
    if (conv->groups == 1) {
        c.weight_rank = 4;
        memcpy(c.weight, w, 4 * sizeof(w[0]));
    } else {
        c.weight_rank = 5;
        c.weight[0] = conv->groups;
        c.weight[1] = w[0] / conv->groups;
        memcpy(&c.weight[2], &w[1], 3 * sizeof(w[0]));
    }
    for (int i = 0; i < 2; i++) {
        c.stride[i] = conv->stride[i];
        c.dilation[i] = conv->dilation[i] - 1; /* oneDNN counts the holes */
        c.before[i] = conv->pad[i];
        c.after[i] = conv->pad[2 + i];
    }
    dnnl_memory_desc_t x_md = convoy_cpu_any_md(4, c.x);
    return lower_convolution(l, group, &c, &x_md, fused);
}

/* y[n][c] = x[n][c] scale[c] + shift[c] is a depthwise convolution with a 1 x 1 filter, which oneDNN runs in
 * blocked layouts, on all threads, with activations fused. Tensors of other ranks than 4 are seen as N C L 1.
 */
int convoy_cpu_lower_scale_shift(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group,
                                 int *fused)
{
    const struct convoy_node *node = &l->graph->nodes[group->anchor];
    dnnl_dims_t dims;
    int rank = convoy_cpu_dims(l, group->source, dims);
    struct convolution c = {.source = group->source,
                            .output = node->output,
                            .weight_tensor = node->inputs[1],
                            .bias_tensor = node->inputs[2],
                            .weight_rank = 5,
                            .stride = {1, 1}};
    c.x[0] = dims[0];
    c.x[1] = dims[1];
    c.x[2] = c.x[3] = 1;
    for (int i = 2; i < rank; i++)
        c.x[rank == 4 ? i : 2] *= dims[i];
    memcpy(c.y, c.x, sizeof(c.y));
    dnnl_dims_t weight = {c.x[1], 1, 1, 1, 1};
    memcpy(c.weight, weight, sizeof(c.weight));
    if (rank == 4) {
        dnnl_memory_desc_t x_md = convoy_cpu_any_md(4, c.x);
        return lower_convolution(l, group, &c, &x_md, fused);
    }

    /* A row-major detour: view, reorder if need be, compute, and view back. The posts run afterwards. */
    dnnl_convolution_desc_t op;
    dnnl_primitive_desc_t description = NULL;
    dnnl_memory_desc_t md = convoy_cpu_plain_md(4, c.x);
    dnnl_memory_desc_t weight_md = convoy_cpu_any_md(5, c.weight);
    dnnl_memory_desc_t bias_md = convoy_cpu_plain_md(1, &c.y[1]);
    int x = convoy_cpu_view(l, convoy_cpu_plain(l, group->source), &md);
    if (x < 0)
        return x;
    int failed = convoy_cpu_check(
        dnnl_convolution_forward_desc_init(&op, dnnl_forward_inference, dnnl_convolution_direct, &md,
                                           &weight_md, &bias_md, &md, c.stride, c.before, c.after),
        l->error, l->node, "describe a scale and shift");
    if (failed || (failed = convoy_cpu_choose(l, &op, NULL, 0, &description, fused)))
        return failed;
    convoy_cpu_name_kernel(l, convoy_cpu_implementation(description));
    struct convoy_cpu_group plain = *group;
    plain.post_count = 0;
    int y = emit_convolution(l, &plain, &c, description, 0, x);
    dnnl_memory_desc_t back = convoy_cpu_plain_md(rank, dims);
    return convoy_cpu_view(l, y, &back);
}
