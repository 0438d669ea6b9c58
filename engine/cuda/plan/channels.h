/* Which axis of a tensor holds the channels that belong to a pixel, so that the tensor can be kept in 16
 * bits, channels last (kernels/nhwc.h).
 *
 * Images are N x C x H x W, and what follows from them by transposing or reshaping is N x H x W x C, N x T x
 * C or rows of C, T for each image: these have the same numbers in the same places of that layout, so such
 * transpositions and reshapes cost nothing there. So have T x N x C and rows that were cut into windows: in
 * that layout image follows image in any case, and an image's rows may have another order (rows.h). A tensor
 * that is none of these stays in planes: rows divided among heads, N x T x heads x d, are no image. */
#ifndef CONVOY_ENGINE_CUDA_CHANNELS_H
#define CONVOY_ENGINE_CUDA_CHANNELS_H

#include "engine/graph/graph.h"

enum convoy_cuda_channels {
    CONVOY_CUDA_CHANNELS_NONE,
    CONVOY_CUDA_CHANNELS_FIRST, /* axis 1, behind the batch */
    CONVOY_CUDA_CHANNELS_LAST   /* the last axis */
};

/* How many parts of a tensor lie before its images, by its shape: 1 where image follows image, T in T x N x
 * C. */
int64_t convoy_cuda_before_images(const struct convoy_shape *shape);

/* Writes for each of the graph's tensors where its channels are, and how many parts lie before its images
 * (rows of a matrix may be T x N, which their shape does not say); -1: unknown, and then it has no channels.
 */
void convoy_cuda_find_channels(const struct convoy_graph *graph, enum convoy_cuda_channels *channels,
                               int64_t *before);

/* Is the node a transposition or a reshape that moves no number of a tensor in 16 bits, channels last? */
bool convoy_cuda_is_pixel_view(const struct convoy_graph *graph, const struct convoy_node *node,
                               const enum convoy_cuda_channels *channels);

/* Channels and pixels of an image. False: the tensor has none. */
bool convoy_cuda_channels_and_pixels(const struct convoy_shape *shape, enum convoy_cuda_channels where,
                                     int64_t *channels, int64_t *pixels);

#endif
