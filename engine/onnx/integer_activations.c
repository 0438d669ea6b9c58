#include "engine/onnx/integer_activations.h"

#include "engine/onnx/fail.h"
#include "engine/onnx/names.h"
#include "engine/onnx/tensor.h"

#include <errno.h>

int onnx_check_integers(const struct onnx_importer *importer, int *kept)
{
    static const char *const keepers[] = {
        "Identity",  "Dropout",      "Transpose",    "Reshape", "Flatten", "Squeeze",
        "Unsqueeze", "Slice",        "Split",        "Concat",  "Gather",  "Expand",
        "Tile",      "DepthToSpace", "SpaceToDepth", "MaxPool", "Pad",     NULL};
    static const char *const enders[] = {
        "Cast",  "CastLike",    "DequantizeLinear", "QLinearConv",    "QLinearMatMul",
        "Shape", "ConvInteger", "MatMulInteger",    "Size",           "Equal",
        "Less",  "LessOrEqual", "Greater",          "GreaterOrEqual", "OneHot",
        NULL};
    const struct onnx_value *found = NULL;
    for (int i = 0; i < importer->input_count && found == NULL; i++)
        if (importer->inputs[i] != NULL && importer->inputs[i]->integer_type != 0)
            found = importer->inputs[i];
    *kept = found != NULL && onnx_is_listed(importer->op, keepers) ? found->integer_type : 0;
    if (found == NULL || *kept != 0 || onnx_is_listed(importer->op, enders))
        return 0;
    return onnx_refuse(importer, ONNX_CAST_BEFORE,
                       "it computes on '%.80s', which is %s, and convoyd computes in floating point",
                       found->name, onnx_type_name(found->integer_type));
}

void onnx_mark_integers(const struct onnx_importer *importer, int type)
{
    for (size_t i = 0; i < importer->node->n_output; i++) {
        struct onnx_value *value = onnx_find(importer, importer->node->output[i]);
        if (value != NULL && value->kind == ONNX_ACTIVATION)
            value->integer_type = type;
    }
}
