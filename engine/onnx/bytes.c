#include "engine/onnx/bytes.h"

#include "engine/onnx/fail.h"
#include "engine/onnx/names.h"

#include <errno.h>

int onnx_check_bytes(const struct onnx_importer *importer, bool *keeps)
{
    static const char *const keepers[] = {
        "Identity",  "Dropout",      "Transpose",    "Reshape", "Flatten", "Squeeze",
        "Unsqueeze", "Slice",        "Split",        "Concat",  "Gather",  "Expand",
        "Tile",      "DepthToSpace", "SpaceToDepth", "MaxPool", "Pad",     NULL};
    static const char *const enders[] = {"Cast",          "CastLike", "DequantizeLinear", "QLinearConv",
                                         "QLinearMatMul", "Shape",    "ConvInteger",      "MatMulInteger",
                                         "Size",          NULL};
    const struct onnx_value *found = NULL;
    for (int i = 0; i < importer->input_count && found == NULL; i++)
        if (importer->inputs[i] != NULL && importer->inputs[i]->is_bytes)
            found = importer->inputs[i];
    *keeps = found != NULL && onnx_is_listed(importer->op, keepers);
    if (found == NULL || *keeps || onnx_is_listed(importer->op, enders))
        return 0;
    return onnx_refuse(importer, ONNX_CAST_BEFORE,
                       "it computes on '%.80s', which is uint8, and convoyd computes in floating point",
                       found->name);
}

void onnx_mark_bytes(const struct onnx_importer *importer)
{
    for (size_t i = 0; i < importer->node->n_output; i++) {
        struct onnx_value *value = onnx_find(importer, importer->node->output[i]);
        if (value != NULL && value->kind == ONNX_ACTIVATION)
            value->is_bytes = true;
    }
}
