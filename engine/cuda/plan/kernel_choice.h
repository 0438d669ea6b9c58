/* Which kernel a step runs on: what was measured where it was (the tuner's), else the least guess. */
#ifndef CONVOY_ENGINE_CUDA_KERNEL_CHOICE_H
#define CONVOY_ENGINE_CUDA_KERNEL_CHOICE_H

#include "kernels/kernels.h"
#include "kernels/whole_net.h"

#define CONVOY_CUDA_KEY_BYTES 160

/* A shape in words, the same for equal shapes: "conv n8 c3 h32 ...". */
struct convoy_cuda_key {
    char text[CONVOY_CUDA_KEY_BYTES];
};

/* What a choice is called where a network runs layer by layer, not by a kernel of whole_net.h. */
#define CONVOY_CUDA_LAYERS "layers"

struct convoy_cuda_kernel_choice {
    struct convoy_cuda_key key;
    const char *kernel; /* a kernel's own name */
    float us;           /* what it took; 0: there was no other */
};

struct convoy_cuda_guess;

/* What is known, in order of key. All zero is nothing. */
struct convoy_cuda_kernel_choices {
    int count, capacity;
    struct convoy_cuda_kernel_choice *choices;
    struct convoy_cuda_guess *guesses; /* that were made lately; NULL: each is made anew */
};

/* From now on a guess is remembered: networks repeat their layers, and every bucket comes in two forms.
 * Loading four networks spent a fifth of its processor time on guessing the same again. Without memory it
 * goes on so. */
void convoy_cuda_kernel_choices_remember(struct convoy_cuda_kernel_choices *choices);

void convoy_cuda_conv_key(const struct convoy_conv_shape *shape, struct convoy_cuda_key *key);
void convoy_cuda_gemm_key(const struct convoy_gemm_shape *shape, struct convoy_cuda_key *key);

/* The kernel for a shape; never NULL, because one of each kind takes everything. */
const struct convoy_conv_kernel *convoy_cuda_choose_conv(const struct convoy_cuda_kernel_choices *choices,
                                                         const struct convoy_conv_shape *shape);
const struct convoy_gemm_kernel *convoy_cuda_choose_gemm(const struct convoy_cuda_kernel_choices *choices,
                                                         const struct convoy_gemm_shape *shape);

/* Notes that kernel (by its name; unknown names are passed over) is best for key. 0 or -ENOMEM. */
int convoy_cuda_kernel_choices_set(struct convoy_cuda_kernel_choices *choices,
                                   const struct convoy_cuda_key *key, const char *kernel, float us);
const char *convoy_cuda_kernel_choices_get(const struct convoy_cuda_kernel_choices *choices,
                                           const struct convoy_cuda_key *key);
/* Is the kernel known that is best for a shape, and can it run it? */
bool convoy_cuda_knows_conv(const struct convoy_cuda_kernel_choices *choices,
                            const struct convoy_conv_shape *shape);
bool convoy_cuda_knows_gemm(const struct convoy_cuda_kernel_choices *choices,
                            const struct convoy_gemm_shape *shape);
void convoy_cuda_kernel_choices_free(struct convoy_cuda_kernel_choices *choices);

#endif
