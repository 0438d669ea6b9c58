/* Groups that compute some rows alone (picks.h). What is there as a whole is copied for them: before the
 * first of them, so that a dense layer among them can add it. */
#include "engine/cuda/plan/lower_internal.h"
#include "engine/cuda/plan/picks.h"

#include <errno.h>
#include <stdlib.h>

static const struct convoy_cuda_nhwc *copy_of(const struct convoy_cuda_lowering *l, int tensor,
                                              const struct convoy_cuda_rows *pick)
{
    for (int i = 0; i < l->picked_count; i++)
        if (l->picked[i].tensor == tensor && l->picked[i].pick == pick)
            return &l->picked[i].nhwc;
    return NULL;
}

/* Does a group compute only these rows of the tensor? */
static bool is_picked(const struct convoy_cuda_groups *groups, int tensor,
                      const struct convoy_cuda_rows *pick)
{
    for (int i = 0; i < groups->count; i++)
        if (groups->groups[i].output == tensor && groups->groups[i].pick == pick)
            return true;
    return false;
}

/* The last group that reads these rows of the tensor. */
static int last_reader(const struct convoy_cuda_lowering *l, int tensor, const struct convoy_cuda_rows *pick)
{
    const struct convoy_cuda_groups *groups = l->source->groups;
    int last = l->group;
    for (int i = l->group; i < groups->count; i++) {
        int inputs[2];
        int count = groups->groups[i].pick != pick
                        ? 0
                        : convoy_cuda_row_inputs(l->graph, &groups->groups[i], l->channels, inputs);
        for (int k = 0; k < count; k++)
            last = inputs[k] == tensor ? i : last;
    }
    return last;
}

static int copy_rows(struct convoy_cuda_lowering *l, int tensor, const struct convoy_cuda_rows *pick)
{
    int64_t dims[4] = {0};
    int code = convoy_cuda_want_nhwc(l, tensor);
    struct convoy_cuda_picked *grown =
        realloc(l->picked, ((size_t)l->picked_count + 1) * sizeof(l->picked[0]));
    if (grown != NULL)
        l->picked = grown;
    if (code || grown == NULL)
        return code ? code : convoy_fail(l->error, -ENOMEM, "no memory for rows of a tensor");
    convoy_cuda_image_dims(l, tensor, dims);
    const struct convoy_cuda_nhwc from = l->nhwc_of[tensor];
    struct convoy_cuda_rows rows = *pick;
    struct convoy_cuda_nhwc to = {.pixel = convoy_nhwc_channels(dims[1])};
    rows.width = to.pixel;
    to.buffer = convoy_cuda_buffer_until(l, (size_t)(dims[0] * rows.count * to.pixel) * sizeof(convoy_fp16),
                                         last_reader(l, tensor, pick));
    if (to.buffer < 0)
        return to.buffer;
    l->picked[l->picked_count++] = (struct convoy_cuda_picked){tensor, pick, to};
    struct convoy_cuda_place y = {.where = CONVOY_CUDA_WORKSPACE, .offset = CONVOY_CUDA_BUFFER(to.buffer)};
    return convoy_cuda_gather(l, &from, dims[2] * dims[3], &rows, &y, to.pixel);
}

/* Copies the rows of what this group and later ones read as far as it is there. */
static int copy_inputs(struct convoy_cuda_lowering *l, const struct convoy_cuda_rows *pick)
{
    const struct convoy_cuda_groups *groups = l->source->groups;
    for (int i = l->group; i < groups->count; i++) {
        int inputs[2];
        int count = groups->groups[i].pick != pick
                        ? 0
                        : convoy_cuda_row_inputs(l->graph, &groups->groups[i], l->channels, inputs);
        for (int k = 0; k < count; k++) {
            bool there = l->nhwc_of[inputs[k]].buffer >= 0 || l->buffer_of[inputs[k]] >= 0;
            if (!there || is_picked(groups, inputs[k], pick) || copy_of(l, inputs[k], pick) != NULL)
                continue;
            int code = copy_rows(l, inputs[k], pick);
            if (code)
                return code;
        }
    }
    return 0;
}

int convoy_cuda_lower_picked(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group,
                             int (*lower)(struct convoy_cuda_lowering *l,
                                          const struct convoy_cuda_group *group))
{
    const struct convoy_cuda_rows *pick = group->pick;
    struct convoy_cuda_nhwc whole[2];
    const struct convoy_cuda_nhwc *copies[2];
    int inputs[2];
    int count = convoy_cuda_row_inputs(l->graph, group, l->channels, inputs);
    int code = copy_inputs(l, pick);
    if (code)
        return code;
    l->pick_of[group->output] = pick;
    for (int k = 0; k < count; k++) {
        copies[k] = copy_of(l, inputs[k], pick);
        if (copies[k] == NULL)
            continue;
        whole[k] = l->nhwc_of[inputs[k]];
        l->nhwc_of[inputs[k]] = *copies[k];
        l->pick_of[inputs[k]] = pick;
    }
    code = lower(l, group);
    for (int k = 0; k < count; k++) {
        if (copies[k] == NULL)
            continue;
        l->nhwc_of[inputs[k]] = whole[k];
        l->pick_of[inputs[k]] = NULL;
    }
    return code;
}
