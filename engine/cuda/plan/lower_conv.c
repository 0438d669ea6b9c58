#include "engine/cuda/plan/lower_internal.h"

#include <errno.h>

static int refuse(struct convoy_cuda_lowering *l)
{
    return convoy_fail(l->error, -ENOTSUP, "node '%s' (%s): the CUDA backend takes no tensor this large",
                       l->node->name, l->node->onnx_op);
}

int convoy_cuda_layer_weights(struct convoy_cuda_lowering *l, const struct convoy_conv_shape *shape,
                              struct convoy_cuda_conv_step *conv)
{
    int code = 0;
    conv->weights.where = CONVOY_CUDA_CONSTANT;
    conv->weights.constant =
        convoy_cuda_weights_packed(l->source->weights, l->graph, conv->tensors, conv->layers, conv->scaled_by,
                                   conv->kernel, shape, &code, l->error);
    return code;
}

int convoy_cuda_layer_constants(struct convoy_cuda_lowering *l, const struct convoy_conv_shape *shape,
                                struct convoy_cuda_conv_step *conv)
{
    conv->layers = 1;
    conv->tensors[0] = l->node->inputs[1];
    conv->scaled_by = -1;
    int code = convoy_cuda_layer_weights(l, shape, conv);
    return code == 0 && shape->bias ? convoy_cuda_reads(l, l->node->inputs[2], &conv->bias) : code;
}

int convoy_cuda_lower_conv(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group)
{
    struct convoy_conv_shape shape;
    struct convoy_cuda_step *step;
    const struct convoy_node *node = l->node;
    bool rows = node->inputs[0] == l->graph->input && convoy_cuda_reads_rows(l->graph);
    if (!convoy_cuda_conv_shape(l->source, group, l->plan->rows, &shape))
        return refuse(l);
    shape.compute_type = convoy_cuda_planes_type(l);
    shape.act = convoy_cuda_planes_act(group);
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
        conv->images = convoy_cuda_images(l->source, l->plan->layout);
        step->x.where = CONVOY_CUDA_WORKSPACE;
    } else {
        conv->images.image_bytes = (int64_t)shape.c * shape.h * shape.w * (int64_t)sizeof(float);
        code = convoy_cuda_reads(l, node->inputs[0], &step->x);
    }
    if (code == 0)
        code = convoy_cuda_layer_constants(l, &shape, conv);
    if (code == 0 && shape.residual)
        code = convoy_cuda_reads(l, group->residual, &conv->residual);
    if (code == 0)
        code = convoy_cuda_scratch(l, conv->kernel->scratch_bytes(&shape), &conv->scratch);
    if (code == 0)
        code = convoy_cuda_writes(l, group->output, &step->y);
    return code ? code : convoy_cuda_activate_planes(l, group);
}
