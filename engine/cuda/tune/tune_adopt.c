#include "engine/cuda/tune/tune_adopt.h"

#include "engine/cuda/net/net.h"
#include "engine/cuda/plan/bottlenecks.h"
#include "engine/cuda/plan/fusable_prefix.h"

/* Of two buckets. */
struct rows {
    uint32_t own, next;
};

/* A size that is a multiple of the rows of one bucket, in the other; 0: it is no multiple. */
static int64_t scaled(int64_t size, const struct rows *rows)
{
    return size % rows->own == 0 ? size / rows->own * rows->next : 0;
}

/* Notes for `key` what is known for `like`. Returns 1, 0 if there is nothing to note, or -ENOMEM. */
static int adopt(struct convoy_cuda_kernel_choices *choices, const struct convoy_cuda_key *key,
                 const struct convoy_cuda_key *like)
{
    const char *known = convoy_cuda_kernel_choices_get(choices, like);
    if (known == NULL || convoy_cuda_kernel_choices_get(choices, key) != NULL)
        return 0;
    int failed = convoy_cuda_kernel_choices_set(choices, key, known, 0);
    return failed ? failed : 1;
}

static int adopt_step(struct convoy_cuda_kernel_choices *choices, const struct convoy_cuda_step *step,
                      const struct rows *rows)
{
    struct convoy_cuda_key key, like;
    if (step->kind == CONVOY_CUDA_CONV) {
        struct convoy_conv_shape shape = step->conv.shape;
        convoy_cuda_conv_key(&shape, &key);
        shape.n = (int)scaled(shape.n, rows);
        convoy_cuda_conv_key(&shape, &like);
    } else if (step->kind == CONVOY_CUDA_GEMM) {
        struct convoy_gemm_shape shape = step->gemm.shape;
        convoy_cuda_gemm_key(&shape, &key);
        if (shape.batch > 1)
            shape.batch = (int)scaled(shape.batch, rows);
        else
            shape.m = scaled(shape.m, rows);
        convoy_cuda_gemm_key(&shape, &like);
    } else {
        return 0;
    }
    return adopt(choices, &key, &like);
}

static int adopt_bottleneck(struct convoy_cuda_kernel_choices *choices, struct convoy_bottleneck_shape shape,
                            const struct rows *rows)
{
    struct convoy_cuda_key key, like;
    convoy_cuda_bottleneck_key(&shape, &key);
    shape.n = (int)scaled(shape.n, rows);
    convoy_cuda_bottleneck_key(&shape, &like);
    return adopt(choices, &key, &like);
}

static int adopt_fused(struct convoy_cuda_kernel_choices *choices, const struct convoy_cuda_source *source,
                       enum convoy_input_layout layout, const struct rows *rows)
{
    struct convoy_cuda_fusable_prefix prefix;
    struct convoy_cuda_key key, like;
    convoy_cuda_find_fusable_prefix(source, CONVOY_FUSED_ALL, &prefix);
    if (prefix.count == 0)
        return 0;
    convoy_cuda_fused_key(source, &prefix, rows->own, layout, &key);
    convoy_cuda_fused_key(source, &prefix, rows->next, layout, &like);
    return adopt(choices, &key, &like);
}

/* Adds what an adoption returned; false after a failure. */
static bool count(int adopted, int *noted)
{
    *noted = adopted < 0 ? adopted : *noted + adopted;
    return adopted >= 0;
}

int convoy_cuda_tune_adopt(const struct convoy_net *net, int bucket,
                           struct convoy_cuda_kernel_choices *choices)
{
    const struct convoy_cuda_bucket *own = &net->buckets[bucket];
    const struct convoy_cuda_bucket *next = own + 1;
    while (next->between)
        next++;
    const struct rows rows = {own->rows, next->rows};
    int noted = 0;
    for (int i = 0; i < CONVOY_ROW_LAYOUTS; i++) {
        enum convoy_input_layout layout = (enum convoy_input_layout)i;
        const struct convoy_cuda_plan *plan = &own->plans[i];
        if (plan->step_count == 0)
            continue;
        if (!count(adopt_fused(choices, &net->source, layout, &rows), &noted))
            return noted;
        for (int k = 0; k < plan->bottleneck_count; k++)
            if (!count(adopt_bottleneck(choices, plan->bottlenecks[k].shape, &rows), &noted))
                return noted;
        for (int k = 0; k < plan->step_count; k++)
            if (!count(adopt_step(choices, &plan->steps[k], &rows), &noted))
                return noted;
    }
    return noted;
}
