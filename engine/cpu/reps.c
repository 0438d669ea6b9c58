#include "engine/cpu/reps.h"

#include <errno.h>
#include <string.h>

int convoy_cpu_dims(const struct convoy_cpu_lowering *l, int tensor, dnnl_dims_t dims)
{
    const struct convoy_shape *shape = &l->graph->tensors[tensor].shape;
    for (int i = 0; i < shape->rank; i++)
        dims[i] = shape->dims[i] * (i == shape->batch_axis ? l->plan->rows : 1);
    if (shape->rank > 0)
        return shape->rank;
    dims[0] = 1;
    return 1;
}

/* The descriptions below cannot fail: ranks are at most CONVOY_MAX_RANK and dimensions positive (load
 * checks). */
dnnl_memory_desc_t convoy_cpu_plain_md(int rank, const int64_t *dims)
{
    dnnl_memory_desc_t md;
    dnnl_dims_t strides;
    strides[rank - 1] = 1;
    for (int i = rank - 1; i > 0; i--)
        strides[i - 1] = strides[i] * dims[i];
    memset(&md, 0, sizeof(md));
    dnnl_memory_desc_init_by_strides(&md, rank, dims, dnnl_f32, strides);
    return md;
}

dnnl_memory_desc_t convoy_cpu_tag_md(int rank, const int64_t *dims, dnnl_format_tag_t tag)
{
    dnnl_memory_desc_t md;
    memset(&md, 0, sizeof(md));
    dnnl_memory_desc_init_by_tag(&md, rank, dims, dnnl_f32, tag);
    return md;
}

dnnl_memory_desc_t convoy_cpu_any_md(int rank, const int64_t *dims)
{
    return convoy_cpu_tag_md(rank, dims, dnnl_format_tag_any);
}

static int no_memory(const struct convoy_cpu_lowering *l)
{
    return convoy_fail(l->error, -ENOMEM, "node '%s': no memory for its plan", l->node);
}

int convoy_cpu_new_rep(struct convoy_cpu_lowering *l, const dnnl_memory_desc_t *md)
{
    int buffer = convoy_cpu_plan_add_buffer(l->plan, dnnl_memory_desc_get_size(md));
    int rep = buffer < 0 ? buffer : convoy_cpu_plan_add_rep(l->plan, md, buffer, NULL);
    return rep < 0 ? no_memory(l) : rep;
}

int convoy_cpu_view(struct convoy_cpu_lowering *l, int rep, const dnnl_memory_desc_t *md)
{
    if (rep < 0)
        return rep;
    int buffer = l->plan->reps[rep].buffer;
    void *constant = l->plan->reps[rep].constant;
    int view = convoy_cpu_plan_add_rep(l->plan, md, buffer, constant);
    return view < 0 ? no_memory(l) : view;
}

int convoy_cpu_constant_rep(struct convoy_cpu_lowering *l, int tensor, const dnnl_memory_desc_t *md)
{
    dnnl_memory_desc_t from = convoy_cpu_plain_md(md->ndims, md->dims);
    const void *data = NULL;
    int failed = convoy_cpu_constants_get(l->constants, l->graph->tensors[tensor].data, &from, md, l->node,
                                          &data, l->error);
    if (failed)
        return failed;
    int rep = convoy_cpu_plan_add_rep(l->plan, md, -1, (void *)(uintptr_t)data);
    return rep < 0 ? no_memory(l) : rep;
}
