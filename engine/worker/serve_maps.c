/* Slots that ask for a class activation map (engine/graph/class_map.h).
 *
 * The network that serves never writes the maps: its outputs are the model's, and its last layers may run in
 * one kernel. So the model's file is read once more and loaded as a second network, whose outputs are the
 * scores and the maps of all classes; a slot's row runs on that, and the map of one class goes back.
 *
 * That network is loaded when a slot asks for it, while other slots are served. It takes the model's memory a
 * second time: at most MOST are loaded, and each is unloaded when it was not used for a while. A client that
 * asks for maps of one model after the other must not keep the device loading: after a load the next one
 * waits RESTS times as long as it took, and slots that need it are refused meanwhile. */
#include "engine/base/clock.h"
#include "engine/worker/canary.h"
#include "engine/worker/serve_internal.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST    2u
#define RESTS   4u
#define KEEP_US 10000000u

_Static_assert(CONVOY_MAX_SLOTS <= 64, "a bit for each slot");

static struct convoy_worker_net *net_of(struct convoy_worker *worker, uint32_t slot)
{
    return &worker->nets[worker->flights[slot].model];
}

/* 1: the slot waits. */
static int wait_for_load(struct convoy_worker *worker, uint32_t slot)
{
    struct convoy_worker_mapping *mapping = &worker->mapping;
    uint32_t model = worker->flights[slot].model;
    if (mapping->waiting == 0 ? convoy_now_us() < mapping->rest_until_us : mapping->model != model)
        return -EAGAIN;
    mapping->model = model;
    mapping->waiting |= UINT64_C(1) << slot;
    return 1;
}

int convoy_worker_map_job(struct convoy_worker *worker, uint32_t slot, struct convoy_job *job,
                          struct convoy_net **net)
{
    struct convoy_worker_flight *flight = &worker->flights[slot];
    struct convoy_worker_net *model = net_of(worker, slot);
    struct convoy_worker_maps *maps = &model->maps;
    if (job->rows != 1 || job->layout == CONVOY_LAYOUT_JPEG ||
        (flight->map != CONVOY_MAP_BEST && flight->map - CONVOY_MAP_CLASS >= model->info.output_elements[0]))
        return -EINVAL;
    if (maps->net == NULL)
        return wait_for_load(worker, slot);
    size_t bytes = convoy_slot_round(maps->info.outputs_per_row * sizeof(float));
    flight->scores_and_maps = aligned_alloc(CONVOY_SLOT_ALIGN, bytes);
    if (flight->scores_and_maps == NULL)
        return -ENOMEM;
    flight->outputs = (uint8_t *)job->output;
    flight->output_bytes = model->info.outputs_per_row * sizeof(float);
    job->output = flight->scores_and_maps;
    job->output_stride = bytes;
    *net = maps->net;
    maps->in_flight++;
    return 0;
}

/* As the front ranks classes: the highest score, of equal ones the first; what is no number comes last. */
static uint32_t best_of(const float *scores, uint32_t count)
{
    uint32_t best = 0;
    for (uint32_t k = 1; k < count; k++)
        if (scores[k] > scores[best] || (isnan(scores[best]) && !isnan(scores[k])))
            best = k;
    return best;
}

void convoy_worker_map_done(struct convoy_worker *worker, uint32_t slot)
{
    struct convoy_worker_flight *flight = &worker->flights[slot];
    struct convoy_worker_maps *maps = &net_of(worker, slot)->maps;
    struct convoy_slot_report *report = convoy_channel_report(&worker->channel, slot);
    const float *scores = flight->scores_and_maps;
    uint32_t classes = maps->info.output_elements[0];
    size_t values = (size_t)maps->height * maps->width, known = classes * sizeof(float);
    uint32_t class =
        flight->map == CONVOY_MAP_BEST ? best_of(scores, classes) : flight->map - CONVOY_MAP_CLASS;
    memcpy(flight->outputs, scores, known);
    memset(flight->outputs + known, 0, flight->output_bytes - known);
    memcpy(convoy_channel_class_map(&worker->channel, slot), scores + classes + class * values,
           values * sizeof(float));
    report->map_class = class;
    report->map_height = maps->height;
    report->map_width = maps->width;
    free(flight->scores_and_maps);
    flight->scores_and_maps = NULL;
    maps->in_flight--;
    maps->used_us = convoy_now_us();
}

bool convoy_worker_map_next(struct convoy_worker *worker, uint32_t *slot)
{
    uint64_t *ready = &worker->mapping.ready;
    if (*ready == 0)
        return false;
    *slot = (uint32_t)__builtin_ctzll(*ready);
    *ready &= *ready - 1;
    return true;
}

void convoy_worker_map_forget(struct convoy_worker *worker)
{
    worker->mapping.waiting = worker->mapping.ready = 0;
}

/* For the log. */
static void tell(struct convoy_worker *worker, const struct convoy_worker_net *net, const char *what)
{
    const cJSON *load = cJSON_GetObjectItemCaseSensitive(net->told, "load");
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(load, "name"));
    convoy_control_log(&worker->control, "debug", "class activation maps of %s: their network is %s",
                       name != NULL ? name : "a model", what);
}

