/* Dense layers and matrix products. */
#include "engine/cpu/check.h"
#include "engine/cpu/constants.h"
#include "engine/cpu/emit.h"
#include "engine/cpu/layouts.h"
#include "engine/cpu/lower_internal.h"
#include "engine/cpu/reps.h"

#include <errno.h>
#include <string.h>

/* Describes y = x W^T + b for x of layout x_md, whose dimensions after the first are those of a row, with the
 * weights in layout w_md, whose dimensions are those of x but for the first. */
static int describe_with(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group,
                         const dnnl_memory_desc_t *x_md, const dnnl_memory_desc_t *w_md, int post_count,
                         dnnl_primitive_desc_t *description, int *fused)
{
    const struct convoy_node *node = &l->graph->nodes[group->anchor];
    dnnl_inner_product_desc_t op;
    dnnl_dims_t y;
    int rank = convoy_cpu_dims(l, node->output, y);
    dnnl_memory_desc_t y_md = convoy_cpu_plain_md(rank, y);
    dnnl_memory_desc_t b_md = convoy_cpu_plain_md(1, &y[1]);
    int failed =
        convoy_cpu_check(dnnl_inner_product_forward_desc_init(&op, dnnl_forward_inference, x_md, w_md,
                                                              node->input_count > 2 ? &b_md : NULL, &y_md),
                         l->error, l->node, "describe a dense layer");
    return failed ? failed : convoy_cpu_choose(l, &op, group->posts, post_count, description, fused);
}

static int describe_dense(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group,
                          const dnnl_memory_desc_t *x_md, int post_count, dnnl_primitive_desc_t *description,
                          int *fused)
{
    const struct convoy_node *node = &l->graph->nodes[group->anchor];
    dnnl_dims_t y;
    dnnl_dims_t w;
    convoy_cpu_dims(l, node->output, y);
    memcpy(w, x_md->dims, sizeof(w));
    w[0] = y[1];
    /* For larger batches oneDNN would have the weights transposed. Measured on dense layers of 7,200 x 500
     * and 17,496 x 160, that saves a tenth of the whole network's time at batches of 16 and 32 and costs the
     * weights' memory, 14 and 11 MB, once more: the daemon is to stay small. */
    const dnnl_memory_desc_t *there =
        convoy_cpu_constants_layout(l->constants, l->graph->tensors[node->inputs[1]].data, x_md->ndims, w);
    if (there != NULL && describe_with(l, group, x_md, there, post_count, description, fused) == 0) {
        if (!convoy_cpu_is_reference(*description))
            return 0;
        dnnl_primitive_desc_destroy(*description);
    }
    dnnl_memory_desc_t any = convoy_cpu_any_md(x_md->ndims, w);
    return describe_with(l, group, x_md, &any, post_count, description, fused);
}

static int dense_destination(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group, int fused,
                             const dnnl_memory_desc_t *md, int x)
{
    for (int i = 0; i < fused; i++)
        if (group->posts[i].kind == CONVOY_CPU_SUM)
            return convoy_cpu_writable(l, group->posts[i].tensor, md, x);
    return convoy_cpu_new_rep(l, md);
}

static int emit_dense(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group,
                      dnnl_primitive_desc_t description, int fused, int x)
{
    const struct convoy_node *node = &l->graph->nodes[group->anchor];
    bool has_bias = node->input_count > 2;
    dnnl_memory_desc_t w_md = *dnnl_primitive_desc_query_md(description, dnnl_query_weights_md, 0);
    dnnl_memory_desc_t y_md = *dnnl_primitive_desc_query_md(description, dnnl_query_dst_md, 0);
    dnnl_memory_desc_t b_md = convoy_cpu_plain_md(1, &y_md.dims[1]);
    int y = -ENOMEM;
    int w = convoy_cpu_constant_rep(l, node->inputs[1], &w_md);
    int b = w;
    if (w >= 0 && has_bias)
        b = convoy_cpu_constant_rep(l, node->inputs[2], &b_md);
    if (b >= 0)
        y = dense_destination(l, group, fused, &y_md, x);
    if (w < 0 || b < 0 || y < 0) {
        dnnl_primitive_desc_destroy(description);
        return w < 0 ? w : (b < 0 ? b : y);
    }
    struct convoy_cpu_use uses[4] = {
        {DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}, {DNNL_ARG_BIAS, b}};
    int failed = convoy_cpu_emit(l, description, uses, has_bias ? 4 : 3);
    return failed ? failed : y;
}

