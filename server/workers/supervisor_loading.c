#include "server/workers/supervisor_internal.h"

#include "engine/base/log.h"
#include "server/models/budget.h"
#include "server/workers/slot_size.h"
#include "server/workers/worker_command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Sends message; false when it has to be sent again later. again: it is, so that the failure is not logged
 * again. */
static bool send_or_log(struct device_worker *worker, cJSON *message, const char *command, uint32_t number,
                        bool again)
{
    int code = convoy_worker_process_send(&worker->process, message);
    if (code == 0 || code == -ENOTCONN) /* the process has ended: all commands are sent to the next one */
        return true;
    if (!again)
        convoy_log(CONVOY_LOG_ERROR, "a worker cannot be sent a command: it is tried again",
                   CONVOY_STR("device", worker->device), CONVOY_STR("command", command),
                   CONVOY_UINT("number", number), CONVOY_STR("reason", strerror(-code)));
    return false;
}

static void send_channel(struct device_worker *worker)
{
    const struct convoy_channel_size *size = &worker->supervisor->size;
    struct convoy_error error;
    if (worker->process.channel.base == NULL &&
        convoy_channel_lay_out(&worker->process.channel, size, &error) != 0) {
        convoy_log(CONVOY_LOG_ERROR, "a worker gets no slots", CONVOY_STR("device", worker->device),
                   CONVOY_STR("reason", error.message));
        return;
    }
    convoy_worker_process_laid_out(&worker->process, worker->supervisor->backend);
    cJSON *message = convoy_worker_command_channel(size, worker->process.channel.turn);
    worker->channel_unsent = !send_or_log(worker, message, "channel", 0, worker->channel_unsent);
}

static cJSON *message_of(const struct device_worker *worker, uint32_t number,
                         const struct convoy_model_record *model, enum unsent command)
{
    switch (command) {
    case UNSENT_UNLOAD:
        return convoy_worker_command_unload(number);
    case UNSENT_MEASURE:
        return convoy_worker_command_measure(model);
    default:
        return convoy_worker_command_load(model, command == UNSENT_LOAD_BESIDE, convoy_files_of(worker));
    }
}

/* Sends the command for the model with this number, and notes it when that fails. model: NULL for
 * UNSENT_UNLOAD. */
static void send_command(struct device_worker *worker, uint32_t number,
                         const struct convoy_model_record *model, enum unsent command)
{
    static const char *const names[] = {[UNSENT_MEASURE] = "measure",
                                        [UNSENT_LOAD] = "load",
                                        [UNSENT_LOAD_BESIDE] = "load",
                                        [UNSENT_UNLOAD] = "unload"};
    bool again = worker->unsent[number] == command;
    bool sent =
        send_or_log(worker, message_of(worker, number, model, command), names[command], number, again);
    worker->unsent[number] = sent ? UNSENT_NONE : command;
    if (sent && (command == UNSENT_LOAD || command == UNSENT_LOAD_BESIDE))
        worker->asked[number]++;
}

void convoy_loading_send(struct device_worker *worker, const struct convoy_model_record *model,
                         enum unsent command)
{
    send_command(worker, model->number, model, command);
}

/* beside: models that are loaded already go on serving. A new worker loads one model after the other instead,
 * so that it is known which model it dies of. */
static void send_load(struct device_worker *worker, const struct convoy_model_record *model, bool beside)
{
    send_command(worker, model->number, model, beside ? UNSENT_LOAD_BESIDE : UNSENT_LOAD);
}

static void send_unload(struct device_worker *worker, const struct convoy_model_record *model)
{
    send_command(worker, model->number, NULL, UNSENT_UNLOAD);
}

bool convoy_loading_is_asked(const struct device_worker *worker, uint32_t number)
{
    enum unsent unsent = worker->unsent[number];
    return worker->asked[number] > 0 || unsent == UNSENT_LOAD || unsent == UNSENT_LOAD_BESIDE;
}

void convoy_loading_send_again(struct device_worker *worker)
{
    struct convoy_registry *registry = worker->supervisor->registry;
    if (worker->channel_unsent)
        send_channel(worker);
    for (uint32_t i = 0; i < CONVOY_MAX_MODELS; i++) {
        enum unsent command = worker->unsent[i];
        const struct convoy_model_record *model =
            i < convoy_registry_count(registry) ? convoy_registry_at(registry, i) : NULL;
        if (command == UNSENT_UNLOAD || (command != UNSENT_NONE && model != NULL))
            send_command(worker, i, model, command);
    }
}

