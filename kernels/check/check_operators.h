/* The checks of matrix products and of every kernel that is no convolution, on the current device. */
#ifndef CONVOY_KERNELS_CHECK_OPERATORS_H
#define CONVOY_KERNELS_CHECK_OPERATORS_H

#include "kernels/check/check_harness.h"

/* Hundreds of small awkward shapes of every matrix product, and of everything else that is no convolution.
 * cases: of each. `only`: the name of the operator that is checked; NULL: all. Both print a line for each
 * kernel and each failure, and return the number of failures. */
int convoy_check_gemm(uint64_t seed, int cases);
int convoy_check_operators(uint64_t seed, int cases, const char *only);
/* Is there an operator of that name? */
bool convoy_check_has_operator(const char *name);

/* One case of random shape, as part of convoy_check_operators(). */
void convoy_check_pool(struct convoy_check *check);
void convoy_check_read_images(struct convoy_check *check);
void convoy_check_fit_images(struct convoy_check *check);
void convoy_check_decoded_planes(struct convoy_check *check);
/* Where the device has kernels for tensors in 16 bits. */
void convoy_check_attention(struct convoy_check *check);
void convoy_check_nhwc_pool(struct convoy_check *check);
void convoy_check_nhwc_normalize(struct convoy_check *check);
void convoy_check_gather(struct convoy_check *check);
void convoy_check_excite(struct convoy_check *check);
void convoy_check_patches(struct convoy_check *check);
void convoy_check_bottleneck(struct convoy_check *check);
void convoy_check_inverted(struct convoy_check *check);

#endif
