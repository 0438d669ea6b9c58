/* What a worker tells the front of itself. */
#include "engine/base/clock.h"
#include "engine/worker/serve.h"
#include "engine/worker/serve_internal.h"

#include <unistd.h>

#define LAST_HEALTH_MS 50       /* how much later a worker ends that has lost its device */
#define MEMORY_US      1000000u /* how much later than a model the device's memory is told */

cJSON *convoy_worker_hello(const struct convoy_worker *worker)
{
    const struct convoy_device_info *info = &worker->device.info;
    cJSON *message = cJSON_CreateObject();
    cJSON_AddStringToObject(message, "type", "hello");
    cJSON_AddNumberToObject(message, "abi", CONVOY_CHANNEL_ABI);
    cJSON_AddStringToObject(message, "backend", worker->device.backend->name);
    cJSON_AddStringToObject(message, "device", info->name);
    cJSON_AddStringToObject(message, "description", info->description);
    cJSON_AddNumberToObject(message, "device_count", info->device_count);
    cJSON_AddNumberToObject(message, "streams", info->streams);
    cJSON_AddNumberToObject(message, "jpeg_jobs", info->jpeg_jobs);
    return message;
}

/* The message "health": what is known. */
static void send_health(struct convoy_worker *worker, const struct convoy_device_health *health)
{
    cJSON *message = cJSON_CreateObject();
    cJSON_AddStringToObject(message, "type", "health");
    for (int i = 0; i < CONVOY_HEALTH_VALUES; i++)
        if (health->values[i] != CONVOY_HEALTH_UNKNOWN)
            cJSON_AddNumberToObject(message, convoy_health_names[i], (double)health->values[i]);
    convoy_control_send(&worker->control, message);
}

void convoy_worker_send_new_health(struct convoy_worker *worker)
{
    struct convoy_device_health health;
    if (worker->device.backend->health == NULL ||
        !worker->device.backend->health(worker->device.device, 0, &health) || health.number == worker->health)
        return;
    worker->health = health.number;
    send_health(worker, &health);
}

/* What took the device is often an error that the driver reports, a little later than the call that failed:
 * the next worker hears of its own errors only. */
static void send_last_health(struct convoy_worker *worker)
{
    struct convoy_device_health health;
    if (worker->device.device != NULL && worker->device.backend->health != NULL &&
        worker->device.backend->health(worker->device.device, LAST_HEALTH_MS, &health))
        send_health(worker, &health);
}

_Noreturn void convoy_worker_lose_device(struct convoy_worker *worker, const struct convoy_error *error)
{
    send_last_health(worker);
    cJSON *message = cJSON_CreateObject();
    cJSON_AddStringToObject(message, "type", "lost");
    cJSON_AddStringToObject(message, "reason", error->message);
    convoy_control_send(&worker->control, message);
    _exit(CONVOY_EXIT_LOST);
}

/* After models went or were tuned: the question costs time. */
void convoy_worker_send_memory(struct convoy_worker *worker)
{
    struct convoy_device_memory memory = {0};
    struct convoy_error error;
    worker->memory_us = 0;
    if (worker->device.backend->memory == NULL)
        return;
    if (worker->device.backend->memory(worker->device.device, &memory, &error) != 0)
        convoy_worker_lose_device(worker, &error);
    cJSON *message = cJSON_CreateObject();
    cJSON_AddStringToObject(message, "type", "memory");
    cJSON_AddNumberToObject(message, "weights", (double)memory.weights);
    cJSON_AddNumberToObject(message, "workspace", (double)memory.workspace);
    cJSON_AddNumberToObject(message, "free", (double)memory.free);
    cJSON_AddNumberToObject(message, "total", (double)memory.total);
    convoy_control_send(&worker->control, message);
}

/* Not at once: while the driver takes down what a dead worker had opened it does not answer, for 150 ms on an
 * H100, and slots wait that this worker, which was a spare, could run. */
void convoy_worker_memory_later(struct convoy_worker *worker)
{
    if (worker->memory_us == 0)
        worker->memory_us = convoy_now_us() + MEMORY_US;
}

void convoy_worker_memory_turn(struct convoy_worker *worker)
{
    if (worker->memory_us != 0 && convoy_now_us() >= worker->memory_us)
        convoy_worker_send_memory(worker);
}

int convoy_worker_memory_wait_ms(const struct convoy_worker *worker)
{
    if (worker->memory_us == 0)
        return -1;
    uint64_t now_us = convoy_now_us();
    return worker->memory_us > now_us ? (int)((worker->memory_us - now_us) / 1000) + 1 : 0;
}

void convoy_worker_send_model(struct convoy_worker *worker, const char *type, uint32_t model, cJSON *object,
                              const char *reason)
{
    if (object == NULL)
        object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "type", type);
    cJSON_AddNumberToObject(object, "model", model);
    if (reason != NULL)
        cJSON_AddStringToObject(object, "reason", reason);
    convoy_control_send(&worker->control, object);
}

static const char *const phase_names[] = {[CONVOY_PHASE_STARTING] = "starting",
                                          [CONVOY_PHASE_LOADING] = "loading",
                                          [CONVOY_PHASE_TUNING] = "tuning",
                                          [CONVOY_PHASE_RUNNING] = "running"};

static void add_counter(void *context, const char *name, uint64_t value)
{
    cJSON_AddNumberToObject(context, name, (double)value);
}

void convoy_worker_send_heartbeat(struct convoy_worker *worker)
{
    cJSON *message = cJSON_CreateObject();
    cJSON_AddStringToObject(message, "type", "heartbeat");
    cJSON_AddStringToObject(message, "phase", phase_names[atomic_load(&worker->phase)]);
    if (atomic_load(&worker->behind.runs))
        cJSON_AddTrueToObject(message, "preparing");
    if (worker->device.backend->counters != NULL)
        worker->device.backend->counters(worker->device.device, add_counter,
                                         cJSON_AddObjectToObject(message, "counters"));
    convoy_control_send(&worker->control, message);
}