/* Unloads the network that was not used for longest, if it was last used by until_us; false if none was. */
static bool unload_one(struct convoy_worker *worker, uint64_t until_us)
{
    struct convoy_worker_net *oldest = NULL;
    for (uint32_t model = 0; model < CONVOY_MAX_MODELS; model++) {
        struct convoy_worker_net *net = &worker->nets[model];
        if (net->maps.net != NULL && net->maps.in_flight == 0 && net->maps.used_us <= until_us &&
            (oldest == NULL || net->maps.used_us < oldest->maps.used_us))
            oldest = net;
    }
    if (oldest == NULL)
        return false;
    struct convoy_worker_maps gone = oldest->maps;
    memset(&oldest->maps, 0, sizeof oldest->maps); /* no slot finds it in the pauses */
    tell(worker, oldest, "unloaded");
    worker->serves_beside = true;
    convoy_worker_unload_maps(&worker->device, &gone);
    worker->serves_beside = false;
    convoy_worker_send_memory(worker);
    return true;
}

/* Networks for maps also go with their models. */
static void look_around(struct convoy_worker *worker)
{
    struct convoy_worker_mapping *mapping = &worker->mapping;
    uint64_t now_us = convoy_now_us(), first_us = now_us;
    mapping->loaded = 0;
    for (uint32_t model = 0; model < CONVOY_MAX_MODELS; model++) {
        const struct convoy_worker_maps *maps = &worker->nets[model].maps;
        mapping->loaded += maps->net != NULL;
        if (maps->net != NULL && maps->in_flight == 0 && maps->used_us < first_us)
            first_us = maps->used_us;
    }
    mapping->look_us = first_us + KEEP_US;
}

/* The maps must be those of the network that answers: of the files that it was read from. */
static int check_files(const struct convoy_worker_net *net, struct convoy_error *error)
{
    const cJSON *load = cJSON_GetObjectItemCaseSensitive(net->told, "load");
    const char *path = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(load, "path"));
    const char *files = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(net->told, "files"));
    if (path == NULL || files == NULL || strtoull(files, NULL, 16) != convoy_worker_canary_files(path))
        return convoy_fail(error, -ESTALE, "%s is not the file that the model was loaded from",
                           path != NULL ? path : "?");
    return 0;
}

static int load(struct convoy_worker *worker, struct convoy_worker_net *net, struct convoy_error *error)
{
    look_around(worker);
    if (net->net == NULL)
        return -ENOENT;
    if (worker->mapping.loaded >= MOST && !unload_one(worker, UINT64_MAX)) {
        convoy_worker_collect_all(worker);
        unload_one(worker, UINT64_MAX);
    }
    worker->serves_beside = true;
    int code = check_files(net, error);
    if (code == 0)
        code = convoy_worker_load_maps(&worker->device, &worker->background, net, error);
    if (code == 0 && (code = check_files(net, error)) != 0) /* it changed while it was read */
        convoy_worker_unload_maps(&worker->device, &net->maps);
    worker->serves_beside = false;
    if (code == -ENODEV)
        convoy_worker_lose_device(worker, error);
    if (code != 0)
        convoy_control_log(&worker->control, "warning",
                           "a network for class activation maps cannot be loaded: %s", error->message);
    else
        tell(worker, net, "loaded");
    return code;
}

/* Slots that came while it was loaded are among those that wait. */
static void end_wait(struct convoy_worker *worker, int code)
{
    struct convoy_worker_mapping *mapping = &worker->mapping;
    uint64_t waiting = mapping->waiting;
    mapping->waiting = 0;
    if (code == 0)
        mapping->ready |= waiting;
    for (; code != 0 && waiting != 0; waiting &= waiting - 1) {
        uint32_t slot = (uint32_t)__builtin_ctzll(waiting);
        convoy_worker_fail_slot(worker, slot, worker->flights[slot].generation, code);
    }
}

bool convoy_worker_map_load(struct convoy_worker *worker)
{
    struct convoy_worker_mapping *mapping = &worker->mapping;
    struct convoy_error error;
    uint64_t began_us = convoy_now_us();
    if (mapping->waiting == 0 && (mapping->loaded == 0 || began_us < mapping->look_us))
        return false;
    if (mapping->waiting == 0) {
        bool unloaded = began_us > KEEP_US && unload_one(worker, began_us - KEEP_US);
        look_around(worker);
        return unloaded;
    }
    struct convoy_worker_net *net = &worker->nets[mapping->model];
    int code = load(worker, net, &error);
    uint64_t now_us = convoy_now_us();
    mapping->rest_until_us = now_us + RESTS * (now_us - began_us);
    net->maps.used_us = now_us;
    look_around(worker);
    convoy_worker_send_memory(worker);
    end_wait(worker, code);
    return true;
}

int convoy_worker_map_wait_ms(const struct convoy_worker *worker)
{
    const struct convoy_worker_mapping *mapping = &worker->mapping;
    if (mapping->loaded == 0)
        return -1;
    uint64_t now_us = convoy_now_us();
    return now_us < mapping->look_us ? (int)((mapping->look_us - now_us) / 1000 + 1) : 0;
}
