/* Convolutions that are kept to be measured, not to serve: rungs of the reports' ladder that the tuner would
 * never pick. Part of the programs convoy-kernels and convoy-kernels-emulated alone; libconvoy-kernels.so
 * does not contain them. */
#ifndef CONVOY_KERNELS_REFERENCE_H
#define CONVOY_KERNELS_REFERENCE_H

#include "kernels/kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct convoy_conv_kernel convoy_conv_constant, convoy_conv_channel_split;

struct convoy_reference_kernel {
    const struct convoy_conv_kernel *kernel;
    const char *after; /* the family behind which it stands in the ladder, as "tiled" */
};

/* All of them, in the ladder's order. Static; never freed. Any thread. */
const struct convoy_reference_kernel *convoy_reference_kernels(int *count);

#ifdef __cplusplus
}
#endif
#endif