void convoy_loading_fail(struct convoy_supervisor *supervisor, struct convoy_model_record *model,
                         const char *reason)
{
    bool goes = model->state == CONVOY_MODEL_UNLOADING;
    supervisor->untidy = true;
    if (!goes)
        convoy_registry_set_failed(supervisor->registry, model, reason);
    convoy_batcher_model_gone(supervisor->batcher, model);
    if (!goes && supervisor->changed != NULL)
        supervisor->changed(supervisor->changed_context);
}

static void refuse(struct device_worker *worker, struct convoy_model_record *model, const char *reason)
{
    struct convoy_supervisor *supervisor = worker->supervisor;
    worker->kept[model->number].loaded = false;
    if (worker->slots != NULL)
        convoy_worker_slots_model(worker->slots, model, false, NULL, 0);
    /* A file that could be served once may be repaired or come back: the model is asked for again every
     * RETRY_US. */
    if (model->state == CONVOY_MODEL_READY)
        supervisor->retry[model->number] = true;
    if (model->state == CONVOY_MODEL_FAILED || !convoy_placement_possible(supervisor, model)) {
        if (model->state != CONVOY_MODEL_FAILED || strcmp(model->reason, reason) != 0)
            convoy_loading_fail(supervisor, model, reason);
    } else
        convoy_log(CONVOY_LOG_ERROR, "one device does without a model", CONVOY_STR("device", worker->device),
                   CONVOY_STR("model", model->name), CONVOY_STR("reason", reason));
}

/* Lets this worker serve the model, if its rows fit the slots. */
static void serve(struct device_worker *worker, struct convoy_model_record *model)
{
    struct convoy_supervisor *supervisor = worker->supervisor;
    struct kept_answer *kept = &worker->kept[model->number];
    struct convoy_error error;
    if (convoy_slot_size_check(&supervisor->size, &kept->shape, &error) != 0) {
        send_unload(worker, model);
        refuse(worker, model, error.message);
        return;
    }
    convoy_batcher_model_ready(supervisor->batcher, model, &kept->shape);
    convoy_files_count_takers(supervisor, model);
    convoy_worker_slots_first_run(worker->slots, model, kept->first_run_us);
    convoy_worker_slots_row(worker->slots, model, kept->row_us);
    convoy_worker_slots_model(worker->slots, model, true, kept->layers, kept->shape.layer_count);
    kept->layers = NULL; /* owned by the batcher now */
    if (model->state != CONVOY_MODEL_READY && model->state != CONVOY_MODEL_UNLOADING) {
        convoy_registry_set_ready(supervisor->registry, model, &kept->shape);
        convoy_log(CONVOY_LOG_INFO, "model ready", CONVOY_STR("model", model->name),
                   CONVOY_STR("version", model->version), CONVOY_STR("device", worker->device),
                   CONVOY_STR("precision", kept->shape.precision));
        if (supervisor->changed != NULL)
            supervisor->changed(supervisor->changed_context);
    }
    worker->serving = true;
}

bool convoy_loading_waits(const struct device_worker *worker, uint32_t number)
{
    const struct convoy_model_record *model = convoy_registry_at(worker->supervisor->registry, number);
    return model != NULL && !worker->answered[number] &&
           (model->state == CONVOY_MODEL_LOADING || model->state == CONVOY_MODEL_READY);
}

/* Which are loaded first: models that requests wait for, then the default model. */
enum rank { RANK_WAITED_FOR, RANK_DEFAULT, RANK_OTHER, RANKS };

static enum rank rank_of(const struct device_worker *worker, const struct convoy_model_record *model)
{
    const char *default_model = worker->supervisor->config->default_model;
    if (worker->slots != NULL && convoy_worker_slots_waits_for(worker->slots, model))
        return RANK_WAITED_FOR;
    return default_model != NULL && strcmp(default_model, model->name) == 0 ? RANK_DEFAULT : RANK_OTHER;
}

/* Sends a LOAD for every model of the worker's device that it was not asked for yet. beside: all but the
 * first are loaded while the loaded ones serve. */
