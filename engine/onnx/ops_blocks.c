/* DepthToSpace and SpaceToDepth: blocks of pixels to channels and back. */
#include "engine/onnx/attributes.h"
#include "engine/onnx/emit.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/importer.h"
#include "engine/onnx/ops.h"
#include "engine/onnx/results.h"

#include <errno.h>
#include <string.h>

/* Reshapes N x C x H x W to six dimensions, permutes them, and reshapes to the result's. */
static int set_blocks(struct onnx_importer *importer, int x, const int64_t six[6], const int perm[6],
                      const int64_t out[3])
{
    struct convoy_shape shape = {.rank = 6, .batch_axis = importer->graph->tensors[x].shape.batch_axis};
    memcpy(shape.dims, six, 6 * sizeof six[0]);
    int status = onnx_emit_reshape(importer, x, &shape, &x);
    if (status == 0)
        status = onnx_emit_transpose(importer, x, perm, &x);
    shape.rank = 4;
    memcpy(&shape.dims[1], out, 3 * sizeof out[0]);
    if (status == 0)
        status = onnx_emit_reshape(importer, x, &shape, &x);
    return status == 0 ? onnx_set_tensor(importer, x) : status;
}

static int read_block_size(struct onnx_importer *importer, int *x, int64_t *block)
{
    int status = onnx_need_tensor(importer, 0, x);
    if (status == 0)
        status = onnx_attribute_int(importer, "blocksize", 0, block);
    if (status != 0)
        return status;
    const struct convoy_shape *shape = &importer->graph->tensors[*x].shape;
    if (shape->rank != 4 || shape->batch_axis > 0)
        return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "its input is not N x C x H x W");
    return *block > 0 && *block < INT16_MAX ? 0
                                            : onnx_fail(importer, -EINVAL, "its blocksize is out of range");
}

static int read_depth_to_space(struct onnx_importer *importer)
{
    static const int columns_last[6] = {0, 3, 4, 1, 5, 2}, rows_first[6] = {0, 1, 4, 2, 5, 3};
    const char *mode;
    int64_t b;
    int x;
    int status = read_block_size(importer, &x, &b);
    if (status == 0)
        status = onnx_attribute_string(importer, "mode", "DCR", &mode);
    if (status != 0)
        return status;
    const int64_t *d = importer->graph->tensors[x].shape.dims;
    int64_t c = d[1] / (b * b), h = d[2], w = d[3];
    if (c * b * b != d[1])
        return onnx_fail(importer, -EINVAL, "its channels are no whole number of blocks");
    bool crd = strcmp(mode, "CRD") == 0;
    const int64_t six[6] = {d[0], crd ? c : b, b, crd ? b : c, h, w}, out[3] = {c, h * b, w * b};
    return set_blocks(importer, x, six, crd ? rows_first : columns_last, out);
}

static int read_space_to_depth(struct onnx_importer *importer)
{
    static const int perm[6] = {0, 3, 5, 1, 2, 4};
    int64_t b;
    int x;
    int status = read_block_size(importer, &x, &b);
    if (status != 0)
        return status;
    const int64_t *d = importer->graph->tensors[x].shape.dims;
    int64_t c = d[1], h = d[2] / b, w = d[3] / b;
    if (h * b != d[2] || w * b != d[3])
        return onnx_fail(importer, -EINVAL, "its height or width is no whole number of blocks");
    const int64_t six[6] = {d[0], c, h, b, w, b}, out[3] = {c * b * b, h, w};
    return set_blocks(importer, x, six, perm, out);
}

const struct onnx_operator onnx_block_operators[] = {
    {"DepthToSpace", 1, 1, read_depth_to_space, ONNX_ANY_ORDER},
    {"SpaceToDepth", 1, 1, read_space_to_depth, ONNX_ANY_ORDER},
    {NULL, 0, 0, NULL, ONNX_ANY_ORDER},
};
