/* Sums, differences, products and the like of two tensors. */
#include "engine/cpu/check.h"
#include "engine/cpu/emit.h"
#include "engine/cpu/layouts.h"
#include "engine/cpu/lower_internal.h"
#include "engine/cpu/reps.h"

#include <string.h>

/* dnnl_alg_kind_undef (0): a loop. */
static dnnl_alg_kind_t algorithm(enum convoy_binary_kind kind)
{
    static const dnnl_alg_kind_t algorithms[CONVOY_BINARY_KINDS] = {
        [CONVOY_ADD] = dnnl_binary_add, [CONVOY_SUB] = dnnl_binary_sub, [CONVOY_MUL] = dnnl_binary_mul,
        [CONVOY_DIV] = dnnl_binary_div, [CONVOY_MAX] = dnnl_binary_max, [CONVOY_MIN] = dnnl_binary_min};
    return algorithms[kind];
}

/* How many posts may go into a binary function of tensors of layout md: oneDNN (2.7, on AVX2) computes them
 * wrongly where the last block of channels is filled up. */
static int fusable_posts(const struct convoy_cpu_group *group, const dnnl_memory_desc_t *md)
{
    bool filled_up = memcmp(md->dims, md->padded_dims, (size_t)md->ndims * sizeof(md->dims[0])) != 0;
    return filled_up ? 0 : group->post_count;
}

/* Equal shapes: oneDNN, in the first operand's layout and, where it dies, in its place. */
static int lower_equal(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group, int a, int b,
                       int *fused)
{
    const struct convoy_node *node = &l->graph->nodes[group->anchor];
    dnnl_binary_desc_t op;
    dnnl_primitive_desc_t description = NULL;
    int x = convoy_cpu_primary(l, a);
    if (x < 0)
        return x;
    dnnl_memory_desc_t md = l->plan->reps[x].md;
    int z = convoy_cpu_as(l, b, &md);
    if (z < 0)
        return z;
    int failed = convoy_cpu_check(dnnl_binary_desc_init(&op, algorithm(node->binary), &md, &md, &md),
                                  l->error, l->node, "describe a binary function");
    if (failed ||
        (failed = convoy_cpu_choose(l, &op, group->posts, fusable_posts(group, &md), &description, fused)))
        return failed;
    convoy_cpu_name_kernel(l, convoy_cpu_implementation(description));
    int y = convoy_cpu_is_last_use(l, x) && l->plan->reps[x].buffer != l->plan->reps[z].buffer
                ? x
                : convoy_cpu_new_rep(l, &md);
    if (y < 0) {
        dnnl_primitive_desc_destroy(description);
        return y;
    }
    struct convoy_cpu_use uses[3] = {{DNNL_ARG_SRC_0, x}, {DNNL_ARG_SRC_1, z}, {DNNL_ARG_DST, y}};
    failed = convoy_cpu_emit(l, description, uses, 3);
    return failed ? failed : y;
}

/* The layouts in which a value per channel is a simple loop; sets its inner block. */
static bool find_channel_layout(const dnnl_memory_desc_t *md, dnnl_format_tag_t *tag, int64_t *inner)
{
    const dnnl_format_tag_t tags[] = {dnnl_nchw, dnnl_nhwc, dnnl_nChw8c, dnnl_nChw16c};
    const int64_t inners[] = {1, md->dims[1], 8, 16};
    for (int i = 0; i < 4; i++) {
        dnnl_memory_desc_t candidate = convoy_cpu_tag_md(4, md->dims, tags[i]);
        if (dnnl_memory_desc_equal(md, &candidate)) {
            *tag = tags[i];
            *inner = inners[i];
            return true;
        }
    }
    return false;
}

/* Can `gate` be seen as N C 1 1 or 1 C 1 1 against the image x? Fills its dimensions. */
static bool is_gate(const struct convoy_cpu_lowering *l, int x, int gate, dnnl_dims_t gate_dims)
{
    dnnl_dims_t dims;
    dnnl_dims_t raw;
    int rank = convoy_cpu_dims(l, gate, raw);
    if (convoy_cpu_dims(l, x, dims) != 4 || rank > 4)
        return false;
    if (rank < 4 && l->graph->tensors[gate].data == NULL)
        return false; /* an activation is taken in the layout it has, so it must have the image's rank */
    for (int i = 0; i < 4; i++)
        gate_dims[i] = i < 4 - rank ? 1 : raw[i - (4 - rank)];
    return gate_dims[1] == dims[1] && gate_dims[2] == 1 && gate_dims[3] == 1 && dims[1] > 1 &&
           (gate_dims[0] == 1 || gate_dims[0] == dims[0]);
}

/* One value per channel: squeeze-and-excitation gates and per-channel constants, in the image's own layout.
 * Returns -1 where the layout is none that the loop knows. */