static void send_loads(struct device_worker *worker, bool beside)
{
    struct convoy_supervisor *supervisor = worker->supervisor;
    bool first = !worker->adopted; /* one that is adopted serves */
    for (enum rank rank = 0; rank < RANKS; rank++) {
        for (uint32_t i = 0; i < convoy_registry_count(supervisor->registry); i++) {
            const struct convoy_model_record *model = convoy_registry_at(supervisor->registry, i);
            if (model == NULL || convoy_loading_is_asked(worker, i) || worker->answered[i] ||
                (model->state != CONVOY_MODEL_LOADING && model->state != CONVOY_MODEL_READY &&
                 model->state != CONVOY_MODEL_UNLOADING))
                continue;
            if (!convoy_placement_here(worker, model) || convoy_quarantine_holds(worker, i)) {
                worker->answered[i] = 1; /* it is not asked */
            } else if (rank_of(worker, model) == rank) {
                send_load(worker, model, beside && !first);
                first = false;
            }
        }
    }
}

/* Sizes the slots when the shape of every model that is to be served is known, and sends CHANNEL to every
 * worker, with the LOADs that waited for it. */
static void size_when_complete(struct convoy_supervisor *supervisor)
{
    bool waits;
    if (supervisor->sized)
        return;
    for (uint32_t i = 0; i < convoy_registry_count(supervisor->registry); i++) {
        const struct convoy_model_record *model = convoy_registry_at(supervisor->registry, i);
        if (model != NULL && model->state == CONVOY_MODEL_LOADING &&
            convoy_measure_shape(supervisor, model, &waits) == NULL && waits)
            return;
    }
    convoy_measure_size(supervisor);
    for (uint32_t i = 0; i < supervisor->worker_count; i++) {
        struct device_worker *worker = supervisor->workers[i];
        if (!worker->process.running || !worker->said_hello)
            continue;
        send_channel(worker);
        send_loads(worker, true);
    }
}

void convoy_loading_settle(struct convoy_supervisor *supervisor)
{
    bool anybody = false; /* without any worker the daemon goes on waiting for one */
    for (uint32_t i = 0; i < supervisor->worker_count; i++)
        anybody = anybody || (supervisor->workers[i]->process.running && supervisor->workers[i]->said_hello);
    for (uint32_t i = 0; anybody && i < convoy_registry_count(supervisor->registry); i++) {
        struct convoy_model_record *model = convoy_registry_at(supervisor->registry, i);
        if (model == NULL || model->state != CONVOY_MODEL_LOADING ||
            convoy_placement_possible(supervisor, model))
            continue;
        supervisor->retry[i] = true; /* the device may come back */
        convoy_loading_fail(supervisor, model,
                            "none of its devices has a worker that could load it: see the log");
    }
    convoy_measure_go_on(supervisor);
    if (anybody)
        size_when_complete(supervisor);
}

/* Once, at the first HELLO, which says how many devices there are. */
static void place_models(struct convoy_supervisor *supervisor)
{
    struct convoy_error error;
    for (uint32_t i = 0; i < convoy_registry_count(supervisor->registry) && !supervisor->placed; i++) {
        struct convoy_model_record *model = convoy_registry_at(supervisor->registry, i);
        if (model != NULL && model->state == CONVOY_MODEL_LOADING &&
            convoy_placement_check(supervisor, model, &error) != 0)
            convoy_loading_fail(supervisor, model, error.message);
    }
    supervisor->placed = true;
}

void convoy_loading_begin(struct device_worker *worker)
{
    struct convoy_supervisor *supervisor = worker->supervisor;
    place_models(supervisor);
    if (supervisor->sized)
        send_channel(worker);
    if (supervisor->sized || !convoy_measure_begin(worker))
        send_loads(worker, worker->adopted);
    convoy_loading_settle(supervisor);
}

void convoy_loading_load(struct convoy_supervisor *supervisor, struct convoy_model_record *model)
{
    struct convoy_error error;
    supervisor->retry[model->number] = false;
    bool has_place = convoy_per_model_place(supervisor, model, &error) == 0;
    for (uint32_t i = 0; i < supervisor->worker_count; i++) {
        struct device_worker *worker = supervisor->workers[i];
        convoy_quarantine_renew(worker, model);
        bool here = convoy_placement_here(worker, model) && !convoy_quarantine_holds(worker, model->number);
        worker->answered[model->number] = !here;
        free(worker->kept[model->number].layers);
        worker->kept[model->number] = (struct kept_answer){0};
        if (!here && worker->slots != NULL)
            convoy_worker_slots_model(worker->slots, model, false, NULL, 0);
        else if (here && worker->process.running && worker->said_hello &&
                 !worker->adopting) /* else convoy_loading_begin() asks for it, when numbers mean the same */
            send_load(worker, model, true);
    }
    if (!has_place || (supervisor->placed && convoy_placement_check(supervisor, model, &error) != 0))
        convoy_loading_fail(supervisor, model, error.message);
    else
        convoy_quarantine_check(supervisor, model);
}

