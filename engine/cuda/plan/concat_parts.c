/* Concatenations of channels that copy nothing: what is concatenated gets its place in the whole, and
 * whatever computes it writes there. */
#include "engine/cuda/plan/lower_internal.h"

bool convoy_cuda_concats_nhwc(const struct convoy_cuda_lowering *l, const struct convoy_node *node,
                              int output)
{
    int64_t dims[4] = {0};
    if (node->op != CONVOY_OP_CONCAT || node->axis != 1 || !convoy_cuda_channels_first(l, output, dims))
        return false;
    for (int i = 0; i < node->input_count; i++)
        if (l->graph->tensors[node->inputs[i]].data != NULL ||
            !convoy_cuda_channels_first(l, node->inputs[i], dims) ||
            (dims[1] % 8 != 0 && i + 1 < node->input_count)) /* parts begin on whole cells */
            return false;
    return true;
}

static int64_t channels(const struct convoy_cuda_lowering *l, int tensor)
{
    int64_t dims[4] = {0};
    convoy_cuda_image_dims(l, tensor, dims);
    return dims[1];
}

/* Do the inputs lie side by side in one whole already? So do those of a concatenation whose result is a part
 * of another's, as in DenseNet. */
static bool are_side_by_side(const struct convoy_cuda_lowering *l, const struct convoy_node *node)
{
    struct convoy_cuda_part expected = l->part_of[node->inputs[0]];
    for (int i = 0; i < node->input_count; i++) {
        const struct convoy_cuda_part *part = &l->part_of[node->inputs[i]];
        if (expected.whole < 0 || part->whole != expected.whole || part->channel != expected.channel)
            return false;
        expected.channel += channels(l, node->inputs[i]);
    }
    return true;
}

static bool has_parts(const struct convoy_cuda_lowering *l, int tensor)
{
    for (int t = 0; t < l->graph->tensor_count; t++)
        if (l->part_of[t].whole == tensor)
            return true;
    return false;
}

static void give_parts(struct convoy_cuda_lowering *l, const struct convoy_node *node, int output)
{
    struct convoy_cuda_part at = l->part_of[output];
    if (at.whole < 0)
        at = (struct convoy_cuda_part){output, 0};
    for (int i = 0; i < node->input_count; i++) {
        int input = node->inputs[i];
        if (l->part_of[input].whole < 0 && input != l->graph->input && !has_parts(l, input))
            l->part_of[input] = at;
        at.channel += channels(l, input);
    }
}

void convoy_cuda_find_parts(struct convoy_cuda_lowering *l)
{
    const struct convoy_cuda_groups *groups = l->source->groups;
    for (int i = groups->count - 1; i >= 0; i--) { /* the largest first */
        const struct convoy_cuda_group *group = &groups->groups[i];
        const struct convoy_node *node = &l->graph->nodes[group->anchor];
        if (!convoy_cuda_concats_nhwc(l, node, group->output))
            continue;
        if (l->part_of[group->output].whole < 0 && are_side_by_side(l, node))
            l->part_of[group->output] = l->part_of[node->inputs[0]];
        else
            give_parts(l, node, group->output);
    }
}
