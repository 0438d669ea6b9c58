#include "engine/cpu/emit.h"

#include "engine/cpu/check.h"
#include "engine/cpu/reps.h"
#include "engine/cpu/swish.h"

#include <stdio.h>
#include <string.h>

const char *convoy_cpu_implementation(const_dnnl_primitive_desc_t description)
{
    const char *text = NULL;
    if (dnnl_primitive_desc_query(description, dnnl_query_impl_info_str, 0, (void *)&text) != dnnl_success ||
        text == NULL)
        return "unknown";
    return text;
}

bool convoy_cpu_is_reference(const_dnnl_primitive_desc_t description)
{
    return strncmp(convoy_cpu_implementation(description), "ref", 3) == 0;
}

/* Attributes: our scratchpad instead of oneDNN's own, and the first `count` posts. */
static dnnl_status_t make_attributes(const struct convoy_cpu_post *posts, int count,
                                     dnnl_primitive_attr_t *attributes)
{
    dnnl_post_ops_t ops = NULL;
    *attributes = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(attributes);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(*attributes, dnnl_scratchpad_mode_user);
    if (status == dnnl_success && count > 0)
        status = dnnl_post_ops_create(&ops);
    for (int i = 0; i < count && status == dnnl_success; i++) {
        if (posts[i].kind == CONVOY_CPU_SUM)
            status = dnnl_post_ops_append_sum(ops, 1.0f);
        else
            status =
                dnnl_post_ops_append_eltwise(ops, 1.0f, posts[i].algorithm, posts[i].alpha, posts[i].beta);
    }
    if (status == dnnl_success && count > 0)
        status = dnnl_primitive_attr_set_post_ops(*attributes, ops);
    dnnl_post_ops_destroy(ops);
    return status;
}

static dnnl_status_t describe(const struct convoy_cpu_lowering *l, const_dnnl_op_desc_t op_desc,
                              const struct convoy_cpu_post *posts, int count,
                              dnnl_primitive_desc_t *description)
{
    dnnl_primitive_attr_t attributes = NULL;
    *description = NULL;
    dnnl_status_t status = make_attributes(posts, count, &attributes);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(description, op_desc, attributes, l->constants->engine, NULL);
    dnnl_primitive_attr_destroy(attributes);
    return status;
}

bool convoy_cpu_is_swish_loop(const struct convoy_cpu_post *post)
{
    return post->kind == CONVOY_CPU_ELTWISE && post->algorithm == dnnl_eltwise_swish && post->alpha == 1 &&
           convoy_cpu_swish_suits();
}

/* oneDNN (2.7) keeps the numbers of its elementwise functions in one table by function: of two `linear`, two
 * `clip` or two `relu` in one primitive both compute with the numbers of one. Returns how many posts come
 * before the first that would meet its like with other numbers, or that is a loop. */
static int fusable_posts(const struct convoy_cpu_post *posts, int count)
{
    for (int i = 0; i < count; i++) {
        if (convoy_cpu_is_swish_loop(&posts[i]))
            return i;
        for (int k = 0; k < i; k++)
            if (posts[i].kind == CONVOY_CPU_ELTWISE && posts[k].kind == CONVOY_CPU_ELTWISE &&
                posts[i].algorithm == posts[k].algorithm &&
                (posts[i].alpha != posts[k].alpha || posts[i].beta != posts[k].beta))
                return i;
    }
    return count;
}

int convoy_cpu_choose(struct convoy_cpu_lowering *l, const_dnnl_op_desc_t op_desc,
                      const struct convoy_cpu_post *posts, int post_count, dnnl_primitive_desc_t *description,
                      int *fused)
{
    dnnl_status_t status = dnnl_success;
    *description = NULL;
    *fused = 0;
    for (int count = fusable_posts(posts, post_count); count >= 0; count--) {
        dnnl_primitive_desc_t candidate = NULL;
        status = describe(l, op_desc, posts, count, &candidate);
        if (status != dnnl_success)
            continue;
        /* The first that is found fuses most. A later one is better only by leaving the reference code. */
        if (*description == NULL || !convoy_cpu_is_reference(candidate)) {
            dnnl_primitive_desc_destroy(*description);
            *description = candidate;
            *fused = count;
        } else {
            dnnl_primitive_desc_destroy(candidate);
        }
        if (!convoy_cpu_is_reference(*description))
            break;
    }
    if (*description != NULL)
        return 0;
    return convoy_cpu_check(status, l->error, l->node,
                            l->graph->nodes[l->groups->groups[l->group].anchor].onnx_op);
}

static int add_step(struct convoy_cpu_lowering *l, struct convoy_cpu_step *step,
                    const struct convoy_cpu_use *uses, int use_count)
{
    step->group = l->group > 0 ? l->group : 0;
    step->threads = l->threads;
    int index = convoy_cpu_plan_add_step(l->plan, step, uses, use_count);
    if (index < 0)
        return convoy_fail(l->error, index, "node '%s': no memory for its plan", l->node);
    return 0;
}

int convoy_cpu_emit(struct convoy_cpu_lowering *l, dnnl_primitive_desc_t description,
                    const struct convoy_cpu_use *uses, int use_count)
{
    struct convoy_cpu_step step = {.kind = CONVOY_CPU_PRIMITIVE};
    const dnnl_memory_desc_t *scratch =
        dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
    if (scratch != NULL)
        step.scratch_md = *scratch;
    dnnl_status_t status = dnnl_primitive_create(&step.primitive, description);
    dnnl_primitive_desc_destroy(description);
    int failed = convoy_cpu_check(status, l->error, l->node, "make a primitive");
    if (!failed)
        failed = add_step(l, &step, uses, use_count);
    if (failed)
        dnnl_primitive_destroy(step.primitive);
    return failed;
}

int convoy_cpu_emit_loop(struct convoy_cpu_lowering *l, struct convoy_cpu_step *step,
                         const struct convoy_cpu_use *uses, int use_count)
{
    return add_step(l, step, uses, use_count);
}

int convoy_cpu_emit_reorder(struct convoy_cpu_lowering *l, int from, const dnnl_memory_desc_t *from_md,
                            int to)
{
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_primitive_desc_t description = NULL;
    dnnl_engine_t engine = l->constants->engine;
    int source = from;
    if (from_md != NULL) {
        source = convoy_cpu_view(l, from, from_md);
        if (source < 0)
            return source;
    }
    dnnl_status_t status = make_attributes(NULL, 0, &attributes);
    if (status == dnnl_success)
        status = dnnl_reorder_primitive_desc_create(&description, &l->plan->reps[source].md, engine,
                                                    &l->plan->reps[to].md, engine, attributes);
    dnnl_primitive_attr_destroy(attributes);
    int failed = convoy_cpu_check(status, l->error, l->node, "reorder a tensor");
    if (failed)
        return failed;
    struct convoy_cpu_use uses[2] = {{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, to}};
    return convoy_cpu_emit(l, description, uses, 2);
}

void convoy_cpu_name_kernel(struct convoy_cpu_lowering *l, const char *text)
{
    struct convoy_cpu_kernel *kernel = &l->kernels[l->group];
    const struct convoy_cpu_group *group = &l->groups->groups[l->group];
    if (kernel->text[0] != '\0')
        return;
    int length = snprintf(kernel->text, sizeof(kernel->text), "%s", text);
    for (int i = 0; i < group->post_count && length < (int)sizeof(kernel->text); i++)
        if (group->posts[i].label != NULL)
            length += snprintf(kernel->text + length, sizeof(kernel->text) - (size_t)length, "+%s",
                               group->posts[i].label);
}
