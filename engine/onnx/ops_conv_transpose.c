/* ConvTranspose: a Conv of the image with zeros put between its pixels, by the filters turned round
 * (Dumoulin and Visin, A guide to convolution arithmetic for deep learning, 2016, chapter 4). Col2Im, which
 * puts the pixels of windows back into their image and adds up where windows overlap: windows that lie beside
 * each other are moved; else it is a transposed convolution by filters of which each has a single 1. */
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
#include <stdlib.h>
#include <string.h>

/* The weight, of C x K/groups x R x S, as K x C/groups x R x S, each filter turned by half a turn. */
static int turned_filter(struct onnx_importer *importer, const struct convoy_shape *shape, int64_t groups,
                         int *result)
{
    const struct convoy_shape in = *shape;
    int64_t inputs = in.dims[0] / groups, outputs = in.dims[1], pixels = in.dims[2] * in.dims[3];
    struct convoy_shape out = in;
    void *data;
    out.dims[0] = outputs * groups;
    out.dims[1] = inputs;
    int status = onnx_allocate(importer, &out, false, &data);
    if (status != 0)
        return status;
    const float *from = onnx_floats(importer, importer->inputs[1]);
    float *to = data;
    for (int64_t k = 0; k < out.dims[0]; k++)
        for (int64_t c = 0; c < inputs; c++)
            for (int64_t i = 0; i < pixels; i++) {
                int64_t channel = k / outputs * inputs + c;
                *to++ = from[(channel * outputs + k % outputs) * pixels + pixels - 1 - i];
            }
    return onnx_emit_constant(importer, "filter", &out, data, result);
}

/* stride - 1 zeros behind each pixel. */
static int spread(struct onnx_importer *importer, int x, const int64_t stride[2], int *result)
{
    struct convoy_shape shape = importer->graph->tensors[x].shape;
    const int64_t n = shape.dims[0], c = shape.dims[1], h = shape.dims[2], w = shape.dims[3];
    struct convoy_shape apart = {.rank = 6, .batch_axis = shape.batch_axis, .dims = {n, c, h, 1, w, 1}};
    struct convoy_node *node;
    *result = x;
    if (stride[0] == 1 && stride[1] == 1)
        return 0;
    int status = onnx_emit_reshape(importer, x, &apart, result);
    apart.dims[3] = stride[0];
    apart.dims[5] = stride[1];
    if (status == 0)
        status = onnx_emit(importer, CONVOY_OP_PAD, result, 1, &apart, &node);
    if (status != 0)
        return status;
    node->pad.after[3] = stride[0] - 1;
    node->pad.after[5] = stride[1] - 1;
    shape.dims[2] = h * stride[0];
    shape.dims[3] = w * stride[1];
    return onnx_emit_reshape(importer, node->output, &shape, result);
}

/* The pads of the transposed convolution, and the height and width that come out, as the operator's
 * specification has them. */
static int read_window(struct onnx_importer *importer, const int64_t in[2], struct onnx_window *window,
                       int64_t out[2])
{
    const char *auto_pad;
    int64_t extra[2] = {0, 0}, wanted[2] = {0, 0};
    for (int i = 0; i < 2; i++)
        window->stride[i] = window->dilation[i] = 1;
    int status = onnx_window_numbers(importer, window, "kernel_shape", 1, window->size);
    if (status == 0)
        status = onnx_window_numbers(importer, window, "strides", 1, window->stride);
    if (status == 0)
        status = onnx_window_numbers(importer, window, "dilations", 1, window->dilation);
    if (status == 0)
        status = onnx_window_numbers(importer, window, "output_padding", 0, extra);
    if (status == 0)
        status = onnx_window_numbers(importer, window, "output_shape", 1, wanted);
    if (status == 0)
        status = onnx_attribute_string(importer, "auto_pad", "NOTSET", &auto_pad);
    if (status == 0 && strcmp(auto_pad, "NOTSET") == 0)
        status = onnx_window_pads(importer, window);
    if (status != 0)
        return status;
    for (int i = 0; i < 2; i++) {
        int64_t reach = (window->size[i] - 1) * window->dilation[i] + 1;
        int64_t full = window->stride[i] * (in[i] - 1) + extra[i] + reach;
        bool same = strncmp(auto_pad, "SAME", 4) == 0, flat_row = window->flat && i == 0;
        if (same && wanted[i] == 0)
            wanted[i] = in[i] * window->stride[i];
        if (wanted[i] > 0 && !flat_row) {
            int64_t total = full - wanted[i];
            bool more_at_end = strcmp(auto_pad, "SAME_UPPER") == 0;
            window->pad[i] = total < 0 ? 0 : more_at_end ? total / 2 : total - total / 2;
            window->pad[2 + i] = total - window->pad[i];
        }
        out[i] = full - window->pad[i] - window->pad[2 + i];
        /* What output_padding adds lies behind the last window. */
        window->pad[2 + i] -= extra[i];
    }
    return 0;
}