/* Rows of an image, at least, that are computed as pixels. It depends on no batch, so that weights are kept
 * in one layout. */
#define ROWS_AS_PIXELS 16

struct pixels {
    dnnl_memory_desc_t x, y;
    dnnl_primitive_desc_t description; /* NULL where oneDNN has nothing fast */
};

/* Of oneDNN's convolutions those written for 1 x 1: of AVX2, of AVX-512. */
static bool is_pointwise(const char *implementation)
{
    return strncmp(implementation, "jit_1x1", 7) == 0 || strncmp(implementation, "brgconv_1x1", 11) == 0;
}

static int describe_pixels(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group,
                           struct pixels *pixels, int *fused)
{
    const struct convoy_node *node = &l->graph->nodes[group->anchor];
    dnnl_convolution_desc_t op;
    dnnl_dims_t x;
    dnnl_dims_t y;
    convoy_cpu_dims(l, node->inputs[0], x);
    convoy_cpu_dims(l, node->output, y);
    const dnnl_dims_t x_dims = {1, x[1], x[0], 1}, y_dims = {1, y[1], y[0], 1}, w_dims = {y[1], x[1], 1, 1};
    const dnnl_dims_t ones = {1, 1}, zeros = {0, 0};
    pixels->x = convoy_cpu_tag_md(4, x_dims, dnnl_nhwc);
    pixels->y = convoy_cpu_tag_md(4, y_dims, dnnl_nhwc);
    dnnl_memory_desc_t w_md = convoy_cpu_any_md(4, w_dims), b_md = convoy_cpu_plain_md(1, &y[1]);
    int failed = convoy_cpu_check(dnnl_convolution_forward_desc_init(
                                      &op, dnnl_forward_inference, dnnl_convolution_direct, &pixels->x, &w_md,
                                      node->input_count > 2 ? &b_md : NULL, &pixels->y, ones, zeros, zeros),
                                  l->error, l->node, "describe a dense layer");
    if (failed)
        return failed;
    failed = convoy_cpu_choose(l, &op, group->posts, group->post_count, &pixels->description, fused);
    if (failed == 0 && is_pointwise(convoy_cpu_implementation(pixels->description)))
        return 0;
    if (failed == 0)
        dnnl_primitive_desc_destroy(pixels->description);
    pixels->description = NULL;
    return 0;
}

static int emit_pixels(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group,
                       const struct pixels *pixels, int fused)
{
    const struct convoy_node *node = &l->graph->nodes[group->anchor];
    bool has_bias = node->input_count > 2;
    dnnl_memory_desc_t w_md = *dnnl_primitive_desc_query_md(pixels->description, dnnl_query_weights_md, 0);
    dnnl_memory_desc_t b_md = convoy_cpu_plain_md(1, &pixels->y.dims[1]);
    dnnl_dims_t dims;
    int rank = convoy_cpu_dims(l, node->output, dims);
    dnnl_memory_desc_t rows_md = convoy_cpu_plain_md(rank, dims);
    int rows = convoy_cpu_plain(l, group->source);
    int result = rows < 0 ? rows : dense_destination(l, group, fused, &rows_md, rows);
    int x = result < 0 ? result : convoy_cpu_view(l, rows, &pixels->x);
    int y = x < 0 ? x : convoy_cpu_view(l, result, &pixels->y);
    int w = y < 0 ? y : convoy_cpu_constant_rep(l, node->inputs[1], &w_md);
    int b = w < 0 || !has_bias ? w : convoy_cpu_constant_rep(l, node->inputs[2], &b_md);
    if (b < 0) {
        dnnl_primitive_desc_destroy(pixels->description);
        return b;
    }
    convoy_cpu_name_kernel(l, convoy_cpu_implementation(pixels->description));
    struct convoy_cpu_use uses[4] = {
        {DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, y}, {DNNL_ARG_BIAS, b}};
    int failed = convoy_cpu_emit(l, pixels->description, uses, has_bias ? 4 : 3);
    return failed ? failed : result;
}

