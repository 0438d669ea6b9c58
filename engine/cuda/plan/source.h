/* What the plans of a network are made from, and what follows from the source alone: the strides of rows and
 * the dimensions of tensors. */
#ifndef CONVOY_ENGINE_CUDA_SOURCE_H
#define CONVOY_ENGINE_CUDA_SOURCE_H

#include "engine/backend.h"
#include "engine/cuda/plan/groups.h"
#include "engine/cuda/plan/kernel_choice.h"
#include "engine/cuda/plan/weights.h"

/* All plans of a network share one source. The caller owns everything that it points to. */
struct convoy_cuda_source {
    enum convoy_compute_type compute_type; /* the least exact arithmetic that is accepted */
    const struct convoy_graph *graph;
    const struct convoy_cuda_groups *groups;
    struct convoy_cuda_weights *weights;
    const struct convoy_cuda_kernel_choices *choices; /* what the tuner knows */
    bool wide;                                        /* all tensors are float32, whatever is multiplied */
    bool layers_first; /* bottlenecks of which nothing is known run layer by layer, so that the layers are
                          timed */
    uint32_t channels, outputs_per_row;
    int64_t pixels; /* of a row, in each channel */
    float multiply[CONVOY_MAX_U8_CHANNELS], add[CONVOY_MAX_U8_CHANNELS];
};

/* Bytes from row to row in the channel and in the workspace; equal, so that one copy takes all rows. */
size_t convoy_cuda_input_stride(const struct convoy_cuda_source *source, enum convoy_input_layout layout);
size_t convoy_cuda_output_stride(const struct convoy_cuda_source *source);

/* The rows of the input as kernels read them, except for their address. */
struct convoy_images convoy_cuda_images(const struct convoy_cuda_source *source,
                                        enum convoy_input_layout layout);

/* Writes the dimensions that a tensor has in a batch of `rows`; returns the rank. */
int convoy_cuda_tensor_dims(const struct convoy_graph *graph, int tensor, uint32_t rows,
                            int64_t dims[CONVOY_MAX_RANK]);

/* True if one convolution, and no other node, reads the input: then it reads the rows as they were copied. */
bool convoy_cuda_reads_rows(const struct convoy_graph *graph);

/* Fills in the shape of the convolution that is the anchor of group, for a batch of `rows`; u8 stays false.
 * False: a dimension is too large for the kernels. */
bool convoy_cuda_conv_shape(const struct convoy_cuda_source *source, const struct convoy_cuda_group *group,
                            uint32_t rows, struct convoy_conv_shape *shape);

#endif
