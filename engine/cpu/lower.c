#include "engine/cpu/lower.h"

#include "engine/cpu/layouts.h"
#include "engine/cpu/lower_internal.h"
#include "engine/cpu/openmp.h"
#include "engine/cpu/posts.h"
#include "engine/cpu/reps.h"
#include "engine/cpu/work.h"

#include <errno.h>
#include <stdlib.h>

static int lower_anchor(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group, int *fused)
{
    const struct convoy_node *node = &l->graph->nodes[group->anchor];
    *fused = 0;
    if (group->elementwise)
        return convoy_cpu_primary(l, group->source);
    switch (node->op) {
    case CONVOY_OP_CONV:
        return convoy_cpu_lower_conv(l, group, fused);
    case CONVOY_OP_DENSE:
        return convoy_cpu_lower_dense(l, group, fused);
    case CONVOY_OP_MATMUL:
        return convoy_cpu_lower_matmul(l, group, fused);
    case CONVOY_OP_SCALE_SHIFT:
        return convoy_cpu_lower_scale_shift(l, group, fused);
    case CONVOY_OP_POOL:
        return convoy_cpu_lower_pool(l, group, fused);
    case CONVOY_OP_BINARY:
        return convoy_cpu_lower_binary(l, group, fused);
    case CONVOY_OP_PAD:
        return convoy_cpu_lower_pad(l, group);
    case CONVOY_OP_RESHAPE:
        return convoy_cpu_lower_reshape(l, group);
    case CONVOY_OP_TRANSPOSE:
        return convoy_cpu_lower_transpose(l, group);
    case CONVOY_OP_CONCAT:
        return convoy_cpu_lower_concat(l, group);
    case CONVOY_OP_SOFTMAX:
        return convoy_cpu_lower_softmax(l, group);
    case CONVOY_OP_ACTIVATION:
        return convoy_cpu_lower_unary(l, group);
    case CONVOY_OP_NORMALIZE:
        return convoy_cpu_lower_normalize(l, group);
    case CONVOY_OP_TOP:
        return convoy_cpu_lower_top(l, group);
    default:
        return convoy_fail(l->error, -ENOTSUP,
                           "node '%s': the CPU backend has no %s (%s); export the model without it",
                           node->name, convoy_op_name(node->op), node->onnx_op);
    }
}

/* Handing a step to threads and waiting for them takes some microseconds, and where they have fallen asleep
 * tens of them. Steps of less work (some 15 us on one core) run on the calling thread. */
#define LITTLE_WORK 100000

static int threads_of(const struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group)
{
    double work = convoy_cpu_node_work(l->graph, &l->graph->nodes[group->anchor]);
    work += (double)convoy_shape_elements(&l->graph->tensors[group->source].shape);
    work += (double)convoy_shape_elements(&l->graph->tensors[group->output].shape);
    return work * (double)l->plan->rows < LITTLE_WORK ? 1 : l->plan->threads;
}

/* What is lowered from here on runs on so many threads; primitives are made for the size of the team. */
static void set_threads(struct convoy_cpu_lowering *l, int threads)
{
    l->threads = threads;
    omp_set_num_threads(threads);
}

static int lower_group(struct convoy_cpu_lowering *l, int index)
{
    const struct convoy_cpu_group *group = &l->groups->groups[index];
    int fused = 0;
    l->group = index;
    l->node = l->graph->nodes[group->anchor].name;
    set_threads(l, threads_of(l, group));
    int rep = lower_anchor(l, group, &fused);
    if (rep >= 0)
        rep = convoy_cpu_emit_posts(l, group, fused, rep);
    if (rep < 0)
        return rep;
    convoy_cpu_define(l, group->output, rep);
    return 0;
}

static int lower_input(struct convoy_cpu_lowering *l)
{
    dnnl_dims_t dims;
    int rank = convoy_cpu_dims(l, l->graph->input, dims);
    dnnl_memory_desc_t md = convoy_cpu_plain_md(rank, dims);
    int rep = convoy_cpu_new_rep(l, &md);
    if (rep < 0)
        return rep;
    l->plan->input = rep;
    convoy_cpu_define(l, l->graph->input, rep);
    return 0;
}

static int lower_outputs(struct convoy_cpu_lowering *l)
{
    l->group = l->groups->count - 1;
    l->node = "outputs";
    set_threads(l, l->plan->threads);
    for (int i = 0; i < l->graph->output_count; i++) {
        int rep = convoy_cpu_plain(l, l->graph->outputs[i]);
        if (rep < 0)
            return rep;
        l->plan->outputs[i] = rep;
    }
    return 0;
}

int convoy_cpu_lower(const struct convoy_graph *graph, const struct convoy_cpu_groups *groups,
                     struct convoy_cpu_constants *constants, struct convoy_cpu_plan *plan,
                     struct convoy_cpu_kernel *kernels, struct convoy_error *error)
{
    struct convoy_cpu_lowering l = {.graph = graph,
                                    .groups = groups,
                                    .constants = constants,
                                    .plan = plan,
                                    .kernels = kernels,
                                    .error = error,
                                    .threads = plan->threads,
                                    .node = "input"};
    for (int i = 0; i < CONVOY_MAX_OUTPUTS; i++)
        plan->outputs[i] = -1;
    l.tensors = calloc((size_t)graph->tensor_count + 1, sizeof(l.tensors[0]));
    if (l.tensors == NULL)
        return convoy_fail(error, -ENOMEM, "no memory to lower %d tensors", graph->tensor_count);
    int failed = lower_input(&l);
    for (int i = 0; i < groups->count && !failed; i++)
        failed = lower_group(&l, i);
    if (!failed)
        failed = lower_outputs(&l);
    free(l.tensors);
    return failed;
}