/* A dense layer of many rows is a 1 x 1 convolution of an image whose pixels they are, channels last: the
 * same bytes. Measured on AVX2 (oneDNN 2.6, ViT's and ConvNeXt's layers, one thread) that takes 0.65 to 0.95
 * of the matrix product's time, which packs the weights at every call; with AVX-512 (197 rows of 768 and
 * 3,072 values, two threads) 0.78 to 0.93. */
static bool are_pixels(const struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group)
{
    const struct convoy_node *node = &l->graph->nodes[group->anchor];
    const struct convoy_shape *rows = &l->graph->tensors[node->inputs[0]].shape;
    return group->source == node->inputs[0] && rows->rank == 2 && rows->batch_axis <= 0 &&
           rows->dims[0] >= ROWS_AS_PIXELS;
}

/* For rows with NaN: describes the layer with the weights as they are resident for other rows, whatever
 * layout of x they go with: loops have made x row-major, and large weights are not to be kept twice.
 * *description stays NULL where they are not. */
static int describe_resident(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group, int *fused,
                             dnnl_primitive_desc_t *description)
{
    const struct convoy_node *node = &l->graph->nodes[group->anchor];
    dnnl_dims_t x;
    dnnl_dims_t w;
    dnnl_dims_t y;
    int rank = convoy_cpu_dims(l, group->source, x);
    convoy_cpu_dims(l, node->output, y);
    memcpy(w, x, sizeof(w));
    w[0] = y[1];
    const dnnl_memory_desc_t *there =
        convoy_cpu_constants_layout(l->constants, l->graph->tensors[node->inputs[1]].data, rank, w);
    dnnl_memory_desc_t any = convoy_cpu_any_md(rank, x);
    if (there == NULL)
        return 0;
    int failed = describe_with(l, group, &any, there, group->post_count, description, fused);
    if (!failed && !convoy_cpu_is_reference(*description))
        return 0;
    dnnl_primitive_desc_destroy(*description);
    *description = NULL;
    return failed;
}

int convoy_cpu_lower_dense(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group, int *fused)
{
    const struct convoy_node *node = &l->graph->nodes[group->anchor];
    dnnl_primitive_desc_t description = NULL;
    if (are_pixels(l, group)) {
        struct pixels pixels = {.description = NULL};
        int status = describe_pixels(l, group, &pixels, fused);
        if (status != 0)
            return status;
        if (pixels.description != NULL)
            return emit_pixels(l, group, &pixels, *fused);
    }
    int failed = l->groups->keeps_nan ? describe_resident(l, group, fused, &description) : 0;
    if (failed)
        return failed;
    if (description != NULL) {
        dnnl_memory_desc_t wanted = *dnnl_primitive_desc_query_md(description, dnnl_query_src_md, 0);
        int source = convoy_cpu_as(l, group->source, &wanted);
        if (source >= 0)
            return emit_dense(l, group, description, *fused, source);
        dnnl_primitive_desc_destroy(description);
        return source;
    }
    int x = convoy_cpu_primary(l, group->source);
    if (x < 0)
        return x;
    dnnl_memory_desc_t x_md = l->plan->reps[x].md;
    failed = describe_dense(l, group, &x_md, group->post_count, &description, fused);
    if (failed || convoy_cpu_is_reference(description)) {
        /* Not in the layout that is there, then row-major, flattened where an image was absorbed. */
        dnnl_primitive_desc_destroy(description);
        description = NULL;
        dnnl_dims_t flat;
        int rank = convoy_cpu_dims(l, node->inputs[0], flat);
        x_md = convoy_cpu_plain_md(rank, flat);
        x = convoy_cpu_view(l, convoy_cpu_plain(l, group->source), &x_md);
        if (x < 0)
            return x;
        failed = describe_dense(l, group, &x_md, group->post_count, &description, fused);
    }
    if (failed)
        return failed;
    convoy_cpu_name_kernel(l, convoy_cpu_implementation(description));
    return emit_dense(l, group, description, *fused, x);
}

