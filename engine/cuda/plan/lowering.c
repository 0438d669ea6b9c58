#include "engine/cuda/plan/lowering.h"

#include "engine/graph/arena.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool convoy_cuda_by_layers(const char *variable)
{
    const char *wish = getenv(variable);
    return wish != NULL && strcmp(wish, "layers") == 0;
}

int convoy_cuda_dims(const struct convoy_cuda_lowering *l, int tensor, int64_t dims[CONVOY_MAX_RANK])
{
    return convoy_cuda_tensor_dims(l->graph, tensor, l->plan->rows, dims);
}

int64_t convoy_cuda_elements(const struct convoy_cuda_lowering *l, int tensor)
{
    const struct convoy_shape *shape = &l->graph->tensors[tensor].shape;
    return convoy_shape_elements(shape) * (shape->batch_axis >= 0 ? l->plan->rows : 1);
}

void convoy_cuda_strides(int rank, const int64_t *dims, int64_t *strides)
{
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        strides[i] = stride;
        stride *= dims[i];
    }
}

int convoy_cuda_buffer_until(struct convoy_cuda_lowering *l, size_t bytes, int last)
{
    if (l->buffer_count == l->buffer_capacity) {
        int capacity = l->buffer_capacity > 0 ? l->buffer_capacity * 2 : 32;
        struct convoy_cuda_buffer *grown = realloc(l->buffers, (size_t)capacity * sizeof(*grown));
        if (grown == NULL)
            return convoy_fail(l->error, -ENOMEM, "no memory to place %d tensors", capacity);
        l->buffers = grown;
        l->buffer_capacity = capacity;
    }
    if (last < l->group) /* a result that is never read has its place while it is written */
        last = l->group;
    l->buffers[l->buffer_count] = (struct convoy_cuda_buffer){convoy_cuda_aligned(bytes), l->group, last};
    return l->buffer_count++;
}

int convoy_cuda_reads(struct convoy_cuda_lowering *l, int tensor, struct convoy_cuda_place *place)
{
    int code = 0;
    if (l->graph->tensors[tensor].data != NULL) {
        place->where = CONVOY_CUDA_CONSTANT;
        place->constant = convoy_cuda_weights_plain(l->source->weights, l->graph, tensor, &code, l->error);
        return code;
    }
    place->where = CONVOY_CUDA_WORKSPACE;
    place->offset = CONVOY_CUDA_BUFFER(l->buffer_of[tensor]);
    return 0;
}

int convoy_cuda_writes(struct convoy_cuda_lowering *l, int tensor, struct convoy_cuda_place *place)
{
    int buffer = convoy_cuda_buffer_until(l, (size_t)convoy_cuda_elements(l, tensor) * sizeof(float),
                                          l->source->groups->last_use[tensor]);
    if (buffer < 0)
        return buffer;
    l->buffer_of[tensor] = buffer;
    place->where = CONVOY_CUDA_WORKSPACE;
    place->offset = CONVOY_CUDA_BUFFER(buffer);
    return 0;
}

bool convoy_cuda_image_dims(const struct convoy_cuda_lowering *l, int tensor, int64_t dims[4])
{
    const struct convoy_shape *shape = &l->graph->tensors[tensor].shape;
    enum convoy_cuda_channels where = l->channels[tensor];
    int64_t pixels;
    if (!convoy_cuda_channels_and_pixels(shape, where, &dims[1], &pixels))
        return false;
    bool plane = where == CONVOY_CUDA_CHANNELS_FIRST && shape->rank == 4;
    dims[0] = l->plan->rows;
    dims[2] = plane ? shape->dims[2] : 1;
    dims[3] = plane ? shape->dims[3] : l->pick_of[tensor] != NULL ? l->pick_of[tensor]->count : pixels;
    return true;
}

bool convoy_cuda_channels_first(const struct convoy_cuda_lowering *l, int tensor, int64_t dims[4])
{
    const struct convoy_shape *shape = &l->graph->tensors[tensor].shape;
    return (shape->rank == 4 ? l->channels[tensor] == CONVOY_CUDA_CHANNELS_FIRST : shape->rank == 2) &&
           convoy_cuda_image_dims(l, tensor, dims);
}

int convoy_cuda_reads_nhwc(struct convoy_cuda_lowering *l, int tensor, struct convoy_cuda_place *place,
                           int64_t *pixel)
{
    place->where = CONVOY_CUDA_WORKSPACE;
    place->offset = CONVOY_CUDA_BUFFER(l->nhwc_of[tensor].buffer) +
                    (size_t)l->nhwc_of[tensor].first * sizeof(convoy_fp16);
    *pixel = l->nhwc_of[tensor].pixel;
    return 0;
}

