#include "tests/unit/server/workers/own_process/supervisor_harness.h"

#include "engine/base/clock.h"
#include "tests/unit/folder.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

struct convoy_worker_process *process;
int refusals;
char sent[SENT_BYTES];
bool loads_files;
bool expects_kill;
int spares_kept;
const char *killed_for;
struct convoy_channel_size adopted_size;
struct convoy_config *config;
struct convoy_metrics *metrics;
struct convoy_registry *registry;
struct convoy_supervisor *supervisor;
struct convoy_link *master;
uv_loop_t loop;
int answers;
float outputs[2];
static struct folder folder;
static int master_end;
static bool measures; /* models were measured: whether they are loaded beside others counts */
static bool told;     /* the supervisor has stopped */
static struct convoy_error error;

int convoy_worker_process_prepare(struct convoy_worker_process *prepared, uv_loop_t *loop,
                                  const struct convoy_worker_settings *settings, uint32_t model_count,
                                  const struct convoy_worker_process_events *events, void *context,
                                  struct convoy_error *error)
{
    *prepared = (struct convoy_worker_process){.loop = loop,
                                               .events = events,
                                               .context = context,
                                               .settings = *settings,
                                               .model_count = model_count};
    process = prepared;
    return convoy_channel_create(&prepared->channel, error);
}

int convoy_worker_process_start(struct convoy_worker_process *started, const char *backend, const char *tune,
                                struct convoy_error *error)
{
    (void)backend, (void)tune, (void)error;
    started->running = true;
    started->started_us = started->heard_us = convoy_now_us();
    return 0;
}

int convoy_worker_process_send(struct convoy_worker_process *to, cJSON *message)
{
    const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(message, "type"));
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(message, "model");
    (void)to;
    if (refusals > 0) {
        refusals--;
        cJSON_Delete(message);
        return -ENOMEM;
    }
    const cJSON *fitting = cJSON_GetObjectItemCaseSensitive(message, "fitting");
    if (fitting != NULL)
        loads_files = cJSON_GetNumberValue(cJSON_GetObjectItem(fitting, "kind")) != CONVOY_FITTING_NONE;
    size_t used = strlen(sent);
    measures = measures || strcmp(type, "measure") == 0;
    bool beside = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(message, "beside")) && measures;
    snprintf(sent + used, sizeof sent - used, model != NULL ? "%s%s %d\n" : "%s%s\n", type,
             beside ? " beside" : "", (int)cJSON_GetNumberValue(model));
    const cJSON *pair, *models = cJSON_GetObjectItemCaseSensitive(message, "models");
    cJSON_ArrayForEach(pair, models)
    {
        used = strlen(sent) - 1; /* over the line's end */
        snprintf(sent + used, sizeof sent - used, " %d=%d\n",
                 (int)cJSON_GetNumberValue(cJSON_GetObjectItem(pair, "was")),
                 (int)cJSON_GetNumberValue(cJSON_GetObjectItem(pair, "is")));
    }
    cJSON_Delete(message);
    return 0;
}

void convoy_worker_process_kill(struct convoy_worker_process *killed, const char *reason)
{
    (void)killed;
    cr_assert(expects_kill, "killed: %s", reason);
    killed_for = reason;
}

void convoy_worker_process_keep_spares(struct convoy_worker_process *kept, const char *backend,
                                       const char *tune)
{
    (void)kept, (void)tune;
    cr_assert_str_neq(backend, "cpu", "a spare for the CPU");
    spares_kept++;
}

bool convoy_worker_label_held(const struct convoy_link *link, uint32_t index, uint32_t *device,
                              char of[CONVOY_OF_BYTES])
{
    (void)link;
    *device = 0;
    snprintf(of, CONVOY_OF_BYTES, "%s", CONVOY_OF_ALL);
    return index == 0 && adopted_size.slots > 0;
}

const char *convoy_worker_label_find(const struct convoy_link *link,
                                     const struct convoy_worker_settings *settings, const char *backend,
                                     struct convoy_channel_size *size, char found[CONVOY_BACKEND_BYTES])
{
    (void)link;
    if (adopted_size.slots == 0 || (strcmp(backend, "auto") != 0 && strcmp(backend, "cpu") != 0))
        return NULL;
    *size = adopted_size;
    memcpy(found, "cpu", sizeof "cpu");
    return settings->device_index == 0 ? "its label" : NULL;
}

bool convoy_worker_process_adopt(struct convoy_worker_process *adopting, const char *backend)
{
    (void)backend;
    adopting->running = true;
    adopting->started_us = adopting->heard_us = convoy_now_us();
    return convoy_channel_lay_out(&adopting->channel, &adopted_size, &error) == 0;
}

void convoy_worker_process_laid_out(struct convoy_worker_process *of, const char *backend)
{
    (void)of, (void)backend;
}

void convoy_worker_process_free(struct convoy_worker_process *freed)
{
    convoy_channel_destroy(&freed->channel);
}

