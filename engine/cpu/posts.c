#include "engine/cpu/posts.h"

#include "engine/cpu/check.h"
#include "engine/cpu/emit.h"
#include "engine/cpu/layouts.h"
#include "engine/cpu/reps.h"

static int emit_eltwise(struct convoy_cpu_lowering *l, const struct convoy_cpu_post *post, int from, int to)
{
    dnnl_eltwise_desc_t op;
    dnnl_primitive_desc_t description = NULL;
    int fused = 0;
    int failed =
        convoy_cpu_check(dnnl_eltwise_forward_desc_init(&op, dnnl_forward_inference, post->algorithm,
                                                        &l->plan->reps[from].md, post->alpha, post->beta),
                         l->error, l->node, "describe an elementwise function");
    if (failed || (failed = convoy_cpu_choose(l, &op, NULL, 0, &description, &fused)))
        return failed;
    convoy_cpu_name_kernel(l, convoy_cpu_implementation(description));
    struct convoy_cpu_use uses[2] = {{DNNL_ARG_SRC, from}, {DNNL_ARG_DST, to}};
    return convoy_cpu_emit(l, description, uses, 2);
}

static int emit_sum(struct convoy_cpu_lowering *l, const struct convoy_cpu_post *post, int rep)
{
    dnnl_binary_desc_t op;
    dnnl_primitive_desc_t description = NULL;
    int fused = 0;
    dnnl_memory_desc_t md = l->plan->reps[rep].md;
    int other = convoy_cpu_as(l, post->tensor, &md);
    if (other < 0)
        return other;
    int failed = convoy_cpu_check(dnnl_binary_desc_init(&op, dnnl_binary_add, &md, &md, &md), l->error,
                                  l->node, "describe a sum");
    if (failed || (failed = convoy_cpu_choose(l, &op, NULL, 0, &description, &fused)))
        return failed;
    struct convoy_cpu_use uses[3] = {{DNNL_ARG_SRC_0, rep}, {DNNL_ARG_SRC_1, other}, {DNNL_ARG_DST, rep}};
    return convoy_cpu_emit(l, description, uses, 3);
}

static int emit_swish(struct convoy_cpu_lowering *l, int from, int to)
{
    int64_t bytes = (int64_t)dnnl_memory_desc_get_size(&l->plan->reps[from].md);
    struct convoy_cpu_step step = {.kind = CONVOY_CPU_SWISH_LOOP,
                                   .swish_count = bytes / (int64_t)sizeof(float)};
    convoy_cpu_name_kernel(l, "loop");
    struct convoy_cpu_use uses[2] = {{0, from}, {0, to}};
    return convoy_cpu_emit_loop(l, &step, uses, 2);
}

static int emit_post(struct convoy_cpu_lowering *l, const struct convoy_cpu_post *post, int from, int to)
{
    if (post->kind == CONVOY_CPU_SUM)
        return emit_sum(l, post, to);
    return convoy_cpu_is_swish_loop(post) ? emit_swish(l, from, to) : emit_eltwise(l, post, from, to);
}

int convoy_cpu_emit_posts(struct convoy_cpu_lowering *l, const struct convoy_cpu_group *group, int first,
                          int rep)
{
    int from = rep;
    int to = rep;
    if (group->elementwise && first == 0 && !convoy_cpu_is_last_use(l, rep)) {
        dnnl_memory_desc_t md = l->plan->reps[rep].md;
        to = convoy_cpu_new_rep(l, &md);
        if (to < 0)
            return to;
    }
    for (int i = first; i < group->post_count; i++) {
        int failed = emit_post(l, &group->posts[i], from, to);
        if (failed)
            return failed;
        from = to;
    }
    return to;
}
