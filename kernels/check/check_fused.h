/* Networks that whole_net is checked and timed with. */
#ifndef CONVOY_KERNELS_CHECK_FUSED_H
#define CONVOY_KERNELS_CHECK_FUSED_H

#include "kernels/check/check_harness.h"
#include "kernels/fused_net.h"

struct check_network {
    struct convoy_fused_shape shape;
    struct convoy_fused_layer layers[CONVOY_FUSED_LAYERS];
    float *constants[2 * CONVOY_FUSED_LAYERS];
    int constant_count;
    bool wide;   /* of chance: layers that warpgroups take */
    bool narrow; /* of chance: results as large as the images, which may take their place */
};

/* A further layer, that reads what layer input made (-1: the images); its constants are still to be filled.
 */
struct convoy_fused_layer *check_network_add(struct check_network *net, enum convoy_fused_kind kind,
                                             int input);
/* Random weights and bias, such that activations stay about as large as they were. */
void check_network_fill(struct convoy_check *check, struct check_network *net,
                        struct convoy_fused_layer *layer);
void check_network_free(struct check_network *net);

/* The last layer's outputs for the image at data, every tensor rounded where kernels of this compute type
 * round.
 */
void check_network_reference(const struct check_network *net, enum convoy_compute_type compute_type,
                             const struct convoy_images *images, const char *data, double *want);

/* Random small networks, each on some of whole_net's kernels; few: a third as many. Returns the number of
 * failures. */
int convoy_check_fused(uint64_t seed, bool few);

/* --networks: the networks that ship, with random weights, on every kernel of whole_net that takes them.
 * Returns how many were wrong. */
int check_networks(uint64_t seed, int runs, const int *batches, int batch_count, const char *kernel_name);

#endif
