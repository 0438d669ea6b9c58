/* Windows that slide over images: what Conv, ConvTranspose and the pools have in common. Images of one
 * dimension, N x C x L, are read as N x C x 1 x L. Of three dimensions only those are read whose filters
 * or windows have the size 1 along one of them: its positions are images of their own. */
#ifndef CONVOY_ENGINE_ONNX_WINDOW_H
#define CONVOY_ENGINE_ONNX_WINDOW_H

#include "engine/onnx/importer.h"

/* Height and width; pads are top, left, bottom, right. */
struct onnx_window {
    int64_t size[2], stride[2], dilation[2], pad[4];
    bool ceil_mode;
    bool flat;     /* of one dimension: attributes have one number where two are needed */
    int64_t depth; /* of that dimension */
    int deep;      /* of three dimensions: the one, from 2 on, along which the filter's size is 1; else 0 */
};

/* Of a window of three dimensions, `kernel_shape`: finds the one along which it has the size 1, before the
 * input is read. */
int onnx_find_deep(struct onnx_importer *importer, struct onnx_window *window);
/* *tensor is input 0 as N x C x H x W; `window` learns whether it was N x C x L. */
int onnx_need_images(struct onnx_importer *importer, struct onnx_window *window, int *tensor);
/* Make N x C x H x W of a tensor, and of the result again what the input was. */
int onnx_as_images(struct onnx_importer *importer, struct onnx_window *window, int *tensor);
int onnx_from_images(struct onnx_importer *importer, const struct onnx_window *window, int *tensor);
/* The output is a tensor of N x C x H x W, which becomes N x C x L again where the input was that. */
int onnx_set_images(struct onnx_importer *importer, const struct onnx_window *window, int tensor);
/* Reads an attribute of one number for each dimension, if it is there, each of which is at least `least`. */
int onnx_window_numbers(struct onnx_importer *importer, const struct onnx_window *window, const char *name,
                        int64_t least, int64_t values[2]);
/* Reads `pads`, as ONNX writes them. */
int onnx_window_pads(struct onnx_importer *importer, struct onnx_window *window);
/* Reads strides, dilations and pads for windows of window->size over x, and the H and W that come out. With
 * ceil_mode a window that reaches over all of x becomes as small as that. */
int onnx_slide(struct onnx_importer *importer, const struct convoy_shape *x, struct onnx_window *window,
               int64_t out[2]);
/* Makes K x C x R x S of a weight. */
int onnx_as_filter(struct onnx_importer *importer, const struct onnx_window *window, int *tensor);
/* *bias is input 2, a constant of one number for each channel; NULL where it is left out. */
int onnx_read_bias(struct onnx_importer *importer, int64_t channels, const struct onnx_value **bias);
/* Adds a CONV as the node's attributes say, of images and a weight of constants as they are in the file; bias
 * is -1 where there is none. */
int onnx_emit_conv(struct onnx_importer *importer, int x, int weight, int bias, int *result);
/* Adds a POOL. */
int onnx_emit_pool(struct onnx_importer *importer, int x, enum convoy_pool_kind kind,
                   const struct onnx_window *window, const int64_t out[2], bool count_include_pad,
                   int *result);
/* The mean, or the maximum, over height x width windows that fill H and W. */
int onnx_emit_pooled(struct onnx_importer *importer, int x, enum convoy_pool_kind kind, int64_t height,
                     int64_t width, int *result);

#endif
