/* The pools, and Lp norms over windows. */
#include "engine/onnx/attributes.h"
#include "engine/onnx/constants.h"
#include "engine/onnx/emit.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/importer.h"
#include "engine/onnx/ops.h"
#include "engine/onnx/results.h"
#include "engine/onnx/shapes.h"
#include "engine/onnx/window.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static int read_pool(struct onnx_importer *importer, enum convoy_pool_kind kind)
{
    struct onnx_window window = {0};
    int64_t out[2] = {0, 0}, ceil_mode, include_pad, storage_order;
    int x, result;
    int status = onnx_find_deep(importer, &window);
    if (status == 0)
        status = onnx_need_images(importer, &window, &x);
    if (status == 0)
        status = onnx_attribute_int(importer, "ceil_mode", 0, &ceil_mode);
    if (status == 0)
        status = onnx_attribute_int(importer, "count_include_pad", 0, &include_pad);
    if (status == 0)
        status = onnx_attribute_int(importer, "storage_order", 0, &storage_order);
    if (status == 0)
        status = onnx_window_numbers(importer, &window, "kernel_shape", 1, window.size);
    if (status != 0)
        return status;
    if (storage_order != 0)
        return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE,
                           "its storage_order is %" PRId64 ", only 0 is supported", storage_order);
    if (window.size[1] == 0)
        return onnx_fail(importer, -EINVAL, "its kernel_shape is missing");
    window.ceil_mode = ceil_mode != 0;
    if (window.flat)
        window.size[0] = 1;
    const struct convoy_shape shape = importer->graph->tensors[x].shape;
    status = onnx_slide(importer, &shape, &window, out);
    for (int i = 0; status == 0 && i < 4; i++)
        if (window.pad[i] > (window.size[i % 2] - 1) * window.dilation[i % 2])
            status = onnx_fail(importer, -EINVAL,
                               "its padding of %" PRId64
                               " is as large as its window, which would pool over nothing",
                               window.pad[i]);
    if (status == 0)
        status = onnx_emit_pool(importer, x, kind, &window, out, include_pad != 0, &result);
    return status == 0 ? onnx_set_images(importer, &window, result) : status;
}

static int read_max_pool(struct onnx_importer *importer)
{
    return read_pool(importer, CONVOY_POOL_MAX);
}

static int read_average_pool(struct onnx_importer *importer)
{
    return read_pool(importer, CONVOY_POOL_AVERAGE);
}

static int read_global_pool(struct onnx_importer *importer, enum convoy_pool_kind kind)
{
    struct onnx_window window = {0};
    int x, result;
    int status = onnx_need_images(importer, &window, &x);
    if (status != 0)
        return status;
    const struct convoy_shape shape = importer->graph->tensors[x].shape;
    status = onnx_emit_pooled(importer, x, kind, shape.dims[2], shape.dims[3], &result);
    return status == 0 ? onnx_set_images(importer, &window, result) : status;
}

static int read_global_average_pool(struct onnx_importer *importer)
{
    return read_global_pool(importer, CONVOY_POOL_AVERAGE);
}

static int read_global_max_pool(struct onnx_importer *importer)
{
    return read_global_pool(importer, CONVOY_POOL_MAX);
}

/* |x|^p, of which a sum is made. */
static int emit_power(struct onnx_importer *importer, int x, int64_t p, int *result)
{
    if (p == 2)
        return onnx_emit_binary(importer, CONVOY_MUL, x, x, result);
    int status = onnx_emit_activation(importer, (struct convoy_activation){.kind = CONVOY_ABS}, x, result);
    if (status == 0 && p != 1)
        status = onnx_emit_activation(
            importer, (struct convoy_activation){.kind = CONVOY_POW, .alpha = (float)p}, *result, result);
    return status;
}

/* The p-th root of the mean of `elements` numbers, taken times that many. */
static int emit_root(struct onnx_importer *importer, int x, int64_t p, int64_t elements, int *result)
{
    int status = onnx_emit_with_scalar(importer, CONVOY_MUL, x, (double)elements, result);
    if (status == 0 && p == 2)
        status =
            onnx_emit_activation(importer, (struct convoy_activation){.kind = CONVOY_SQRT}, *result, result);
    else if (status == 0 && p != 1)
        status = onnx_emit_activation(
            importer, (struct convoy_activation){.kind = CONVOY_POW, .alpha = 1 / (float)p}, *result, result);
    return status;
}

static int read_p(struct onnx_importer *importer, int64_t *p)
{
    int status = onnx_attribute_int(importer, "p", 2, p);
    if (status == 0 && (*p < 1 || *p > 64))
        return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "its p is %" PRId64, *p);
    return status;
}

static int read_lp_pool(struct onnx_importer *importer)
{
    struct onnx_window window = {0};
    int64_t p, ceil_mode, out[2];
    int x, result;
    int status = onnx_need_images(importer, &window, &x);
    window.size[0] = window.flat ? 1 : 0;
    if (status == 0)
        status = read_p(importer, &p);
    if (status == 0)
        status = onnx_attribute_int(importer, "ceil_mode", 0, &ceil_mode);
    if (status == 0)
        status = onnx_window_numbers(importer, &window, "kernel_shape", 1, window.size);
    if (status == 0 && window.size[1] == 0)
        status = onnx_fail(importer, -EINVAL, "its kernel_shape is missing");
    if (status != 0)
        return status;
    if (ceil_mode != 0)
        return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "its ceil_mode is not supported");
    const struct convoy_shape shape = importer->graph->tensors[x].shape;
    status = onnx_slide(importer, &shape, &window, out);
    if (status == 0)
        status = emit_power(importer, x, p, &result);
    if (status == 0) /* zeros in the padding add nothing, and count */
        status = onnx_emit_pool(importer, result, CONVOY_POOL_AVERAGE, &window, out, true, &result);
    if (status == 0)
        status = emit_root(importer, result, p, window.size[0] * window.size[1], &result);
    return status == 0 ? onnx_set_images(importer, &window, result) : status;
}

static int read_global_lp_pool(struct onnx_importer *importer)
{
    struct onnx_window window = {0};
    int64_t p;
    int x, result;
    int status = onnx_need_images(importer, &window, &x);
    if (status == 0)
        status = read_p(importer, &p);
    if (status != 0)
        return status;
    const struct convoy_shape shape = importer->graph->tensors[x].shape;
    status = emit_power(importer, x, p, &result);
    if (status == 0)
        status =
            onnx_emit_pooled(importer, result, CONVOY_POOL_AVERAGE, shape.dims[2], shape.dims[3], &result);
    if (status == 0)
        status = emit_root(importer, result, p, shape.dims[2] * shape.dims[3], &result);
    return status == 0 ? onnx_set_images(importer, &window, result) : status;
}

const struct onnx_operator onnx_pool_operators[] = {
    {"MaxPool", 1, 1, read_max_pool, ONNX_ANY_ORDER},
    {"AveragePool", 1, 1, read_average_pool, ONNX_ANY_ORDER},
    {"GlobalAveragePool", 1, 1, read_global_average_pool, ONNX_ANY_ORDER},
    {"GlobalMaxPool", 1, 1, read_global_max_pool, ONNX_ANY_ORDER},
    {"LpPool", 1, 1, read_lp_pool, ONNX_ANY_ORDER},
    {"GlobalLpPool", 1, 1, read_global_lp_pool, ONNX_ANY_ORDER},
    {NULL, 0, 0, NULL, ONNX_ANY_ORDER},
};
