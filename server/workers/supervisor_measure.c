#include "server/workers/supervisor_internal.h"

#include "server/workers/slot_size.h"

static bool is_open(const struct convoy_supervisor *supervisor, const struct convoy_model_record *model)
{
    const struct convoy_measured *measured = &supervisor->measured[model->number];
    return model->state == CONVOY_MODEL_LOADING && !measured->known && !measured->useless &&
           convoy_placement_shape(supervisor, model) == NULL;
}

static uint32_t open_ones(const struct convoy_supervisor *supervisor)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < convoy_registry_count(supervisor->registry); i++) {
        const struct convoy_model_record *model = convoy_registry_at(supervisor->registry, i);
        count += model != NULL && is_open(supervisor, model);
    }
    return count;
}

static bool is_there(const struct device_worker *worker)
{
    return worker != NULL && worker->process.running && worker->said_hello;
}

/* Asks for what is not known yet. A model that two workers died of is not asked for again. */
static void ask(struct device_worker *worker)
{
    struct convoy_supervisor *supervisor = worker->supervisor;
    supervisor->measurer = worker;
    for (uint32_t i = 0; i < convoy_registry_count(supervisor->registry); i++) {
        const struct convoy_model_record *model = convoy_registry_at(supervisor->registry, i);
        if (model == NULL || !is_open(supervisor, model) || !convoy_per_model_is_for(worker, model))
            continue;
        supervisor->measured[i].useless = convoy_quarantine_holds(worker, i);
        if (!supervisor->measured[i].useless)
            convoy_loading_send(worker, model, UNSENT_MEASURE);
    }
}

bool convoy_measure_begin(struct device_worker *worker)
{
    struct convoy_supervisor *supervisor = worker->supervisor;
    if (supervisor->measurer == NULL && open_ones(supervisor) < 2)
        return false;
    if (supervisor->config->worker.per_model || supervisor->measurer == worker ||
        !is_there(supervisor->measurer))
        ask(worker);
    return true;
}

void convoy_measure_answered(struct device_worker *worker, const struct convoy_worker_message *message)
{
    struct convoy_supervisor *supervisor = worker->supervisor;
    struct convoy_measured *measured = &supervisor->measured[message->model];
    if ((supervisor->measurer != worker && !supervisor->config->worker.per_model) || supervisor->sized)
        return;
    measured->known = message->text[0] == '\0';
    measured->useless = !measured->known;
    measured->shape = message->loaded.shape;
    convoy_loading_settle(supervisor);
}

void convoy_measure_go_on(struct convoy_supervisor *supervisor)
{
    if (supervisor->sized || supervisor->measurer == NULL || is_there(supervisor->measurer))
        return;
    for (uint32_t i = 0; i < supervisor->worker_count; i++)
        if (is_there(supervisor->workers[i])) {
            ask(supervisor->workers[i]);
            return;
        }
}

const struct convoy_model_shape *convoy_measure_shape(const struct convoy_supervisor *supervisor,
                                                      const struct convoy_model_record *model, bool *waits)
{
    const struct convoy_measured *measured = &supervisor->measured[model->number];
    const struct convoy_model_shape *loaded = convoy_placement_shape(supervisor, model);
    *waits = loaded == NULL && !measured->known && !measured->useless;
    return loaded != NULL ? loaded : measured->known ? &measured->shape : NULL;
}

/* Slots are sized once, so models that are added later must fit them: there is room for eight images of 3 x
 * 512 x 512 (unless worker.slot_bytes says otherwise), and for 256 x 1,024 outputs. */
#define LIVE_INPUT_BYTES  (6u << 20)
#define LIVE_OUTPUT_BYTES (1u << 20)

/* Photographs are larger than the rows of a small network; of files slots have room for this much. */
#define FILES_INPUT_BYTES (16u << 20)

static bool some_device_takes_files(const struct convoy_supervisor *supervisor)
{
    bool takes = false;
    for (uint32_t i = 0; i < supervisor->worker_count; i++)
        takes = takes || supervisor->workers[i]->files_ahead > 0;
    return takes && convoy_files_wanted(supervisor);
}

void convoy_measure_size(struct convoy_supervisor *supervisor)
{
    struct convoy_channel_size *size = &supervisor->size;
    convoy_slot_size_begin(size);
    for (uint32_t i = 0; i < convoy_registry_count(supervisor->registry); i++) {
        const struct convoy_model_record *model = convoy_registry_at(supervisor->registry, i);
        bool waits;
        const struct convoy_model_shape *shape =
            model != NULL ? convoy_measure_shape(supervisor, model, &waits) : NULL;
        if (shape != NULL)
            convoy_slot_size_add(size, shape, model->config->batching.max_batch);
    }
    if (supervisor->config->repository.control != CONVOY_CONTROL_NONE)
        convoy_slot_size_at_least(size, LIVE_INPUT_BYTES, LIVE_OUTPUT_BYTES);
    if (some_device_takes_files(supervisor))
        convoy_slot_size_at_least(size, FILES_INPUT_BYTES, 0);
    convoy_slot_size_end(size, supervisor->config);
    supervisor->sized = true;
}
