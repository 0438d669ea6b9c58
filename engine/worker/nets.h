/* The models of one worker: read, loaded into its device, described to the front. Used by one thread. */
#ifndef CONVOY_ENGINE_WORKER_NETS_H
#define CONVOY_ENGINE_WORKER_NETS_H

#include "engine/worker/background.h"
#include "engine/worker/module.h"

#include <cjson/cJSON.h>

struct convoy_worker_net {
    struct convoy_net *net;     /* NULL: not loaded */
    struct convoy_graph *graph; /* where the backend needs it as long as net */
    struct convoy_net_info info;
    uint32_t max_batch;
};

/* Reads the model that message ("path", "name", "precision", "max_batch", "multiply", "add") asks for and
 * loads it. On success *described (may be NULL) is a new JSON object with what LOADED says about it: input,
 * channels, height, width, outputs, softmax, precision, weight_bytes, layers. The file is read in the
 * background; NULL: on this thread. */
int convoy_worker_load(struct convoy_worker_device *device, const cJSON *message,
                       const struct convoy_background *background, struct convoy_worker_net *net,
                       cJSON **described, struct convoy_error *error);
/* "weight_bytes" and "layers" of what a backend made of a model, into object. */
void convoy_worker_describe(const struct convoy_net_info *info, cJSON *object);
void convoy_worker_unload(struct convoy_worker_device *device, struct convoy_worker_net *net);

#endif