/* numpy's promotion: a vector on the left is a row, on the right a column; ranks are filled up with ones. */
static void promote(const dnnl_dims_t dims, int from, bool is_left, int rank, dnnl_dims_t out)
{
    dnnl_dims_t matrix;
    int matrix_rank = from;
    memcpy(matrix, dims, sizeof(matrix));
    if (from == 1) {
        matrix_rank = 2;
        matrix[0] = is_left ? 1 : dims[0];
        matrix[1] = is_left ? dims[0] : 1;
    }
    for (int i = 0; i < rank; i++)
        out[i] = i < rank - matrix_rank ? 1 : matrix[i - (rank - matrix_rank)];
}

/* An operand, row-major, seen with its promoted dimensions; a constant in layout wanted. */
static int operand(struct convoy_cpu_lowering *l, int tensor, const dnnl_memory_desc_t *wanted)
{
    if (l->graph->tensors[tensor].data != NULL)
        return convoy_cpu_constant_rep(l, tensor, wanted);
    return convoy_cpu_view(l, convoy_cpu_plain(l, tensor), wanted);
}

int convoy_cpu_lower_matmul(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group, int *fused)
{
    const struct convoy_node *node = &l->graph->nodes[group->anchor];
    int b_tensor = node->inputs[1];
    dnnl_matmul_desc_t op;
    dnnl_primitive_desc_t description = NULL;
    dnnl_dims_t a_dims;
    dnnl_dims_t b_dims;
    dnnl_dims_t y_dims;
    dnnl_dims_t a;
    dnnl_dims_t b;
    dnnl_dims_t y;
    int a_rank = convoy_cpu_dims(l, group->source, a_dims);
    int b_rank = convoy_cpu_dims(l, b_tensor, b_dims);
    int y_rank = convoy_cpu_dims(l, node->output, y_dims);
    int rank = a_rank > b_rank ? a_rank : b_rank;
    rank = rank < 2 ? 2 : rank;
    promote(a_dims, a_rank, true, rank, a);
    promote(b_dims, b_rank, false, rank, b);
    for (int i = 0; i < rank - 2; i++)
        y[i] = a[i] > b[i] ? a[i] : b[i];
    y[rank - 2] = a[rank - 2];
    y[rank - 1] = b[rank - 1];

    dnnl_memory_desc_t a_md = convoy_cpu_plain_md(rank, a);
    dnnl_memory_desc_t y_md = convoy_cpu_plain_md(rank, y);
    bool free_layout = l->graph->tensors[b_tensor].data != NULL && rank == 2;
    dnnl_memory_desc_t b_md = free_layout ? convoy_cpu_any_md(rank, b) : convoy_cpu_plain_md(rank, b);
    int failed = convoy_cpu_check(dnnl_matmul_desc_init(&op, &a_md, &b_md, NULL, &y_md), l->error, l->node,
                                  "describe a matrix product");
    if (failed || (failed = convoy_cpu_choose(l, &op, group->posts, group->post_count, &description, fused)))
        return failed;
    convoy_cpu_name_kernel(l, convoy_cpu_implementation(description));
    b_md = *dnnl_primitive_desc_query_md(description, dnnl_query_weights_md, 0);

    int x = operand(l, group->source, &a_md);
    int w = x < 0 ? x : operand(l, b_tensor, &b_md);
    int out = w < 0 ? w : convoy_cpu_new_rep(l, &y_md);
    if (out < 0) {
        dnnl_primitive_desc_destroy(description);
        return out;
    }
    struct convoy_cpu_use uses[3] = {{DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, out}};
    failed = convoy_cpu_emit(l, description, uses, 3);
    if (failed)
        return failed;
    dnnl_memory_desc_t back = convoy_cpu_plain_md(y_rank, y_dims);
    return convoy_cpu_view(l, out, &back);
}
