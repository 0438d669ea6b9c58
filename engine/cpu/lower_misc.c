/* Pooling, padding, and the operators that only move values. */
#include "engine/cpu/check.h"
#include "engine/cpu/emit.h"
#include "engine/cpu/layouts.h"
#include "engine/cpu/lower_internal.h"
#include "engine/cpu/reps.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct pooling {
    dnnl_dims_t x, y, window, stride, dilation, before, after;
};

/* Where oneDNN's pooling means what the graph means: no holes in the window, no window that touches only
 * padding, and for averages that count the padding none that hangs over it (oneDNN would count the overhang
 * too). Sets `after` so that the output's size comes out. */
static bool pooling_suits(const struct convoy_pool *pool, struct pooling *p)
{
    for (int i = 0; i < 2; i++) {
        int64_t reach = (p->y[2 + i] - 1) * pool->stride[i] + pool->window[i];
        int64_t overhang = reach - (p->x[2 + i] + pool->pad[i] + pool->pad[2 + i]);
        if (pool->dilation[i] != 1 || pool->pad[i] >= pool->window[i] ||
            (p->y[2 + i] - 1) * pool->stride[i] >= p->x[2 + i] + pool->pad[i])
            return false;
        if (overhang > 0 && pool->kind == CONVOY_POOL_AVERAGE && pool->count_include_pad)
            return false;
        p->window[i] = pool->window[i];
        p->stride[i] = pool->stride[i];
        p->dilation[i] = 0;
        p->before[i] = pool->pad[i];
        p->after[i] = pool->pad[2 + i] + (overhang > 0 ? overhang : 0);
    }
    return true;
}

static int lower_pool_loop(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group,
                           const struct pooling *p)
{
    dnnl_memory_desc_t y_md = convoy_cpu_plain_md(4, p->y);
    int x = convoy_cpu_plain(l, group->source);
    int y = x < 0 ? x : convoy_cpu_new_rep(l, &y_md);
    if (y < 0)
        return y;
    struct convoy_cpu_step step = {.kind = CONVOY_CPU_POOL_LOOP,
                                   .pool = {.pool = l->graph->nodes[group->anchor].pool,
                                            .planes = p->x[0] * p->x[1],
                                            .height = p->x[2],
                                            .width = p->x[3],
                                            .out_height = p->y[2],
                                            .out_width = p->y[3]}};
    struct convoy_cpu_use uses[2] = {{0, x}, {0, y}};
    int failed = convoy_cpu_emit_loop(l, &step, uses, 2);
    convoy_cpu_name_kernel(l, "loop:pool");
    return failed ? failed : y;
}

static dnnl_alg_kind_t pooling_algorithm(const struct convoy_pool *pool)
{
    if (pool->kind == CONVOY_POOL_MAX)
        return dnnl_pooling_max;
    return pool->count_include_pad ? dnnl_pooling_avg_include_padding : dnnl_pooling_avg_exclude_padding;
}

int convoy_cpu_lower_pool(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group, int *fused)
{
    const struct convoy_node *node = &l->graph->nodes[group->anchor];
    dnnl_pooling_v2_desc_t op;
    dnnl_primitive_desc_t description = NULL;
    struct pooling p = {{0}};
    *fused = 0;
    convoy_cpu_dims(l, group->source, p.x);
    convoy_cpu_dims(l, node->output, p.y);
    if (!pooling_suits(&node->pool, &p) || (l->groups->keeps_nan && node->pool.kind == CONVOY_POOL_MAX))
        return lower_pool_loop(l, group, &p);
    int x = convoy_cpu_primary(l, group->source);
    if (x < 0)
        return x;
    dnnl_memory_desc_t x_md = l->plan->reps[x].md;
    dnnl_memory_desc_t y_md = convoy_cpu_any_md(4, p.y);
    int failed = convoy_cpu_check(
        dnnl_pooling_v2_forward_desc_init(&op, dnnl_forward_inference, pooling_algorithm(&node->pool), &x_md,
                                          &y_md, p.stride, p.window, p.dilation, p.before, p.after),
        l->error, l->node, "describe a pooling");
    if (failed || (failed = convoy_cpu_choose(l, &op, group->posts, group->post_count, &description, fused)))
        return failed;
    convoy_cpu_name_kernel(l, convoy_cpu_implementation(description));
    y_md = *dnnl_primitive_desc_query_md(description, dnnl_query_dst_md, 0);
    int y = convoy_cpu_new_rep(l, &y_md);
    if (y < 0) {
        dnnl_primitive_desc_destroy(description);
        return y;
    }
    struct convoy_cpu_use uses[2] = {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}};
    failed = convoy_cpu_emit(l, description, uses, 2);
    return failed ? failed : y;
}

