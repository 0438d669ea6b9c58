/* The models of one worker: reads a model's file, loads it into the device, describes it to the front.
 * Threads: the compute thread. */
#ifndef CONVOY_ENGINE_WORKER_NETS_H
#define CONVOY_ENGINE_WORKER_NETS_H

#include "engine/ipc/canary.h"
#include "engine/worker/background.h"
#include "engine/worker/module.h"

#include <cjson/cJSON.h>

/* What a network answers to the canary's row. */
struct convoy_worker_known {
    bool there, exact; /* exact: each run gives the same bits */
    bool changed;      /* other kernels since: the hash has to be taken again */
    struct convoy_canary first;
    uint64_t hash; /* with the present kernels */
};

/* The network once more, for class activation maps (engine/graph/class_map.h): a row at a time, its outputs
 * the first one of the model and the maps of all classes. */
struct convoy_worker_maps {
    struct convoy_net *net;     /* NULL: not loaded */
    struct convoy_graph *graph; /* as below */
    struct convoy_net_info info;
    uint32_t height, width; /* of a map */
    uint32_t in_flight;     /* its jobs */
    uint64_t used_us;       /* convoy_now_us() of the last one */
};

struct convoy_worker_net {
    struct convoy_net *net;     /* NULL: not loaded */
    struct convoy_graph *graph; /* kept if the backend needs it as long as net, else NULL */
    struct convoy_net_info info;
    uint32_t max_batch;
    bool fp32_only; /* its configuration accepts no less */
    struct convoy_worker_maps maps;
    struct convoy_worker_known known;
    /* What is told to a front that comes later (serve_adopt.c): the description of the message
     * "loaded", and in it as "load" what decides what the model computes. NULL when memory was out. */
    cJSON *told;
};

/* Reads the model that a load command asks for ("path", "name", "precision", "max_batch", "multiply", "add",
 * "normalise_bytes": whether the last two hold for a network of uint8, too; "layout", "height", "width": of
 * its input, as config.json has them; "fitting": how JPEG files become rows, as struct convoy_image_fitting,
 * with "resize_to" and "crop_fraction" in place of sizes; "decoder_first": loaded only when the device can
 * decode them, or cannot) and loads it into *net. The file is read in the
 * background; on this thread if background is NULL. On success *described (described may be NULL) is a new
 * JSON object for the message "loaded": input, datatype, layout, channels, height, width, outputs, classes,
 * softmax, class_map, precision, weight_bytes, layers, takes_jpeg. Returns 0 or the errno of the reader or
 * the backend. */
int convoy_worker_load(struct convoy_worker_device *device, const cJSON *message,
                       const struct convoy_background *background, struct convoy_worker_net *net,
                       cJSON **described, struct convoy_error *error);
/* Reads the file that the command names ("path", "layout", "height", "width") and describes its input and
 * outputs, as convoy_worker_load() does, without loading it: a fraction of a load's time. Returns 0 or the
 * reader's errno. */
int convoy_worker_measure(const cJSON *message, cJSON **described, struct convoy_error *error);
/* Loads net->maps, which is not loaded, by the command that net was loaded with. The file is read in the
 * background; the caller sees to it that it is the file that net was read from. -ENOTSUP: it has no maps;
 * else as convoy_worker_load(). */
int convoy_worker_load_maps(struct convoy_worker_device *device, const struct convoy_background *background,
                            struct convoy_worker_net *net, struct convoy_error *error);
void convoy_worker_unload_maps(struct convoy_worker_device *device, struct convoy_worker_maps *maps);
/* Adds "weight_bytes", "precision", "takes_jpeg" and "layers" to object. */
void convoy_worker_describe(const struct convoy_net_info *info, cJSON *object);
/* Frees the model and empties *net. Accepts one that is not loaded. */
void convoy_worker_unload(struct convoy_worker_device *device, struct convoy_worker_net *net);

#endif
