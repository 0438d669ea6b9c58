#include "engine/cuda/plan/source.h"

#include <limits.h>
#include <string.h>

static size_t rounded(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

size_t convoy_cuda_input_stride(const struct convoy_cuda_source *source, enum convoy_input_layout layout)
{
    size_t elements = (size_t)source->channels * (size_t)source->pixels;
    return rounded(elements * (layout == CONVOY_LAYOUT_U8_HWC ? 1 : sizeof(float)));
}

size_t convoy_cuda_output_stride(const struct convoy_cuda_source *source)
{
    return rounded(source->outputs_per_row * sizeof(float));
}

struct convoy_images convoy_cuda_images(const struct convoy_cuda_source *source,
                                        enum convoy_input_layout layout)
{
    struct convoy_images images = {.u8 = layout == CONVOY_LAYOUT_U8_HWC,
                                   .image_bytes = (int64_t)convoy_cuda_input_stride(source, layout)};
    _Static_assert(CONVOY_KERNEL_CHANNELS == CONVOY_MAX_U8_CHANNELS, "8-bit images");
    memcpy(images.multiply, source->multiply, sizeof(images.multiply));
    memcpy(images.add, source->add, sizeof(images.add));
    return images;
}

int convoy_cuda_tensor_dims(const struct convoy_graph *graph, int tensor, uint32_t rows,
                            int64_t dims[CONVOY_MAX_RANK])
{
    const struct convoy_shape *shape = &graph->tensors[tensor].shape;
    for (int i = 0; i < shape->rank; i++)
        dims[i] = shape->dims[i] * (i == shape->batch_axis ? rows : 1);
    return shape->rank;
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

bool convoy_cuda_conv_shape(const struct convoy_cuda_source *source, const struct convoy_cuda_group *group,
                            uint32_t rows, struct convoy_conv_shape *shape)
{
    const struct convoy_graph *graph = source->graph;
    const struct convoy_node *node = &graph->nodes[group->anchor];
    const struct convoy_conv *conv = &node->conv;
    int64_t x[CONVOY_MAX_RANK] = {0}, y[CONVOY_MAX_RANK] = {0};
    const int64_t *w = graph->tensors[node->inputs[1]].shape.dims;
    convoy_cuda_tensor_dims(graph, node->inputs[0], rows, x);
    convoy_cuda_tensor_dims(graph, node->output, rows, y);
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
                                        .bias = node->input_count > 2,
                                        .residual = group->residual >= 0,
                                        .act = group->act,
                                        .pool = group->pool,
                                        .compute_type = source->compute_type};
    return true;
}