int convoy_cpu_lower_pad(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group)
{
    const struct convoy_node *node = &l->graph->nodes[group->anchor];
    struct convoy_cpu_step step = {.kind = CONVOY_CPU_PAD_LOOP};
    dnnl_dims_t x_dims;
    dnnl_dims_t y_dims;
    int rank = convoy_cpu_dims(l, node->output, y_dims);
    convoy_cpu_dims(l, group->source, x_dims);
    step.pad.rank = rank;
    for (int i = 0; i < rank; i++) {
        step.pad.x_dims[i] = x_dims[i];
        step.pad.y_dims[i] = y_dims[i];
        step.pad.before[i] = node->pad.before[i];
    }
    dnnl_memory_desc_t md = convoy_cpu_plain_md(rank, y_dims);
    int x = convoy_cpu_plain(l, group->source);
    int y = x < 0 ? x : convoy_cpu_new_rep(l, &md);
    if (y < 0)
        return y;
    struct convoy_cpu_use uses[2] = {{0, x}, {0, y}};
    int failed = convoy_cpu_emit_loop(l, &step, uses, 2);
    convoy_cpu_name_kernel(l, "loop:pad");
    return failed ? failed : y;
}

int convoy_cpu_lower_reshape(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group)
{
    dnnl_dims_t dims;
    int rank = convoy_cpu_dims(l, l->graph->nodes[group->anchor].output, dims);
    dnnl_memory_desc_t md = convoy_cpu_plain_md(rank, dims);
    return convoy_cpu_view(l, convoy_cpu_plain(l, group->source), &md);
}

int convoy_cpu_lower_transpose(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group)
{
    const struct convoy_node *node = &l->graph->nodes[group->anchor];
    dnnl_memory_desc_t permuted;
    dnnl_dims_t dims;
    int permutation[CONVOY_MAX_RANK] = {0};
    int rank = convoy_cpu_dims(l, node->output, dims);
    int x = convoy_cpu_primary(l, group->source);
    if (x < 0)
        return x;
    dnnl_memory_desc_t x_md = l->plan->reps[x].md;
    for (int i = 0; i < rank; i++)
        permutation[node->perm[i]] = i; /* oneDNN says where an axis goes, the graph where it comes from */
    int failed = convoy_cpu_check(dnnl_memory_desc_permute_axes(&permuted, &x_md, permutation), l->error,
                                  l->node, "transpose a tensor");
    if (failed)
        return failed;
    dnnl_memory_desc_t md = convoy_cpu_plain_md(rank, dims);
    int y = convoy_cpu_new_rep(l, &md);
    if (y < 0)
        return y;
    convoy_cpu_name_kernel(l, "reorder");
    failed = convoy_cpu_emit_reorder(l, x, &permuted, y);
    return failed ? failed : y;
}

static int emit_concat(struct convoy_cpu_lowering *l, const struct convoy_node *node, dnnl_memory_desc_t *mds,
                       struct convoy_cpu_use *uses)
{
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_primitive_desc_t description = NULL;
    for (int i = 0; i < node->input_count; i++) {
        int rep = convoy_cpu_primary(l, node->inputs[i]);
        if (rep < 0)
            return rep;
        uses[i] = (struct convoy_cpu_use){DNNL_ARG_MULTIPLE_SRC + i, rep};
        mds[i] = l->plan->reps[rep].md;
    }
    dnnl_status_t status = dnnl_primitive_attr_create(&attributes);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user);
    if (status == dnnl_success)
        status = dnnl_concat_primitive_desc_create(&description, NULL, node->input_count, node->axis, mds,
                                                   attributes, l->constants->engine);
    dnnl_primitive_attr_destroy(attributes);
    int failed = convoy_cpu_check(status, l->error, l->node, "concatenate tensors");
    if (failed)
        return failed;
    convoy_cpu_name_kernel(l, convoy_cpu_implementation(description));
    dnnl_memory_desc_t y_md = *dnnl_primitive_desc_query_md(description, dnnl_query_dst_md, 0);
    int y = convoy_cpu_new_rep(l, &y_md);
    if (y < 0) {
        dnnl_primitive_desc_destroy(description);
        return y;
    }
    uses[node->input_count] = (struct convoy_cpu_use){DNNL_ARG_DST, y};
    failed = convoy_cpu_emit(l, description, uses, node->input_count + 1);
    return failed ? failed : y;
}

int convoy_cpu_lower_concat(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group)
{
    const struct convoy_node *node = &l->graph->nodes[group->anchor];
    dnnl_memory_desc_t *mds = calloc((size_t)node->input_count, sizeof(*mds));
    struct convoy_cpu_use *uses = calloc((size_t)node->input_count + 1, sizeof(*uses));
    int rep = -ENOMEM;
    if (mds == NULL || uses == NULL)
        convoy_fail(l->error, -ENOMEM, "node '%s': no memory for its plan", l->node);
    else
        rep = emit_concat(l, node, mds, uses);
    free(mds);
    free(uses);
    return rep;
}
