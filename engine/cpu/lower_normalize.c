/* Softmax, normalisations, and what is a loop along an axis or of each element. */
#include "engine/cpu/check.h"
#include "engine/cpu/emit.h"
#include "engine/cpu/layouts.h"
#include "engine/cpu/lower_internal.h"
#include "engine/cpu/reps.h"

#include <errno.h>

static int lower_softmax_loop(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group,
                              const dnnl_dims_t folded, const dnnl_memory_desc_t *md)
{
    int x = convoy_cpu_plain(l, group->source);
    int y = x < 0 ? x : convoy_cpu_new_rep(l, md);
    if (y < 0)
        return y;
    struct convoy_cpu_step step = {
        .kind = CONVOY_CPU_SOFTMAX_LOOP,
        .softmax = {folded[0], folded[1], folded[2], l->graph->nodes[group->anchor].softmax.log}};
    struct convoy_cpu_use uses[2] = {{0, x}, {0, y}};
    int failed = convoy_cpu_emit_loop(l, &step, uses, 2);
    convoy_cpu_name_kernel(l, "loop:softmax");
    return failed ? failed : y;
}

/* The axes that are taken together become one, and so do those before and after. */
int convoy_cpu_lower_softmax(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group)
{
    const struct convoy_node *node = &l->graph->nodes[group->anchor];
    dnnl_softmax_v2_desc_t op;
    dnnl_primitive_desc_t description = NULL;
    int fused = 0;
    dnnl_dims_t dims;
    dnnl_dims_t folded = {1, 1, 1};
    int rank = convoy_cpu_dims(l, group->source, dims);
    for (int i = 0; i < rank; i++)
        folded[i < node->softmax.axis ? 0 : (i < node->softmax.axis_end ? 1 : 2)] *= dims[i];
    int folded_rank = folded[2] == 1 ? 2 : 3;
    dnnl_memory_desc_t md = convoy_cpu_plain_md(folded_rank, folded);
    dnnl_memory_desc_t back = convoy_cpu_plain_md(rank, dims);
    if (l->groups->keeps_nan)
        return lower_softmax_loop(l, group, folded, &back);
    int failed =
        convoy_cpu_check(dnnl_softmax_v2_forward_desc_init(
                             &op, dnnl_forward_inference,
                             node->softmax.log ? dnnl_softmax_log : dnnl_softmax_accurate, &md, &md, 1),
                         l->error, l->node, "describe a softmax");
    if (failed || (failed = convoy_cpu_choose(l, &op, NULL, 0, &description, &fused)))
        return failed;
    convoy_cpu_name_kernel(l, convoy_cpu_implementation(description));
    int x = convoy_cpu_view(l, convoy_cpu_plain(l, group->source), &md);
    int y = x < 0 ? x : convoy_cpu_new_rep(l, &md);
    if (y < 0) {
        dnnl_primitive_desc_destroy(description);
        return y;
    }
    struct convoy_cpu_use uses[2] = {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}};
    failed = convoy_cpu_emit(l, description, uses, 2);
    return failed ? failed : convoy_cpu_view(l, y, &back);
}

int convoy_cpu_lower_unary(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group)
{
    const struct convoy_node *node = &l->graph->nodes[group->anchor];
    dnnl_dims_t dims;
    int rank = convoy_cpu_dims(l, group->source, dims);
    dnnl_memory_desc_t md = convoy_cpu_plain_md(rank, dims);
    int x = convoy_cpu_plain(l, group->source);
    int y = x < 0 ? x : convoy_cpu_new_rep(l, &md);
    if (y < 0)
        return y;
    struct convoy_cpu_step step = {.kind = CONVOY_CPU_UNARY_LOOP,
                                   .unary = {.activation = node->activation, .count = 1}};
    for (int i = 0; i < rank; i++)
        step.unary.count *= dims[i];
    struct convoy_cpu_use uses[2] = {{0, x}, {0, y}};
    int failed = convoy_cpu_emit_loop(l, &step, uses, 2);
    convoy_cpu_name_kernel(l, "loop:unary");
    return failed ? failed : y;
}