static int emit_conv(struct onnx_importer *importer, int x, int filter, const struct onnx_value *bias,
                     int64_t groups, const struct onnx_window *window, const int64_t out[2], int *result)
{
    const struct convoy_shape in = importer->graph->tensors[x].shape;
    struct convoy_shape shape = in;
    struct convoy_node *node;
    /* The input that the windows of all outputs reach over, cropped where that is less than there is. */
    for (int i = 0; i < 2; i++)
        shape.dims[2 + i] = out[i] + (window->size[i] - 1) * window->dilation[i];
    int status = onnx_emit(importer, CONVOY_OP_PAD, &x, 1, &shape, &node);
    if (status != 0)
        return status;
    for (int i = 0; i < 2; i++) {
        int64_t before = (window->size[i] - 1) * window->dilation[i] - window->pad[i];
        node->pad.before[2 + i] = before;
        node->pad.after[2 + i] = shape.dims[2 + i] - in.dims[2 + i] - before;
    }
    int inputs[3] = {node->output, filter, bias != NULL ? bias->tensor : -1};
    shape.dims[1] = importer->graph->tensors[filter].shape.dims[0];
    shape.dims[2] = out[0];
    shape.dims[3] = out[1];
    status = onnx_emit(importer, CONVOY_OP_CONV, inputs, bias != NULL ? 3 : 2, &shape, &node);
    if (status != 0)
        return status;
    node->conv = (struct convoy_conv){
        .groups = groups, .stride = {1, 1}, .dilation = {window->dilation[0], window->dilation[1]}};
    *result = node->output;
    return 0;
}

static int read_conv_transpose(struct onnx_importer *importer)
{
    const struct onnx_value *bias;
    struct onnx_window window = {0};
    int64_t groups, out[2];
    int x, weight, filter, result;
    const struct onnx_value *given_weight;
    int status = onnx_need_images(importer, &window, &x);
    if (status == 0)
        status = onnx_need_floats(importer, 1, "weight", &given_weight);
    weight = status == 0 ? given_weight->tensor : -1;
    if (status == 0)
        status = onnx_as_filter(importer, &window, &weight);
    if (status == 0)
        status = onnx_attribute_int(importer, "group", 1, &groups);
    if (status != 0)
        return status;
    const struct convoy_shape in = importer->graph->tensors[x].shape;
    const struct convoy_shape given = importer->graph->tensors[weight].shape;
    if (groups < 1 || given.dims[0] != in.dims[1] || given.dims[0] % groups != 0)
        return onnx_fail(importer, -EINVAL,
                         "its weight is for %" PRId64 " channels in %" PRId64
                         " groups, its input has %" PRId64 " channels",
                         given.dims[0], groups, in.dims[1]);
    window.size[0] = given.dims[2];
    window.size[1] = given.dims[3];
    status = onnx_read_bias(importer, given.dims[1] * groups, &bias);
    if (status == 0)
        status = read_window(importer, &in.dims[2], &window, out);
    if (status == 0 && (window.size[0] != given.dims[2] || window.size[1] != given.dims[3]))
        status = onnx_fail(importer, -EINVAL, "its kernel_shape is not that of its weight");
    if (status == 0)
        status = turned_filter(importer, &given, groups, &filter);
    if (status == 0)
        status = spread(importer, x, window.stride, &x);
    if (status == 0)
        status = emit_conv(importer, x, filter, bias, groups, &window, out, &result);
    return status == 0 ? onnx_set_images(importer, &window, result) : status;
}

/* ---- Col2Im ---- */

/* For each channel a filter of size[0] x size[1] inputs: the pixel that an input is goes to its place.
 * Turned. */
static int placing_filter(struct onnx_importer *importer, int64_t channels, const int64_t size[2],
                          int *result)
{
    int64_t pixels = size[0] * size[1];
    struct convoy_shape shape = {.rank = 4, .batch_axis = -1, .dims = {channels, pixels, size[0], size[1]}};
    void *data;
    int status = onnx_allocate(importer, &shape, false, &data);
    if (status != 0)
        return status;
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < pixels; i++)
            for (int64_t at = 0; at < pixels; at++)
                ((float *)data)[(c * pixels + i) * pixels + at] = at == pixels - 1 - i ? 1 : 0;
    return onnx_emit_constant(importer, "filter", &shape, data, result);
}

