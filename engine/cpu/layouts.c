#include "engine/cpu/layouts.h"

#include "engine/cpu/emit.h"
#include "engine/cpu/reps.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

int convoy_cpu_primary(struct convoy_cpu_lowering *l, int tensor)
{
    struct convoy_cpu_layouts *layouts = &l->tensors[tensor];
    if (layouts->count > 0)
        return layouts->reps[0];
    if (l->graph->tensors[tensor].data == NULL)
        return convoy_fail(l->error, -EINVAL, "node '%s' reads tensor '%s' before it is computed", l->node,
                           l->graph->tensors[tensor].name);
    dnnl_dims_t dims;
    int rank = convoy_cpu_dims(l, tensor, dims);
    dnnl_memory_desc_t md = convoy_cpu_plain_md(rank, dims);
    int rep = convoy_cpu_constant_rep(l, tensor, &md);
    if (rep >= 0)
        convoy_cpu_define(l, tensor, rep);
    return rep;
}

/* True where the bytes lie as in the row-major layout, whatever the description calls it: a blocked layout of
 * whole blocks over 1 x 1 images, or odd strides along dimensions of 1. */
static bool lies_plain(const dnnl_memory_desc_t *md)
{
    if (md->format_kind != dnnl_blocked || md->offset0 != 0 ||
        memcmp(md->dims, md->padded_dims, (size_t)md->ndims * sizeof(md->dims[0])) != 0)
        return false;
    const dnnl_blocking_desc_t *blocking = &md->format_desc.blocking;
    int64_t inner = 1;
    int blocked_axis = -1;
    if (blocking->inner_nblks > 1)
        return false;
    if (blocking->inner_nblks == 1) {
        blocked_axis = (int)blocking->inner_idxs[0];
        inner = blocking->inner_blks[0];
        for (int i = blocked_axis + 1; i < md->ndims; i++)
            if (md->dims[i] != 1)
                return false;
    }
    int64_t stride = 1;
    for (int i = md->ndims - 1; i >= 0; i--) {
        int64_t expected = i == blocked_axis ? stride * inner : stride;
        int64_t blocks = i == blocked_axis ? md->dims[i] / inner : md->dims[i];
        if (blocks != 1 && blocking->strides[i] != expected)
            return false;
        stride *= md->dims[i];
    }
    return true;
}

static bool same_bytes(const dnnl_memory_desc_t *a, const dnnl_memory_desc_t *b)
{
    return a->ndims == b->ndims && memcmp(a->dims, b->dims, (size_t)a->ndims * sizeof(a->dims[0])) == 0 &&
           lies_plain(a) && lies_plain(b);
}

/* The tensor lies in rep, too. */
static void note_use(struct convoy_cpu_lowering *l, int tensor, int rep)
{
    int buffer = l->plan->reps[rep].buffer;
    if (buffer >= 0 && l->groups->last_use[tensor] > l->plan->last_groups[buffer])
        l->plan->last_groups[buffer] = l->groups->last_use[tensor];
}

static void remember(struct convoy_cpu_lowering *l, int tensor, int rep)
{
    struct convoy_cpu_layouts *layouts = &l->tensors[tensor];
    if (layouts->count == CONVOY_CPU_MAX_LAYOUTS)
        return;
    layouts->reps[layouts->count++] = rep;
    note_use(l, tensor, rep);
}

/* An existing representation in layout md, perhaps under another description; -1 where there is none. */
static int find_layout(struct convoy_cpu_lowering *l, int tensor, const dnnl_memory_desc_t *md)
{
    const struct convoy_cpu_layouts *layouts = &l->tensors[tensor];
    for (int i = 0; i < layouts->count; i++)
        if (dnnl_memory_desc_equal(&l->plan->reps[layouts->reps[i]].md, md))
            return layouts->reps[i];
    for (int i = 0; i < layouts->count; i++) {
        if (!same_bytes(&l->plan->reps[layouts->reps[i]].md, md))
            continue;
        int view = convoy_cpu_view(l, layouts->reps[i], md);
        if (view >= 0)
            remember(l, tensor, view);
        return view;
    }
    return -1;
}

/* The input is written by rows.c, which can interleave the channels as well as not: if its first reader wants
 * N H W C and no step has read it row-major, it is written interleaved. */
static bool take_interleaved_input(struct convoy_cpu_lowering *l, int tensor, const dnnl_memory_desc_t *md)
{
    struct convoy_cpu_rep *rep = &l->plan->reps[l->plan->input];
    if (tensor != l->graph->input || rep->md.ndims != 4 || l->graph->tensors[tensor].shape.dims[0] != 1 ||
        l->tensors[tensor].count != 1 || l->plan->buffers[rep->buffer].first != INT_MAX)
        return false;
    for (int i = 0; i < l->plan->rep_count; i++)
        if (i != l->plan->input && l->plan->reps[i].buffer == rep->buffer)
            return false;
    dnnl_memory_desc_t interleaved = convoy_cpu_tag_md(4, rep->md.dims, dnnl_nhwc);
    if (!dnnl_memory_desc_equal(md, &interleaved))
        return false;
    rep->md = interleaved;
    l->plan->input_interleaved = true;
    return true;
}

static int reordered(struct convoy_cpu_lowering *l, int from, const dnnl_memory_desc_t *md)
{
    int to = from < 0 ? from : convoy_cpu_new_rep(l, md);
    if (to < 0)
        return to;
    int failed = convoy_cpu_emit_reorder(l, from, NULL, to);
    return failed ? failed : to;
}

int convoy_cpu_as(struct convoy_cpu_lowering *l, int tensor, const dnnl_memory_desc_t *md)
{
    if (l->graph->tensors[tensor].data != NULL)
        return convoy_cpu_constant_rep(l, tensor, md);
    int rep = find_layout(l, tensor, md);
    if (rep != -1)
        return rep;
    if (take_interleaved_input(l, tensor, md))
        return l->plan->input;
    rep = reordered(l, convoy_cpu_primary(l, tensor), md);
    if (rep >= 0)
        remember(l, tensor, rep);
    return rep;
}

int convoy_cpu_plain(struct convoy_cpu_lowering *l, int tensor)
{
    dnnl_dims_t dims;
    int rank = convoy_cpu_dims(l, tensor, dims);
    dnnl_memory_desc_t md = convoy_cpu_plain_md(rank, dims);
    return convoy_cpu_as(l, tensor, &md);
}

bool convoy_cpu_is_last_use(const struct convoy_cpu_lowering *l, int rep)
{
    int buffer = l->plan->reps[rep].buffer;
    return buffer >= 0 && l->plan->last_groups[buffer] <= l->group;
}

int convoy_cpu_writable(struct convoy_cpu_lowering *l, int tensor, const dnnl_memory_desc_t *md, int reading)
{
    int rep = find_layout(l, tensor, md);
    if (rep < -1)
        return rep;
    if (rep >= 0 && convoy_cpu_is_last_use(l, rep) &&
        l->plan->reps[rep].buffer != l->plan->reps[reading].buffer)
        return rep;
    /* A copy that others would take for the tensor must not be overwritten, so it is not remembered. */
    return reordered(l, rep >= 0 ? rep : convoy_cpu_primary(l, tensor), md);
}

void convoy_cpu_define(struct convoy_cpu_lowering *l, int tensor, int rep)
{
    l->tensors[tensor].count = 1;
    l->tensors[tensor].reps[0] = rep;
    note_use(l, tensor, rep);
}
