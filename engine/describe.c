#include "engine/describe.h"
#include "engine/base/utf8.h"

#include <errno.h>
#include <string.h>

int convoy_check_graph(const struct convoy_graph *graph, struct convoy_error *error)
{
    const struct convoy_tensor *input = &graph->tensors[graph->input];
    if (input->shape.batch_axis > 0)
        return convoy_fail(error, -ENOTSUP,
                           "input '%s': its batch is axis %d; export the model with the batch first",
                           input->name, input->shape.batch_axis);
    struct convoy_net_info info = {0};
    convoy_describe_shapes(graph, &info);
    if (graph->input_type == CONVOY_INPUT_UINT8 && info.channels > CONVOY_MAX_U8_CHANNELS)
        return convoy_fail(
            error, -ENOTSUP,
            "input '%s' is uint8 and has %u channels, and pixels have %d at most: export the model "
            "with a float32 input",
            input->name, info.channels, CONVOY_MAX_U8_CHANNELS);
    for (int i = 0; i < graph->node_count; i++) {
        const struct convoy_node *node = &graph->nodes[i];
        if (convoy_shape_elements(&graph->tensors[node->output].shape) < 1)
            return convoy_fail(error, -ENOTSUP,
                               "node '%s' (%s) computes an empty tensor, which no backend can", node->name,
                               node->onnx_op);
    }
    if (convoy_shape_elements(&input->shape) < 1)
        return convoy_fail(error, -ENOTSUP, "input '%s' is empty, which no backend can take", input->name);
    return 0;
}

void convoy_describe_shapes(const struct convoy_graph *graph, struct convoy_net_info *info)
{
    const struct convoy_shape *shape = &graph->tensors[graph->input].shape;
    bool is_image = shape->rank == 4 && shape->dims[0] == 1;
    info->channels = (uint32_t)(is_image ? shape->dims[1] : convoy_shape_elements(shape));
    info->height = (uint32_t)(is_image ? shape->dims[2] : 1);
    info->width = (uint32_t)(is_image ? shape->dims[3] : 1);
    info->output_count = (uint32_t)graph->output_count;
    for (int i = 0; i < graph->output_count; i++) {
        info->output_elements[i] = (uint32_t)convoy_shape_elements(&graph->tensors[graph->outputs[i]].shape);
        info->outputs_per_row += info->output_elements[i];
    }
}

void convoy_copy_layer_name(const char *name, char to[CONVOY_LAYER_NAME_BYTES])
{
    size_t length = strlen(name), used = 0, bytes;
    while ((bytes = convoy_utf8_character(name + used, length - used)) > 0 &&
           used + bytes < CONVOY_LAYER_NAME_BYTES)
        used += bytes;
    memcpy(to, name, used);
    to[used] = '\0';
}
