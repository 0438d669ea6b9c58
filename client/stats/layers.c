#include "client/stats/layers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/failure.h"

/* Makes the list from the first image. */
static int open_means(struct client_layer_means *means, const struct convoy_layer *layers, size_t count,
                      struct convoy_failure *failure)
{
    means->layers = calloc(count ? count : 1, sizeof *means->layers);
    if (!means->layers)
        return client_fail_with(failure, -ENOMEM, "memory is out");
    for (size_t i = 0; i < count; i++) {
        means->layers[i].name = strdup(layers[i].name);
        means->layers[i].kernel = strdup(layers[i].kernel);
        means->count++;
        if (!means->layers[i].name || !means->layers[i].kernel)
            return client_fail_with(failure, -ENOMEM, "memory is out");
    }
    return 0;
}

int client_layer_means_add(struct client_layer_means *means, const struct convoy_layer *layers, size_t count,
                           struct convoy_failure *failure)
{
    if (means->images == 0 && !means->layers) {
        int status = open_means(means, layers, count, failure);
        if (status) {
            client_layer_means_clear(means);
            return status;
        }
    }
    bool same = count == means->count;
    for (size_t i = 0; same && i < count; i++)
        same = means->layers[i].name && strcmp(layers[i].name, means->layers[i].name) == 0;
    if (!same)
        return client_fail_with(failure, -EPROTO,
                                "the layers changed between two images: was the model replaced?");
    means->images++;
    for (size_t i = 0; i < count; i++)
        means->layers[i].us += (layers[i].us - means->layers[i].us) / (double)means->images;
    return 0;
}

void client_layer_means_clear(struct client_layer_means *means)
{
    for (size_t i = 0; i < means->count; i++) {
        free((char *)means->layers[i].name);
        free((char *)means->layers[i].kernel);
    }
    free(means->layers);
    memset(means, 0, sizeof *means);
}