/* The last group that reads a tensor or a part of it. */
static int last_use_of_whole(const struct convoy_cuda_lowering *l, int whole)
{
    int last = l->source->groups->last_use[whole];
    for (int t = 0; t < l->graph->tensor_count; t++)
        if (l->part_of[t].whole == whole && l->source->groups->last_use[t] > last)
            last = l->source->groups->last_use[t];
    return last;
}

int convoy_cuda_writes_nhwc(struct convoy_cuda_lowering *l, int tensor, struct convoy_cuda_place *place,
                            int64_t *pixel)
{
    const struct convoy_cuda_part *part = &l->part_of[tensor];
    int whole = part->whole >= 0 ? part->whole : tensor;
    int64_t dims[4] = {0};
    if (!convoy_cuda_image_dims(l, whole, dims))
        return convoy_fail(l->error, -EINVAL, "a tensor of node '%s' has no channels", l->node->name);
    if (l->nhwc_of[whole].buffer < 0) { /* the first part makes room for all */
        *pixel = convoy_nhwc_channels(dims[1]);
        if (l->ahead_of[whole] > 0) /* pixels begin on lines of memory */
            *pixel = convoy_cuda_line_channels(l->ahead_of[whole] + *pixel);
        int buffer =
            convoy_cuda_buffer_until(l, (size_t)(dims[0] * dims[2] * dims[3] * *pixel) * sizeof(convoy_fp16),
                                     last_use_of_whole(l, whole));
        if (buffer < 0)
            return buffer;
        l->nhwc_of[whole] =
            (struct convoy_cuda_nhwc){.buffer = buffer, .pixel = *pixel, .first = l->ahead_of[whole]};
    }
    if (whole != tensor) {
        l->nhwc_of[tensor] = l->nhwc_of[whole];
        l->nhwc_of[tensor].first += part->channel;
    }
    return convoy_cuda_reads_nhwc(l, tensor, place, pixel);
}

static struct convoy_nhwc_planes planes_of(const struct convoy_cuda_lowering *l, int tensor)
{
    int64_t dims[4] = {0};
    convoy_cuda_image_dims(l, tensor, dims);
    return (struct convoy_nhwc_planes){.n = dims[0],
                                       .c = dims[1],
                                       .pixels = dims[2] * dims[3],
                                       .channels_last = l->channels[tensor] == CONVOY_CUDA_CHANNELS_LAST};
}

/* Between float32 as the graph has it, parts x images x rest, and image by image. */
static int turn_images(struct convoy_cuda_lowering *l, int tensor, bool to_images,
                       const struct convoy_cuda_place *from, const struct convoy_cuda_place *to)
{
    int64_t parts = l->before[tensor], n = l->plan->rows, all = convoy_cuda_elements(l, tensor) / n;
    struct convoy_cuda_step *step;
    int code = convoy_cuda_step(l, CONVOY_CUDA_COPY, &step);
    if (code)
        return code;
    int64_t rest = all / parts;
    struct convoy_strided_copy copy = {
        .rank = 3, .dims = {parts, n, rest}, .x_stride = {rest, all, 1}, .y_stride = {n * rest, rest, 1}};
    if (to_images)
        copy = (struct convoy_strided_copy){
            .rank = 3, .dims = {n, parts, rest}, .x_stride = {rest, n * rest, 1}, .y_stride = {all, rest, 1}};
    step->copy = copy;
    step->x = *from;
    step->y = *to;
    return 0;
}

/* Are the images of the tensor one after the other as the graph has it? */
static bool image_by_image(const struct convoy_cuda_lowering *l, int tensor)
{
    return l->before[tensor] <= 1 || l->plan->rows == 1;
}

static size_t float_bytes(const struct convoy_cuda_lowering *l, int tensor)
{
    return (size_t)convoy_cuda_elements(l, tensor) * sizeof(float);
}

/* A tensor that has no place would be read where the input rows are. */
static int want_place(struct convoy_cuda_lowering *l, int tensor)
{
    bool there = l->graph->tensors[tensor].data != NULL || l->buffer_of[tensor] >= 0 ||
                 l->nhwc_of[tensor].buffer >= 0 || tensor == l->graph->input;
    return there ? 0
                 : convoy_fail(l->error, -EINVAL, "node '%s' reads a tensor that nothing computes",
                               l->node->name);
}

