/* The groups at a network's beginning that one kernel (kernels/whole_net.h) could run at once. */
#ifndef CONVOY_ENGINE_CUDA_CHAIN_H
#define CONVOY_ENGINE_CUDA_CHAIN_H

#include "engine/cuda/plan/source.h"
#include "kernels/whole_net.h"

struct convoy_cuda_chain {
    int count;                                             /* layers; 0: there is nothing to run at once */
    struct convoy_whole_layer layers[CONVOY_WHOLE_LAYERS]; /* with the graph's own constants */
    bool softmax;                                          /* of the last one's result */
    int groups; /* from the first on that they are, views among them */
    int output; /* the tensor that comes out, of which alone something is read outside */
};

/* The longest one that reaches no further. Thread-safe; nothing is allocated. */
void convoy_cuda_chain(const struct convoy_cuda_source *source, enum convoy_whole_reach reach,
                       struct convoy_cuda_chain *chain);

/* The same for chains that compute the same with the same weights' shapes. */
uint64_t convoy_cuda_chain_fingerprint(const struct convoy_cuda_chain *chain);

/* As kernel_choice.h's keys: for the network's whole chain, which is not empty. */
void convoy_cuda_whole_key(const struct convoy_cuda_source *source, const struct convoy_cuda_chain *chain,
                           uint32_t rows, enum convoy_input_layout layout, struct convoy_cuda_key *key);

/* The kernel that was found to be fastest for a network, rows and layout, or NULL: layer by layer. */
const struct convoy_whole_kernel *convoy_cuda_whole_chosen(const struct convoy_cuda_source *source,
                                                           uint32_t rows, enum convoy_input_layout layout);

/* For a kernel of that chain. */
struct convoy_whole_shape convoy_cuda_whole_shape(const struct convoy_cuda_source *source,
                                                  const struct convoy_cuda_chain *chain, uint32_t rows,
                                                  enum convoy_input_layout layout);

#endif