/* Whether another record of the same version is loaded on this device. Both share a time series. */
static bool has_sibling(const struct device_worker *worker, const struct convoy_model_record *model)
{
    struct convoy_registry *registry = worker->supervisor->registry;
    for (uint32_t i = 0; i < convoy_registry_count(registry); i++) {
        const struct convoy_model_record *other = convoy_registry_at(registry, i);
        if (other != NULL && other != model && worker->kept[i].loaded &&
            other->version_number == model->version_number && strcmp(other->name, model->name) == 0)
            return true;
    }
    return false;
}

void convoy_loading_unload(struct convoy_supervisor *supervisor, const struct convoy_model_record *model)
{
    supervisor->retry[model->number] = false;
    supervisor->untidy = true;
    for (uint32_t i = 0; i < supervisor->worker_count; i++) {
        struct device_worker *worker = supervisor->workers[i];
        struct kept_answer *kept = &worker->kept[model->number];
        if (!kept->loaded)
            continue;
        send_unload(worker, model);
        if (!has_sibling(worker, model))
            convoy_metrics_weights_gone(supervisor->metrics, model->name, model->version, worker->device);
        free(kept->layers);
        *kept = (struct kept_answer){0};
    }
    convoy_batcher_model_new(supervisor->batcher, model);
}

void convoy_loading_attached(struct device_worker *worker)
{
    struct convoy_registry *registry = worker->supervisor->registry;
    for (uint32_t i = 0; i < convoy_registry_count(registry); i++) {
        struct convoy_model_record *model = convoy_registry_at(registry, i);
        if (model == NULL)
            continue;
        if (!convoy_placement_here(worker, model) || convoy_quarantine_holds(worker, i))
            convoy_worker_slots_model(worker->slots, model, false, NULL, 0);
        else if (worker->answered[i] && worker->kept[i].loaded)
            serve(worker, model);
    }
}

/* A copy of the message's layers; NULL when memory is out. */
static struct convoy_layer_name *copy_of_layers(const struct convoy_worker_message *message)
{
    size_t bytes = message->loaded.shape.layer_count * sizeof(struct convoy_layer_name);
    struct convoy_layer_name *layers = malloc(bytes + 1);
    if (layers != NULL)
        memcpy(layers, message->loaded.layers, bytes);
    return layers;
}

/* A model may take more memory on the device than its files. Where other models can be evicted, that happens
 * later. */
static int check_budget(struct device_worker *worker, struct convoy_model_record *model,
                        const struct convoy_worker_message *message, struct convoy_error *error)
{
    const struct convoy_config *config = worker->supervisor->config;
    if (message->loaded.weight_bytes > model->plan.weight_bytes)
        model->plan.weight_bytes = message->loaded.weight_bytes;
    /* A replaced worker loads what was loaded before. */
    if (model->state != CONVOY_MODEL_LOADING ||
        (config->repository.unload_idle && convoy_budget_of(model) <= config->repository.device_bytes))
        return 0;
    int code = convoy_budget_check(config, worker->supervisor->registry, model, error);
    model->plan.no_room = code != 0;
    return code;
}

/* Requests under way, and their buffers, were prepared for the first shape. */
static bool same_rows(const struct convoy_model_shape *a, const struct convoy_model_shape *b)
{
    return a->channels == b->channels && a->height == b->height && a->width == b->width &&
           a->input_type == b->input_type && a->input_nhwc == b->input_nhwc &&
           a->output_count == b->output_count && a->outputs_per_row == b->outputs_per_row &&
           a->ends_in_softmax == b->ends_in_softmax && a->ends_in_sigmoid == b->ends_in_sigmoid &&
           memcmp(a->output_elements, b->output_elements, sizeof a->output_elements) == 0 &&
           memcmp(a->output_rank, b->output_rank, sizeof a->output_rank) == 0 &&
           memcmp(a->output_dims, b->output_dims, sizeof a->output_dims) == 0;
}