int convoy_cuda_want_planes(struct convoy_cuda_lowering *l, int tensor)
{
    struct convoy_cuda_place images = {0}, y = {0};
    struct convoy_cuda_step *step;
    int lost = want_place(l, tensor);
    if (lost || l->graph->tensors[tensor].data != NULL || l->buffer_of[tensor] >= 0 ||
        l->nhwc_of[tensor].buffer < 0)
        return lost;
    int code = convoy_cuda_want_in_order(l, tensor);
    if (code == 0)
        code = convoy_cuda_step(l, CONVOY_CUDA_NHWC_TO_PLANES, &step);
    if (code)
        return code;
    step->nhwc_convert = planes_of(l, tensor);
    code = convoy_cuda_reads_nhwc(l, tensor, &step->x, &step->nhwc_convert.pixel);
    if (code == 0)
        code = convoy_cuda_writes(l, tensor, &y);
    if (code == 0 && !image_by_image(l, tensor))
        code = convoy_cuda_scratch(l, float_bytes(l, tensor), &images);
    if (code)
        return code;
    step->y = image_by_image(l, tensor) ? y : images;
    return image_by_image(l, tensor) ? 0 : turn_images(l, tensor, false, &images, &y);
}

int convoy_cuda_write_out(struct convoy_cuda_lowering *l, int tensor, const struct convoy_cuda_place *to,
                          int64_t image, bool *done)
{
    struct convoy_cuda_step *step;
    if (l->buffer_of[tensor] >= 0 || l->nhwc_of[tensor].buffer < 0 || l->nhwc_of[tensor].order != NULL)
        return 0;
    *done = true;
    int code = convoy_cuda_step(l, CONVOY_CUDA_NHWC_TO_PLANES, &step);
    if (code)
        return code;
    step->y = *to;
    step->nhwc_convert = planes_of(l, tensor);
    step->nhwc_convert.image = image;
    return convoy_cuda_reads_nhwc(l, tensor, &step->x, &step->nhwc_convert.pixel);
}

int convoy_cuda_want_nhwc(struct convoy_cuda_lowering *l, int tensor)
{
    struct convoy_cuda_place x = {0}, images = {0};
    struct convoy_cuda_step *step;
    if (l->nhwc_of[tensor].buffer >= 0)
        return 0;
    int code = want_place(l, tensor);
    if (code == 0)
        code = convoy_cuda_reads(l, tensor, &x);
    if (code == 0 && !image_by_image(l, tensor)) {
        code = convoy_cuda_scratch(l, float_bytes(l, tensor), &images);
        if (code == 0)
            code = turn_images(l, tensor, true, &x, &images);
        x = images;
    }
    if (code == 0)
        code = convoy_cuda_step(l, CONVOY_CUDA_NHWC_FROM_PLANES, &step);
    if (code)
        return code;
    step->x = x;
    step->nhwc_convert = planes_of(l, tensor);
    return convoy_cuda_writes_nhwc(l, tensor, &step->y, &step->nhwc_convert.pixel);
}

int convoy_cuda_scratch(struct convoy_cuda_lowering *l, size_t bytes, struct convoy_cuda_place *place)
{
    if (bytes == 0)
        return 0;
    int buffer = convoy_cuda_buffer_until(l, bytes, l->group);
    if (buffer < 0)
        return buffer;
    place->where = CONVOY_CUDA_WORKSPACE;
    place->offset = CONVOY_CUDA_BUFFER(buffer);
    return 0;
}

int convoy_cuda_step(struct convoy_cuda_lowering *l, enum convoy_cuda_kind kind,
                     struct convoy_cuda_step **step)
{
    *step = convoy_cuda_plan_add(l->plan);
    if (*step == NULL)
        return convoy_fail(l->error, -ENOMEM, "no memory for a plan of %d steps", l->plan->step_count + 1);
    (*step)->kind = kind;
    (*step)->group = l->group;
    return 0;
}

bool convoy_cuda_read_by_others(const struct convoy_cuda_lowering *l, int tensor,
                                const struct convoy_cuda_group *reader)
{
    const struct convoy_cuda_groups *groups = l->source->groups;
    for (int i = 0; i < groups->count; i++) {
        const struct convoy_cuda_group *other = &groups->groups[i];
        const int *inputs;
        int count = convoy_cuda_group_inputs(l->graph, other, &inputs);
        for (int k = 0; k < count && other != reader; k++)
            if (inputs[k] == tensor)
                return true;
        if (other->residual == tensor)
            return true;
    }
    for (int i = 0; i < l->graph->output_count; i++)
        if (l->graph->outputs[i] == tensor)
            return true;
    return false;
}

