/* A time for each layer: the mean over profiled images, For one thread at a time. */
#ifndef CONVOY_CLIENT_LAYERS_H
#define CONVOY_CLIENT_LAYERS_H

#include "client/lib/convoy.h"

/* Zeroed, it is empty. */
struct client_layer_means {
    struct convoy_layer *layers; /* us is the mean */
    size_t count;
    size_t images; /* number of images in the means */
};

/* Adds one image's layers to the means. Returns 0, -ENOMEM, or -EPROTO when they are not the layers of the
 * previous images. */
int client_layer_means_add(struct client_layer_means *means, const struct convoy_layer *layers, size_t count,
                           struct convoy_failure *failure);

void client_layer_means_clear(struct client_layer_means *means);

#endif