static int lower_gate(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group, int image,
                      int gate, const dnnl_dims_t gate_dims)
{
    const struct convoy_node *node = &l->graph->nodes[group->anchor];
    dnnl_format_tag_t tag = dnnl_nchw;
    int64_t inner = 1;
    int x = convoy_cpu_primary(l, image);
    if (x < 0)
        return x;
    dnnl_memory_desc_t md = l->plan->reps[x].md;
    if (!find_channel_layout(&md, &tag, &inner))
        return -1;
    /* The channels that fill up a block are zero in both, and must be zero in the result: 0 / 0 is not. */
    bool zero_stays = algorithm(node->binary) != dnnl_alg_kind_undef && node->binary != CONVOY_DIV;
    if (!zero_stays && md.dims[1] % inner != 0)
        return -1;
    dnnl_memory_desc_t gate_md = convoy_cpu_tag_md(4, gate_dims, tag);
    int g = convoy_cpu_as(l, gate, &gate_md);
    if (g < 0)
        return g;
    int y = convoy_cpu_is_last_use(l, x) && l->plan->reps[x].buffer != l->plan->reps[g].buffer
                ? x
                : convoy_cpu_new_rep(l, &md);
    if (y < 0)
        return y;
    int64_t blocks = md.padded_dims[1] / inner;
    struct convoy_cpu_step step = {.kind = CONVOY_CPU_GATE_LOOP,
                                   .gate = {.kind = node->binary,
                                            .outer = md.dims[0] * blocks,
                                            .middle = md.dims[2] * md.dims[3],
                                            .inner = inner,
                                            .gate_outer = gate_dims[0] * blocks}};
    struct convoy_cpu_use uses[3] = {{0, x}, {0, g}, {0, y}};
    int failed = convoy_cpu_emit_loop(l, &step, uses, 3);
    convoy_cpu_name_kernel(l, "loop:channel");
    return failed ? failed : y;
}

static void broadcast_strides(const struct convoy_cpu_lowering *l, int tensor, int rank, int64_t *strides)
{
    dnnl_dims_t dims;
    int own = convoy_cpu_dims(l, tensor, dims);
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        int axis = i - (rank - own);
        int64_t size = axis >= 0 ? dims[axis] : 1;
        strides[i] = size == 1 ? 0 : stride;
        stride *= size;
    }
}

static int lower_broadcast(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group, int a, int b)
{
    const struct convoy_node *node = &l->graph->nodes[group->anchor];
    dnnl_dims_t dims;
    int rank = convoy_cpu_dims(l, node->output, dims);
    int x = convoy_cpu_plain(l, a);
    int z = x < 0 ? x : convoy_cpu_plain(l, b);
    if (z < 0)
        return z;
    dnnl_memory_desc_t md = convoy_cpu_plain_md(rank, dims);
    int y = convoy_cpu_new_rep(l, &md);
    if (y < 0)
        return y;
    struct convoy_cpu_step step = {.kind = CONVOY_CPU_BROADCAST_LOOP,
                                   .broadcast = {.kind = node->binary, .rank = rank}};
    memcpy(step.broadcast.dims, dims, (size_t)rank * sizeof(dims[0]));
    broadcast_strides(l, a, rank, step.broadcast.a_stride);
    broadcast_strides(l, b, rank, step.broadcast.b_stride);
    struct convoy_cpu_use uses[3] = {{0, x}, {0, z}, {0, y}};
    int failed = convoy_cpu_emit_loop(l, &step, uses, 3);
    convoy_cpu_name_kernel(l, "loop:broadcast");
    return failed ? failed : y;
}

static bool equal_dims(const struct convoy_cpu_lowering *l, int a, int b)
{
    dnnl_dims_t x;
    dnnl_dims_t z;
    int rank = convoy_cpu_dims(l, a, x);
    return convoy_cpu_dims(l, b, z) == rank && memcmp(x, z, (size_t)rank * sizeof(x[0])) == 0;
}

int convoy_cpu_lower_binary(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group, int *fused)
{
    const struct convoy_node *node = &l->graph->nodes[group->anchor];
    int a = node->inputs[0];
    int b = node->inputs[1];
    bool commutes = node->binary == CONVOY_ADD || node->binary == CONVOY_MUL || node->binary == CONVOY_MAX ||
                    node->binary == CONVOY_MIN;
    bool drops_nan = node->binary == CONVOY_MAX || node->binary == CONVOY_MIN; /* oneDNN does */
    *fused = 0;
    if (equal_dims(l, a, b) && algorithm(node->binary) != dnnl_alg_kind_undef &&
        !(drops_nan && l->groups->keeps_nan)) {
        if (commutes && l->graph->tensors[a].data != NULL) { /* the activation's layout is the one to keep */
            a = node->inputs[1];
            b = node->inputs[0];
        }
        return lower_equal(l, group, a, b, fused);
    }
    dnnl_dims_t gate_dims;
    int rep = -1;
    if (equal_dims(l, a, node->output) && is_gate(l, a, b, gate_dims))
        rep = lower_gate(l, group, a, b, gate_dims);
    else if (commutes && equal_dims(l, b, node->output) && is_gate(l, b, a, gate_dims))
        rep = lower_gate(l, group, b, a, gate_dims);
    if (rep != -1)
        return rep;
    return lower_broadcast(l, group, a, b);
}
