/* A front that takes a worker over from a front that is gone.
 *
 *     the new front                                              the worker
 *     adopt                              -- control socket -->   finishes what it computes for the old one
 *                                  <-- CONVOY_LINE_CUT, hello -- and passes by the rest
 *                                  <-- held, for each model --   its number, shapes and load
 *                                  <-- adopted --
 *     keep: number by number                             -->     unloads the others, renumbers these
 *                                  <-- attached --
 *     submits slots
 *
 * A worker that has no channel yet says "attached": false in its hello. A front has no use for it.
 *
 * Threads: the compute thread. */
#include "engine/worker/serve_internal.h"

#include <stdlib.h>
#include <string.h>

void convoy_worker_remember(struct convoy_worker_net *net, const cJSON *command, const cJSON *described)
{
    /* Not what differs between two fronts that load the same. */
    static const char *const others[] = {"type", "model", "beside"};
    cJSON *load = cJSON_Duplicate(command, 1);
    net->told = cJSON_Duplicate(described, 1);
    for (size_t i = 0; load != NULL && i < sizeof others / sizeof others[0]; i++)
        cJSON_DeleteItemFromObjectCaseSensitive(load, others[i]);
    if (net->told != NULL && load != NULL && cJSON_AddItemToObject(net->told, "load", load))
        return;
    cJSON_Delete(load);
    cJSON_Delete(net->told);
    net->told = NULL;
}

void convoy_worker_remember_tuned(struct convoy_worker_net *net, const struct convoy_net_info *info)
{
    static const char *const changed[] = {"weight_bytes", "precision", "layers", "takes_jpeg"};
    if (net->told == NULL)
        return;
    for (size_t i = 0; i < sizeof changed / sizeof changed[0]; i++)
        cJSON_DeleteItemFromObjectCaseSensitive(net->told, changed[i]);
    convoy_worker_describe(info, net->told);
}

void convoy_worker_adopt(struct convoy_worker *worker)
{
    /* Its rows and outputs lie in slots that the new front will fill. */
    convoy_worker_collect_all(worker);
    convoy_worker_map_forget(worker);
    worker->renumbering = true;
    if (worker->attached)
        convoy_channel_pass_by(&worker->channel);
    convoy_control_cut(&worker->control);
    cJSON *hello = convoy_worker_hello(worker);
    cJSON_AddBoolToObject(hello, "attached", worker->attached);
    cJSON_AddNumberToObject(hello, "turn", worker->channel.turn);
    convoy_control_send(&worker->control, hello);
    for (uint32_t model = 0; model < CONVOY_MAX_MODELS; model++) {
        if (worker->nets[model].net == NULL || worker->nets[model].told == NULL)
            continue;
        cJSON *held = cJSON_Duplicate(worker->nets[model].told, 1);
        cJSON_AddStringToObject(held, "type", "held");
        cJSON_AddNumberToObject(held, "model", model);
        convoy_control_send(&worker->control, held);
    }
    cJSON *end = cJSON_CreateObject();
    cJSON_AddStringToObject(end, "type", "adopted");
    convoy_control_send(&worker->control, end);
}

static bool is_model(uint64_t number)
{
    return number < CONVOY_MAX_MODELS;
}

void convoy_worker_keep(struct convoy_worker *worker, const cJSON *command)
{
    struct convoy_worker_net *old = malloc(sizeof worker->nets);
    const cJSON *pair;
    if (old == NULL)
        abort();
    memcpy(old, worker->nets, sizeof worker->nets);
    memset(worker->nets, 0, sizeof worker->nets);
    cJSON_ArrayForEach(pair, cJSON_GetObjectItemCaseSensitive(command, "models"))
    {
        uint64_t was = convoy_worker_number(pair, "was"), is = convoy_worker_number(pair, "is");
        if (!is_model(was) || !is_model(is) || worker->nets[is].net != NULL)
            continue;
        worker->nets[is] = old[was];
        memset(&old[was], 0, sizeof old[was]);
    }
    for (uint32_t model = 0; model < CONVOY_MAX_MODELS; model++)
        convoy_worker_unload(&worker->device, &old[model]);
    free(old);
    worker->renumbering = false;
    convoy_worker_send_memory(worker);
    cJSON *answer = cJSON_CreateObject();
    cJSON_AddStringToObject(answer, "type", "attached");
    convoy_control_send(&worker->control, answer);
}