void convoy_loading_answered(struct device_worker *worker, const struct convoy_worker_message *message)
{
    struct convoy_supervisor *supervisor = worker->supervisor;
    struct convoy_model_record *model = convoy_registry_at(supervisor->registry, message->model);
    struct kept_answer *kept = &worker->kept[message->model];
    struct convoy_error error;
    if (model == NULL || model->config == NULL)
        return;
    if (worker->asked[message->model] > 0)
        worker->asked[message->model]--;
    if (model->state == CONVOY_MODEL_UNLOADED ||
        (model->state == CONVOY_MODEL_FAILED && !supervisor->retry[model->number])) {
        if (message->type == CONVOY_WORKER_LOADED)
            send_unload(worker, model);
        return;
    }
    if (message->type == CONVOY_WORKER_FAILED && convoy_ending_excuses(worker, model, message->text))
        return;
    worker->answered[message->model] = 1;
    if (message->type == CONVOY_WORKER_FAILED) {
        refuse(worker, model, message->text);
    } else if (convoy_model_input_check(&model->config->input, model->config->file,
                                        message->loaded.shape.channels, message->loaded.shape.height,
                                        message->loaded.shape.width, &error) != 0 ||
               check_budget(worker, model, message, &error) != 0) {
        send_unload(worker, model);
        refuse(worker, model, error.message);
    } else if (model->shape.channels != 0 && !same_rows(&model->shape, &message->loaded.shape)) {
        send_unload(worker, model);
        refuse(worker, model,
               "its file has other inputs or outputs than when it was first loaded: restart convoyd");
    } else if (!convoy_canary_accepts(worker, model, message)) {
        worker->answered[message->model] = convoy_quarantine_holds(worker, message->model);
        return; /* the worker is going, and its end settles what is left */
    } else {
        free(kept->layers);
        kept->layers = copy_of_layers(message);
        kept->loaded = true;
        /* Counted before it gets slots: its file may differ from the one that the worker before it loaded. */
        convoy_registry_count_load(supervisor->registry, model);
        convoy_quarantine_clear(worker, message->model);
        kept->shape = message->loaded.shape;
        kept->first_run_us = message->loaded.first_run_us;
        kept->row_us = message->loaded.row_us;
        kept->takes_files = message->loaded.takes_files;
        if (kept->layers == NULL)
            kept->shape.layer_count = 0;
        convoy_metrics_weight_bytes(supervisor->metrics, model->name, model->version, worker->device,
                                    message->loaded.weight_bytes);
        if (worker->attached)
            serve(worker, model);
    }
    convoy_loading_settle(supervisor);
}

void convoy_loading_tuned(struct device_worker *worker, const struct convoy_worker_message *message)
{
    struct convoy_model_record *model = convoy_registry_at(worker->supervisor->registry, message->model);
    struct kept_answer *kept = &worker->kept[message->model];
    /* It may have been unloaded meanwhile. */
    if (model == NULL || !kept->loaded || message->loaded.shape.layer_count != kept->shape.layer_count)
        return;
    convoy_metrics_weight_bytes(worker->supervisor->metrics, model->name, model->version, worker->device,
                                message->loaded.weight_bytes);
    /* A worker of an earlier build says nothing of files there: it did with LOADED. */
    if (message->loaded.takes_files && !kept->takes_files) {
        kept->takes_files = true;
        if (worker->attached)
            convoy_files_count_takers(worker->supervisor, model);
    }
    struct convoy_layer_name *layers = copy_of_layers(message);
    if (layers == NULL)
        return;
    free(kept->layers);
    kept->layers = layers;
    if (strcmp(kept->shape.precision, message->loaded.shape.precision) != 0) {
        memcpy(kept->shape.precision, message->loaded.shape.precision, sizeof kept->shape.precision);
        convoy_registry_set_precision(worker->supervisor->registry, model, kept->shape.precision);
        convoy_log(CONVOY_LOG_INFO, "model computes otherwise since it is tuned",
                   CONVOY_STR("model", model->name), CONVOY_STR("version", model->version),
                   CONVOY_STR("device", worker->device), CONVOY_STR("precision", kept->shape.precision));
    }
    if (worker->attached)
        serve(worker, model);
}

void convoy_loading_retry(struct device_worker *worker)
{
    struct convoy_supervisor *supervisor = worker->supervisor;
    for (uint32_t i = 0; worker->attached && i < convoy_registry_count(supervisor->registry); i++) {
        const struct convoy_model_record *model = convoy_registry_at(supervisor->registry, i);
        if (model != NULL && supervisor->retry[i] && !worker->kept[i].loaded &&
            !convoy_loading_is_asked(worker, i) && !convoy_quarantine_holds(worker, i) &&
            convoy_placement_here(worker, model))
            send_load(worker, model, false);
    }
}

void convoy_loading_forget(struct device_worker *worker)
{
    for (uint32_t i = 0; i < CONVOY_MAX_MODELS; i++)
        free(worker->kept[i].layers);
}