struct convoy_model_record *add_model(const char *name)
{
    struct convoy_repository_entry entry = {
        .name = (char *)name, .version = "1", .number = 1, .folder = folder.path, .path = folder.path};
    struct convoy_model_config *of_model;
    struct convoy_model_record *model;
    cr_assert_eq(convoy_model_config_load(folder.path, &config->batching, &of_model, &error), 0);
    cr_assert_eq(convoy_registry_add(registry, &entry, of_model, NULL, &model, &error), 0);
    return model;
}

void prepare(void)
{
    folder = folder_make();
    config = convoy_config_default();
    metrics = convoy_metrics_new();
    cr_assert_eq(uv_loop_init(&loop), 0);
    cr_assert_eq(convoy_registry_new(config, metrics, &registry, &error), 0);
    cr_assert_eq(convoy_supervisor_new(&loop, config, registry, metrics, &supervisor, &error), 0);
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    master_end = pair[1];
    cr_assert_not_null(master = convoy_link_new(pair[0]));
    adopted_size = (struct convoy_channel_size){0};
}

void begin(void)
{
    prepare();
    convoy_supervisor_start(supervisor, master);
}

static void on_stopped(void *context)
{
    (void)context;
    told = true;
}

void end(void)
{
    refusals = 0;
    process->running = false;
    convoy_supervisor_stop(supervisor, on_stopped, NULL);
    cr_assert(told);
    uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&loop), 0);
    convoy_supervisor_free(supervisor);
    convoy_link_free(master);
    close(master_end);
    convoy_registry_close(registry);
    convoy_metrics_free(metrics);
    convoy_config_free(config);
    folder_remove(&folder);
}
void say(const char *line)
{
    struct convoy_worker_message message;
    cr_assert_eq(convoy_worker_message_read(cJSON_Parse(line), CONVOY_MAX_MODELS, &message, &error), 0, "%s",
                 error.message);
    process->events->message(process->context, process, &message);
    convoy_worker_message_free(&message);
}

void say_hello(void)
{
    char line[200];
    snprintf(line, sizeof line,
             "{\"type\":\"hello\",\"abi\":%d,\"device_count\":1,\"streams\":2,\"backend\":\"cpu\","
             "\"device\":\"cpu\"}",
             CONVOY_CHANNEL_ABI);
    say(line);
}

static void say_shape(const char *type, const struct convoy_model_record *model, int channels)
{
    char line[300];
    snprintf(line, sizeof line,
             "{\"type\":\"%s\",\"model\":%u,\"channels\":%d,\"height\":2,\"width\":2,\"weight_bytes\":8,"
             "\"outputs\":[{\"name\":\"y\",\"elements\":2}]}",
             type, model->number, channels);
    say(line);
}

void say_measured(const struct convoy_model_record *model, int channels)
{
    say_shape("measured", model, channels);
}

void say_loaded_rows(const struct convoy_model_record *model, int channels)
{
    say_shape("loaded", model, channels);
}

void say_loaded(const struct convoy_model_record *model)
{
    say_loaded_rows(model, 3);
}

void until_sent(const char *what)
{
    while (strstr(sent, what) == NULL)
        cr_assert_neq(uv_run(&loop, UV_RUN_ONCE), 0);
}

void until_started(void)
{
    while (!process->running)
        cr_assert_neq(uv_run(&loop, UV_RUN_ONCE), 0);
}

void load(struct convoy_model_record *model)
{
    convoy_registry_set_loading(registry, model);
    convoy_supervisor_load(supervisor, model);
}

void comes_beside(void)
{
    process->left.exists = true;
    process->left.since_us = convoy_now_us();
}

void left_is_gone(void)
{
    process->left.exists = false;
    process->events->left_gone(process->context);
}

void say_answer(const struct convoy_model_record *model, const char *files, const char *values)
{
    char line[500];
    snprintf(line, sizeof line,
             "{\"type\":\"loaded\",\"model\":%u,\"channels\":3,\"height\":2,\"width\":2,\"weight_bytes\":8,"
             "\"outputs\":[{\"name\":\"y\",\"elements\":2}],\"files\":\"%s\","
             "\"canary\":{\"finite\":%s,\"values\":[%s],\"ranges\":[4,4]}}",
             model->number, files, strstr(values, "null") == NULL ? "true" : "false", values);
    say(line);
}

void expect_killed(const char *reason)
{
    cr_assert_not_null(killed_for, "the worker lives");
    cr_assert_str_eq(killed_for, reason);
}

static void on_done(struct convoy_item *item)
{
    (void)item;
    answers++;
}

struct convoy_item *submit_item(struct convoy_model_record *model)
{
    static uint8_t row[3 * 2 * 2];
    static struct convoy_item_group group;
    static struct convoy_item item;
    struct convoy_batcher *batcher = convoy_supervisor_batcher(supervisor);
    uint64_t wait_us;
    group = (struct convoy_item_group){.deadline_us = UINT64_MAX};
    item = (struct convoy_item){.model = model,
                                .group = &group,
                                .outputs = outputs,
                                .source = row,
                                .source_bytes = sizeof row,
                                .done = on_done};
    cr_assert_eq(convoy_batcher_admit(batcher, model, 1, CONVOY_PRIORITY_NORMAL, UINT64_MAX, &wait_us), 0);
    convoy_batcher_submit(batcher, (struct convoy_item *[]){&item}, 1);
    return &item;
}
