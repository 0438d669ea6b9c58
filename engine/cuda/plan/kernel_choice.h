/* Which kernel runs a shape: the one that the tuner measured to be fastest, if it is known, else the one with
 * the least estimated time. Compute thread only. */
#ifndef CONVOY_ENGINE_CUDA_KERNEL_CHOICE_H
#define CONVOY_ENGINE_CUDA_KERNEL_CHOICE_H

#include "kernels/fused_net.h"
#include "kernels/kernels.h"

#define CONVOY_CUDA_KEY_BYTES 160

/* A shape as text, "conv n8 x3x32x32 ...": equal shapes have equal keys. */
struct convoy_cuda_key {
    char text[CONVOY_CUDA_KEY_BYTES];
};

/* The kernel's name in a choice of running a network layer by layer, without a kernel of fused_net.h, or
 * a bottleneck without one of bottleneck.h, or squeeze and excitation apart from the convolution behind it.
 */
#define CONVOY_CUDA_LAYERS "layers"
/* The one in a choice of running a network's layers on all branches that it can have (branches.h), instead of
 * one after the other. */
#define CONVOY_CUDA_BRANCHES "branches"

struct convoy_cuda_kernel_choice {
    struct convoy_cuda_key key;
    const char *kernel; /* static: the name in the kernel's own table, or one of the two above */
    float us; /* measured time of one launch, or of the network where that was run with it; 0: there was only
                 one candidate, or it was taken over (tune_adopt.h) */
};

/* What is to be chosen for one key while it is timed, whatever is known. */
struct convoy_cuda_wish {
    struct convoy_cuda_key key;
    const char *kernel; /* as in a choice */
};

struct convoy_cuda_estimate;

/* The known choices, in order of key. All zero: nothing is known. */
struct convoy_cuda_kernel_choices {
    int count, capacity;
    struct convoy_cuda_kernel_choice *choices;
    const struct convoy_cuda_wish *wish;    /* NULL: none */
    struct convoy_cuda_estimate *estimates; /* recent estimated choices; NULL: none are kept */
};

/* Remembers estimated choices from now on, if memory suffices: networks repeat their layers, and every bucket
 * has plans for two layouts. Without this, repeated estimates were a fifth of the processor time of loading
 * four networks.
 */
void convoy_cuda_kernel_choices_remember(struct convoy_cuda_kernel_choices *choices);

void convoy_cuda_conv_key(const struct convoy_conv_shape *shape, struct convoy_cuda_key *key);
void convoy_cuda_gemm_key(const struct convoy_gemm_shape *shape, struct convoy_cuda_key *key);

/* Returns the kernel for a shape. Never NULL for float32 in planes: one kernel of each kind takes every
 * shape. NULL: none takes this shape with nhwc.on. */
const struct convoy_conv_kernel *convoy_cuda_choose_conv(const struct convoy_cuda_kernel_choices *choices,
                                                         const struct convoy_conv_shape *shape);
const struct convoy_gemm_kernel *convoy_cuda_choose_gemm(const struct convoy_cuda_kernel_choices *choices,
                                                         const struct convoy_gemm_shape *shape);

/* Was it chosen to run what this shape computes layer by layer, which no kernel of its own does? */
bool convoy_cuda_chose_layers(const struct convoy_cuda_kernel_choices *choices,
                              const struct convoy_conv_shape *shape);

/* Records that the kernel of this name is fastest for key; an unknown name is ignored. 0 or -ENOMEM. */
int convoy_cuda_kernel_choices_set(struct convoy_cuda_kernel_choices *choices,
                                   const struct convoy_cuda_key *key, const char *kernel, float us);
/* Returns the name of the fastest kernel for key, or of the one that is wished for; NULL: it is not known. */
const char *convoy_cuda_kernel_choices_get(const struct convoy_cuda_kernel_choices *choices,
                                           const struct convoy_cuda_key *key);
/* True if the fastest kernel for a shape is known and takes the shape, or if layers were chosen. */
bool convoy_cuda_knows_conv(const struct convoy_cuda_kernel_choices *choices,
                            const struct convoy_conv_shape *shape);
bool convoy_cuda_knows_gemm(const struct convoy_cuda_kernel_choices *choices,
                            const struct convoy_gemm_shape *shape);
void convoy_cuda_kernel_choices_free(struct convoy_cuda_kernel_choices *choices);

#endif
