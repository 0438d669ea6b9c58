#include "engine/base/hash.h"
#include "engine/cuda/plan/fusable_prefix.h"
#include "engine/cuda/plan/lower_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The key of a constant that was made for a prefix. what, number: its purpose, and its kernel or precision.
 */
static uint64_t key_of(const struct convoy_cuda_fusable_prefix *prefix, const char *what, int number)
{
    uint64_t hash = convoy_cuda_prefix_fingerprint(prefix);
    hash = convoy_hash(hash, what, strlen(what));
    return convoy_hash(hash, &number, sizeof(number));
}

struct packing {
    const struct convoy_fused_plan *plan;
    const struct convoy_fused_shape *shape;
    void *packed;
};

static void pack(void *argument)
{
    const struct packing *packing = argument;
    convoy_fused_pack_weights(packing->plan, packing->shape, packing->packed);
}

/* The packed weights; kernels of one precision and weight form share them. */
static int place_weights(struct convoy_cuda_lowering *l, const struct convoy_cuda_fusable_prefix *prefix,
                         const struct convoy_fused_shape *shape, struct convoy_cuda_fused_step *step)
{
    int code = 0;
    uint64_t key =
        key_of(prefix, "weights", (int)step->kernel->compute_type + 3 * convoy_fused_weight_form(step->plan));
    step->weights.where = CONVOY_CUDA_CONSTANT;
    step->weights.constant = convoy_cuda_weights_find(l->source->weights, key);
    if (step->weights.constant != NULL)
        return 0;
    size_t bytes = convoy_fused_weight_bytes(step->plan);
    void *packed = calloc(bytes, 1);
    if (packed == NULL)
        return convoy_fail(l->error, -ENOMEM, "no memory to lay out %zu bytes of weights", bytes);
    struct packing packing = {step->plan, shape, packed};
    convoy_cuda_weights_lay_out(l->source->weights, bytes, pack, &packing);
    step->weights.constant = convoy_cuda_weights_add(l->source->weights, key, packed, bytes, &code, l->error);
    free(packed);
    return code;
}

/* The tables of the kernel; all sizes of batch share them. */
static int place_tables(struct convoy_cuda_lowering *l, const struct convoy_cuda_fusable_prefix *prefix,
                        struct convoy_cuda_fused_step *step)
{
    int code = 0;
    uint64_t key = key_of(prefix, step->kernel->name, 0);
    step->tables.where = CONVOY_CUDA_CONSTANT;
    step->tables.constant = convoy_cuda_weights_find(l->source->weights, key);
    if (step->tables.constant == NULL)
        step->tables.constant =
            convoy_cuda_weights_add(l->source->weights, key, convoy_fused_tables(step->plan),
                                    convoy_fused_table_bytes(step->plan), &code, l->error);
    return code;
}

/* True if the result can go straight to the output rows: it is the only output of the network. */
static bool ends_in_rows(const struct convoy_cuda_lowering *l,
                         const struct convoy_cuda_fusable_prefix *prefix)
{
    const struct convoy_graph *graph = l->graph;
    return graph->output_count == 1 && graph->outputs[0] == prefix->output &&
           graph->tensors[prefix->output].shape.batch_axis == 0 &&
           graph->tensors[prefix->output].shape.dims[0] == 1;
}

int convoy_cuda_lower_fused(struct convoy_cuda_lowering *l, int *groups, bool *done)
{
    struct convoy_cuda_fusable_prefix prefix;
    struct convoy_cuda_step *step;
    const struct convoy_fused_kernel *kernel =
        convoy_cuda_fused_chosen(l->source, l->plan->rows, l->plan->layout);
    *groups = 0;
    *done = false;
    if (kernel == NULL)
        return 0;
    convoy_cuda_find_fusable_prefix(l->source, kernel->span, &prefix);
    if (prefix.count == 0)
        return 0;
    struct convoy_fused_shape shape =
        convoy_cuda_fused_shape(l->source, &prefix, l->plan->rows, l->plan->layout);
    bool rows = ends_in_rows(l, &prefix);
    shape.y_stride = rows ? (int64_t)(convoy_cuda_output_stride(l->source) / sizeof(float))
                          : convoy_shape_elements(&l->graph->tensors[prefix.output].shape);
    struct convoy_fused_plan *plan = NULL;
    if (convoy_fused_plan_make(kernel, &shape, true, &plan) != 0)
        return convoy_fail(l->error, -ENOMEM, "no memory to plan %d layers", prefix.count);
    if (plan == NULL) /* not on this device, perhaps: run layer by layer */
        return 0;
    l->group = 0;
    int code = convoy_cuda_step(l, CONVOY_CUDA_FUSED, &step);
    if (code) {
        convoy_fused_plan_free(plan);
        return code;
    }
    step->fused.plan = plan; /* owned by the step from here on */
    step->fused.kernel = kernel;
    step->fused.groups = prefix.groups;
    step->fused.images = convoy_cuda_images(l->source, l->plan->layout);
    step->x.where = step->y.where = CONVOY_CUDA_WORKSPACE;
    code = place_weights(l, &prefix, &shape, &step->fused);
    if (code == 0)
        code = place_tables(l, &prefix, &step->fused);
    l->group = prefix.groups - 1;
    if (code == 0)
        code = convoy_cuda_scratch(l, convoy_fused_scratch_bytes(plan), &step->fused.scratch);
    if (rows)
        step->y.offset = l->plan->input_bytes;
    else if (code == 0)
        code = convoy_cuda_writes(l, prefix.output, &step->y);
    *groups = prefix.groups;
    *done = rows;
    return code;
}
