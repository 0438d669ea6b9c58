/* The groups at the beginning of a network that one kernel of kernels/fused_net.h can run. All functions are
 * thread-safe and allocate nothing. */
#ifndef CONVOY_ENGINE_CUDA_FUSABLE_PREFIX_H
#define CONVOY_ENGINE_CUDA_FUSABLE_PREFIX_H

#include "engine/cuda/plan/source.h"
#include "kernels/fused_net.h"

struct convoy_cuda_fusable_prefix {
    int count;                                             /* layers; 0: no kernel can run the beginning */
    struct convoy_fused_layer layers[CONVOY_FUSED_LAYERS]; /* weights and biases point into the graph */
    bool softmax;                                          /* applied to the result of the last layer */
    int groups; /* number of leading groups covered, views included */
    int output; /* the tensor that the last group writes; later groups read no other tensor of these groups */
};

/* Finds the longest fusable prefix within `span`. */
void convoy_cuda_find_fusable_prefix(const struct convoy_cuda_source *source, enum convoy_fused_span span,
                                     struct convoy_cuda_fusable_prefix *prefix);

/* Returns a hash that is equal for prefixes with equal operators and shapes; values of weights do not count.
 */
uint64_t convoy_cuda_prefix_fingerprint(const struct convoy_cuda_fusable_prefix *prefix);

/* Writes the key under which kernel_choice.h keeps how the network runs. prefix is the longest one, span
 * ALL, and not empty. */
void convoy_cuda_fused_key(const struct convoy_cuda_source *source,
                           const struct convoy_cuda_fusable_prefix *prefix, uint32_t rows,
                           enum convoy_input_layout layout, struct convoy_cuda_key *key);

/* Returns the kernel that was measured to be fastest for a network, rows and layout, or NULL: run it layer by
 * layer. */
const struct convoy_fused_kernel *convoy_cuda_fused_chosen(const struct convoy_cuda_source *source,
                                                           uint32_t rows, enum convoy_input_layout layout);

/* Returns the shape that a kernel for this prefix is planned with; the caller sets y_stride. */
struct convoy_fused_shape convoy_cuda_fused_shape(const struct convoy_cuda_source *source,
                                                  const struct convoy_cuda_fusable_prefix *prefix,
                                                  uint32_t rows, enum convoy_input_layout layout);

#endif