int convoy_cuda_writer_of(const struct convoy_cuda_lowering *l, int tensor, int reader)
{
    const struct convoy_cuda_groups *groups = l->source->groups;
    if (convoy_cuda_read_by_others(l, tensor, &groups->groups[reader]))
        return -1;
    for (int i = reader - 1; i >= 0; i--)
        if (groups->groups[i].output == tensor)
            return i;
    return -1;
}

int convoy_cuda_reader_of(const struct convoy_cuda_lowering *l, int tensor)
{
    const struct convoy_cuda_groups *groups = l->source->groups;
    for (int i = l->group; i < groups->count; i++)
        if (l->graph->nodes[groups->groups[i].anchor].inputs[0] == tensor)
            return convoy_cuda_read_by_others(l, tensor, &groups->groups[i]) ? -1 : i;
    return -1;
}

void convoy_cuda_keep_until(struct convoy_cuda_lowering *l, int tensor, int group)
{
    struct convoy_cuda_buffer *buffer = &l->buffers[l->nhwc_of[tensor].buffer];
    if (buffer->last < group)
        buffer->last = group;
}

int convoy_cuda_cover(struct convoy_cuda_lowering *l, int by)
{
    return convoy_cuda_plan_cover(l->plan, l->group, by) == 0
               ? 0
               : convoy_fail(l->error, -ENOMEM, "no memory for a plan of %d steps", l->plan->step_count);
}

bool convoy_cuda_plain_conv(const struct convoy_cuda_lowering *l, int index, struct convoy_conv_shape *shape)
{
    const struct convoy_cuda_group *group = &l->source->groups->groups[index];
    const struct convoy_node *node = &l->graph->nodes[group->anchor];
    int64_t dims[4] = {0};
    if (node->op != CONVOY_OP_CONV || group->view || group->attention != NULL || group->rows != NULL ||
        group->pick != NULL || group->pool != 1 || node->inputs[0] == l->graph->input ||
        !convoy_cuda_channels_first(l, node->inputs[0], dims) ||
        !convoy_cuda_channels_first(l, group->output, dims) ||
        !convoy_cuda_conv_shape(l->source, group, l->plan->rows, shape))
        return false;
    int stride = shape->stride[0];
    bool fits = shape->r == shape->s && shape->stride[1] == stride &&
                shape->oh == (shape->h - 1) / stride + 1 && shape->ow == (shape->w - 1) / stride + 1;
    for (int i = 0; i < 2; i++)
        fits = fits && shape->dilation[i] == 1 && shape->pad[i] == shape->r / 2;
    return fits;
}

static void place(struct convoy_cuda_place *place, size_t base, const struct convoy_arena_item *items)
{
    size_t buffer = place->offset >> CONVOY_CUDA_BUFFER_SHIFT;
    if (place->where != CONVOY_CUDA_WORKSPACE || buffer == 0)
        return;
    size_t within = place->offset & (((size_t)1 << CONVOY_CUDA_BUFFER_SHIFT) - 1);
    place->offset = base + items[buffer - 1].offset + within;
}

static void place_step(struct convoy_cuda_step *step, size_t base, const struct convoy_arena_item *items)
{
    struct convoy_cuda_place *places[CONVOY_CUDA_PLACES];
    int writes, count = convoy_cuda_step_places(step, places, &writes);
    for (int i = 0; i < count; i++)
        place(places[i], base, items);
}

int convoy_cuda_place_buffers(struct convoy_cuda_lowering *l)
{
    struct convoy_cuda_plan *plan = l->plan;
    size_t base = plan->input_bytes + plan->output_bytes, total = 0;
    struct convoy_arena_item *items = calloc((size_t)l->buffer_count + 1, sizeof(*items));
    if (items == NULL)
        return convoy_fail(l->error, -ENOMEM, "no memory to place %d tensors", l->buffer_count);
    for (int i = 0; i < l->buffer_count; i++)
        items[i] = (struct convoy_arena_item){
            .bytes = l->buffers[i].bytes, .first = l->buffers[i].first, .last = l->buffers[i].last};
    int failed = convoy_arena_place(items, l->buffer_count, &total);
    if (failed)
        convoy_error_fill(l->error, "the tensors of a batch of %u cannot be placed", plan->rows);
    for (int i = 0; i < plan->step_count && !failed; i++)
        place_step(&plan->steps[i], base, items);
    plan->workspace_bytes = base + convoy_cuda_aligned(total);
    free(items);
    return failed;
}