/* oneDNN's layer normalisation of rows of `length`; returns the representation of the result. */
static int lower_rows(struct convoy_cpu_lowering *l, const struct convoy_node *node, int x,
                      const dnnl_dims_t rows)
{
    dnnl_layer_normalization_desc_t op;
    dnnl_primitive_desc_t description = NULL;
    dnnl_memory_desc_t md = convoy_cpu_plain_md(2, rows);
    dnnl_memory_desc_t row = convoy_cpu_plain_md(1, &rows[1]);
    unsigned flags = (node->normalize.has_scale ? (unsigned)dnnl_use_scale : 0) |
                     (node->normalize.has_shift ? (unsigned)dnnl_use_shift : 0);
    int fused = 0, count = 2;
    int failed = convoy_cpu_check(dnnl_layer_normalization_forward_desc_init(
                                      &op, dnnl_forward_inference, &md, NULL, node->normalize.epsilon, flags),
                                  l->error, l->node, "describe a normalisation");
    if (failed || (failed = convoy_cpu_choose(l, &op, NULL, 0, &description, &fused)))
        return failed;
    convoy_cpu_name_kernel(l, convoy_cpu_implementation(description));
    struct convoy_cpu_use uses[4] = {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, convoy_cpu_new_rep(l, &md)}};
    if (node->normalize.has_scale)
        uses[count++] =
            (struct convoy_cpu_use){DNNL_ARG_SCALE, convoy_cpu_constant_rep(l, node->inputs[1], &row)};
    if (node->normalize.has_shift)
        uses[count++] = (struct convoy_cpu_use){
            DNNL_ARG_SHIFT, convoy_cpu_constant_rep(l, node->inputs[node->input_count - 1], &row)};
    for (int i = 0; i < count; i++)
        if (uses[i].rep < 0) {
            dnnl_primitive_desc_destroy(description);
            return uses[i].rep;
        }
    failed = convoy_cpu_emit(l, description, uses, count);
    return failed ? failed : uses[1].rep;
}

static int lower_normalize_loop(struct convoy_cpu_lowering *l, const struct convoy_node *node, int x,
                                const struct convoy_cpu_normalize *normalize, const dnnl_memory_desc_t *md)
{
    struct convoy_cpu_step step = {.kind = CONVOY_CPU_NORMALIZE_LOOP, .normalize = *normalize};
    struct convoy_cpu_use uses[4] = {{0, x}, {0, convoy_cpu_new_rep(l, md)}};
    int count = 2;
    for (int k = 1; k < node->input_count; k++)
        uses[count++] = (struct convoy_cpu_use){0, convoy_cpu_primary(l, node->inputs[k])};
    for (int i = 0; i < count; i++)
        if (uses[i].rep < 0)
            return uses[i].rep;
    int failed = convoy_cpu_emit_loop(l, &step, uses, count);
    convoy_cpu_name_kernel(l, "loop:normalize");
    return failed ? failed : uses[1].rep;
}

int convoy_cpu_lower_normalize(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group)
{
    const struct convoy_node *node = &l->graph->nodes[group->anchor];
    struct convoy_cpu_normalize normalize = {.outer = 1,
                                             .length = 1,
                                             .inner = 1,
                                             .epsilon = node->normalize.epsilon,
                                             .rms = node->normalize.rms,
                                             .has_scale = node->normalize.has_scale,
                                             .has_shift = node->normalize.has_shift};
    dnnl_dims_t dims;
    int rank = convoy_cpu_dims(l, group->source, dims);
    for (int i = 0; i < rank; i++)
        *(i < node->normalize.axis       ? &normalize.outer
          : i < node->normalize.axis_end ? &normalize.length
                                         : &normalize.inner) *= dims[i];
    dnnl_memory_desc_t md = convoy_cpu_plain_md(rank, dims);
    int x = convoy_cpu_plain(l, group->source);
    if (x < 0)
        return x;
    if (normalize.inner != 1 || normalize.rms)
        return lower_normalize_loop(l, node, x, &normalize, &md);
    dnnl_dims_t rows = {normalize.outer, normalize.length};
    dnnl_memory_desc_t rows_md = convoy_cpu_plain_md(2, rows);
    x = convoy_cpu_view(l, x, &rows_md);
    int y = x < 0 ? x : lower_rows(l, node, x, rows);
    return y < 0 ? y : convoy_cpu_view(l, y, &md);
}

int convoy_cpu_lower_top(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group)
{
    const struct convoy_node *node = &l->graph->nodes[group->anchor];
    dnnl_dims_t dims;
    int rank = convoy_cpu_dims(l, node->output, dims);
    dnnl_memory_desc_t md = convoy_cpu_plain_md(rank, dims);
    int x = convoy_cpu_plain(l, group->source);
    int y = x < 0 ? x : convoy_cpu_new_rep(l, &md);
    if (y < 0)
        return y;
    struct convoy_cpu_step step = {.kind = CONVOY_CPU_TOP_LOOP,
                                   .top = convoy_top_rows(&node->top, &l->graph->tensors[group->source].shape,
                                                          &l->graph->tensors[node->output].shape,
                                                          l->plan->rows)};
    struct convoy_cpu_use uses[2] = {{0, x}, {0, y}};
    int failed = convoy_cpu_emit_loop(l, &step, uses, 2);
    convoy_cpu_name_kernel(l, "loop:top");
    return failed ? failed : y;
}
