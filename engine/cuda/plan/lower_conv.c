#include "engine/cuda/plan/lowering.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

struct convoy_images convoy_cuda_images(const struct convoy_cuda_lowering *l)
{
    struct convoy_images images = {.u8 = l->plan->layout == CONVOY_LAYOUT_U8_HWC,
                                   .image_bytes =
                                       (int64_t)convoy_cuda_input_stride(l->source, l->plan->layout)};
    _Static_assert(CONVOY_KERNEL_CHANNELS == CONVOY_MAX_U8_CHANNELS, "8-bit images");
    memcpy(images.multiply, l->source->multiply, sizeof(images.multiply));
    memcpy(images.add, l->source->add, sizeof(images.add));
    return images;
}

bool convoy_cuda_reads_rows(const struct convoy_graph *graph)
{
    const struct convoy_shape *shape = &graph->tensors[graph->input].shape;
    int readers = 0, input = graph->input;
    bool all_convs = true;
    for (int i = 0; i < graph->node_count; i++)
        for (int k = 0; k < graph->nodes[i].input_count; k++)
            if (graph->nodes[i].inputs[k] == input) {
                readers++;
                all_convs = all_convs && graph->nodes[i].op == CONVOY_OP_CONV;
            }
    return readers == 1 && all_convs && shape->rank == 4 && shape->dims[0] == 1;
}

static int refuse(struct convoy_cuda_lowering *l)
{
    return convoy_fail(l->error, -ENOTSUP, "node '%s' (%s): the CUDA backend takes no tensor this large",
                       l->node->name, l->node->onnx_op);
}

bool convoy_cuda_describe_conv(const struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group,
                               struct convoy_conv_shape *shape)
{
    const struct convoy_conv *conv = &l->node->conv;
    int64_t x[CONVOY_MAX_RANK], y[CONVOY_MAX_RANK];
    const int64_t *w = l->graph->tensors[l->node->inputs[1]].shape.dims;
    convoy_cuda_dims(l, l->node->inputs[0], x);
    convoy_cuda_dims(l, l->node->output, y);
    if (x[0] > INT_MAX || x[1] * x[2] * x[3] > INT_MAX || y[1] * y[2] * y[3] > INT_MAX)
        return false;
    *shape = (struct convoy_conv_shape){.n = (int)x[0],
                                        .c = (int)x[1],
                                        .h = (int)x[2],
                                        .w = (int)x[3],
                                        .k = (int)w[0],
                                        .r = (int)w[2],
                                        .s = (int)w[3],
                                        .groups = (int)conv->groups,
                                        .stride = {(int)conv->stride[0], (int)conv->stride[1]},
                                        .dilation = {(int)conv->dilation[0], (int)conv->dilation[1]},
                                        .pad = {(int)conv->pad[0], (int)conv->pad[1]},
                                        .oh = (int)y[2],
                                        .ow = (int)y[3],
                                        .bias = l->node->input_count > 2,
                                        .residual = group->residual >= 0,
                                        .act = group->act,
                                        .pool = group->pool,
                                        .products = l->source->products};
    return true;
}

int convoy_cuda_lower_conv(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group)
{
    struct convoy_conv_shape shape;
    struct convoy_cuda_step *step;
    const struct convoy_node *node = l->node;
    bool rows = node->inputs[0] == l->graph->input && convoy_cuda_reads_rows(l->graph);
    if (!convoy_cuda_describe_conv(l, group, &shape))
        return refuse(l);
    shape.u8 = rows && l->plan->layout == CONVOY_LAYOUT_U8_HWC;
    int code = convoy_cuda_step(l, CONVOY_CUDA_CONV, &step);
    if (code)
        return code;
    struct convoy_cuda_conv_step *conv = &step->conv;
    conv->shape = shape;
    conv->kernel = convoy_cuda_choose_conv(l->source->choices, &shape);
    if (conv->kernel == NULL)
        return convoy_fail(l->error, -ENOTSUP, "node '%s' (%s): no kernel takes it", node->name,
                           node->onnx_op);
    if (rows) {
        conv->images = convoy_cuda_images(l);
        step->x.where = CONVOY_CUDA_WORKSPACE;
    } else {
        conv->images.image_bytes = (int64_t)shape.c * shape.h * shape.w * (int64_t)sizeof(float);
        code = convoy_cuda_reads(l, node->inputs[0], &step->x);
    }
    if (code == 0) {
        conv->weights.where = CONVOY_CUDA_CONSTANT;
        conv->weights.constant = convoy_cuda_weights_packed(l->source->weights, l->graph, node->inputs[1],
                                                            conv->kernel, &shape, &code, l->error);
    }
    if (code == 0 && shape.bias)
        code = convoy_cuda_reads(l, node->inputs[2], &conv->bias);
    if (code == 0 && shape.residual)
        code = convoy_cuda_reads(l, group->residual, &conv->residual);
    if (code == 0)
        code = convoy_cuda_scratch(l, conv->kernel->scratch_bytes(&shape), &conv->scratch);
    if (code == 0)
        code = convoy_cuda_writes(l, group->output, &step->y);
    return code;
}