/* x, of [N, channels x pixels of a window, windows], as N x C x H x W of windows side by side. */
static int put_side_by_side(struct onnx_importer *importer, int x, int64_t channels, const int64_t size[2],
                            const int64_t count[2], int *result)
{
    static const int perm[6] = {0, 1, 4, 2, 5, 3};
    const struct convoy_shape in = importer->graph->tensors[x].shape;
    struct convoy_shape apart = {.rank = 6,
                                 .batch_axis = in.batch_axis,
                                 .dims = {in.dims[0], channels, size[0], size[1], count[0], count[1]}};
    struct convoy_shape image = {.rank = 4,
                                 .batch_axis = in.batch_axis,
                                 .dims = {in.dims[0], channels, size[0] * count[0], size[1] * count[1]}};
    int status = onnx_emit_reshape(importer, x, &apart, result);
    if (status == 0)
        status = onnx_emit_transpose(importer, *result, perm, result);
    return status == 0 ? onnx_emit_reshape(importer, *result, &image, result) : status;
}

/* How many windows the image has along each side. */
static int count_windows(struct onnx_importer *importer, const struct onnx_window *window,
                         const int64_t image[2], int64_t count[2])
{
    for (int i = 0; i < 2; i++) {
        int64_t reach = (window->size[i] - 1) * window->dilation[i] + 1;
        int64_t room = image[i] + window->pad[i] + window->pad[2 + i] - reach;
        if (room < 0)
            return onnx_fail(importer, -EINVAL, "its blocks are larger than its image");
        count[i] = room / window->stride[i] + 1;
    }
    return 0;
}

static int read_block(struct onnx_importer *importer, int index, int64_t values[2])
{
    int count;
    int status = onnx_input_ints(importer, index, values, 2, &count);
    if (status != 0)
        return status;
    if (count != 2)
        return onnx_refuse(importer, ONNX_CUT, "its image does not have height and width alone");
    for (int i = 0; i < 2; i++)
        if (values[i] < 1 || values[i] > INT32_MAX)
            return onnx_fail(importer, -EINVAL, "its input %d has %" PRId64 ", out of range", index,
                             values[i]);
    return 0;
}

static int read_col2im(struct onnx_importer *importer)
{
    struct onnx_window window = {.stride = {1, 1}, .dilation = {1, 1}};
    int64_t image[2] = {0, 0}, count[2] = {0, 0};
    int x, filter, result;
    int status = onnx_need_tensor(importer, 0, &x);
    if (status == 0)
        status = read_block(importer, 1, image);
    if (status == 0)
        status = read_block(importer, 2, window.size);
    if (status == 0)
        status = onnx_window_numbers(importer, &window, "strides", 1, window.stride);
    if (status == 0)
        status = onnx_window_numbers(importer, &window, "dilations", 1, window.dilation);
    if (status == 0)
        status = onnx_window_pads(importer, &window);
    if (status == 0)
        status = count_windows(importer, &window, image, count);
    if (status != 0)
        return status;
    struct convoy_shape shape = importer->graph->tensors[x].shape;
    int64_t pixels = window.size[0] * window.size[1], channels = shape.dims[1] / pixels;
    if (shape.rank != 3 || shape.dims[1] % pixels != 0 || count[0] > shape.dims[2] ||
        count[1] > shape.dims[2] || count[0] * count[1] != shape.dims[2])
        return onnx_fail(importer, -EINVAL,
                         "its input is not %" PRId64 " x %" PRId64 " windows of %" PRId64 " pixels", count[0],
                         count[1], pixels);
    if (shape.batch_axis > 0)
        return onnx_refuse(importer, ONNX_IMAGES_APART,
                           "it takes the images of a batch for pixels or windows");
    bool aside = true;
    for (int i = 0; i < 2; i++)
        aside = aside && window.size[i] == window.stride[i] && window.dilation[i] == 1 &&
                image[i] == count[i] * window.size[i] && window.pad[i] == 0 && window.pad[2 + i] == 0;
    if (aside) {
        status = put_side_by_side(importer, x, channels, window.size, count, &result);
        return status == 0 ? onnx_set_tensor(importer, result) : status;
    }
    shape.rank = 4;
    shape.dims[2] = count[0];
    shape.dims[3] = count[1];
    status = onnx_emit_reshape(importer, x, &shape, &x);
    if (status == 0)
        status = placing_filter(importer, channels, window.size, &filter);
    if (status == 0)
        status = spread(importer, x, window.stride, &x);
    if (status == 0)
        status = emit_conv(importer, x, filter, NULL, channels, &window, image, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

const struct onnx_operator onnx_conv_transpose_operators[] = {
    {"ConvTranspose", 2, 3, read_conv_transpose, ONNX_ANY_ORDER},
    {"Col2Im", 3, 3, read_col2im, ONNX_FILE_ORDER},
    {NULL, 0, 0, NULL, ONNX_ANY_ORDER},
};
