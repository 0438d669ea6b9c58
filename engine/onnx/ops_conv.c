/* Conv. */
#include "engine/onnx/attributes.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/importer.h"
#include "engine/onnx/ops.h"
#include "engine/onnx/results.h"
#include "engine/onnx/window.h"

#include <errno.h>

static int read_conv(struct onnx_importer *importer)
{
    const struct onnx_value *weight, *bias = NULL;
    int x, result;
    int status = onnx_need_tensor(importer, 0, &x);
    if (status == 0)
        status = onnx_need_floats(importer, 1, "weight", &weight);
    if (status == 0 && weight->shape.rank < 1)
        status = onnx_fail(importer, -EINVAL, "its weight is a single number");
    if (status == 0)
        status = onnx_read_bias(importer, weight->shape.dims[0], &bias);
    if (status == 0)
        status = onnx_emit_conv(importer, x, weight->tensor, bias != NULL ? bias->tensor : -1, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

const struct onnx_operator onnx_conv_operators[] = {
    {"Conv", 2, 3, read_conv, ONNX_ANY_ORDER},
    {NULL, 0, 0, NULL, ONNX_ANY_ORDER},
};
