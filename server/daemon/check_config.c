#include "server/daemon/check_config.h"

#include "engine/base/log.h"
#include "server/daemon/check_report.h"
#include "server/repository/reconcile.h"
#include "server/security/key_table.h"
#include "server/security/tls_credentials.h"
#include "server/tracing/collector.h"
#include "server/workers/environment.h"
#include "server/workers/slot_size.h"
#include "server/workers/supervisor.h"
#include "server/workers/worker_check.h"
#include "server/workers/worker_message.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* What was found out about a model. */
struct finding {
    int code; /* 0: it can be served */
    struct convoy_model_shape shape;
    uint64_t weight_bytes;
    struct convoy_error error;
};

/* Asks a worker about one model. */
static int check_model(const struct convoy_config *config, const char *program,
                       const struct convoy_model_record *model, struct finding *finding)
{
    struct convoy_model_shape *shape = &finding->shape;
    struct convoy_error *error = &finding->error;
    cJSON *answer;
    if (model->state == CONVOY_MODEL_FAILED)
        return convoy_fail(error, -EINVAL, "%s", model->reason);
    int code = convoy_worker_check_run(program, config, model->path, &model->config->input,
                                       convoy_supervisor_load_limit_us(config), &answer, error);
    if (code != 0)
        return code;
    double bytes = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(answer, "weight_bytes"));
    finding->weight_bytes = bytes > 0 && bytes < 1e18 ? (uint64_t)bytes : 0;
    const char *reason = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(answer, "reason"));
    if (reason != NULL)
        code = convoy_fail(error, -EINVAL, "%s", reason);
    else if ((code = convoy_worker_message_shape(answer, shape, error)) == 0)
        code = convoy_model_input_check(&model->config->input, model->config->file, shape->channels,
                                        shape->height, shape->width, error);
    cJSON_Delete(answer);
    return code;
}

/* Prints a line for each model, and more of those that can be served. Returns how many models cannot be
 * served, or a negative errno. */
static int check_models(const struct convoy_config *config, const char *program,
                        struct convoy_registry *registry, struct convoy_error *error)
{
    uint32_t count = convoy_registry_count(registry);
    int bad = 0;
    struct finding *findings = calloc((size_t)count + 1, sizeof *findings);
    struct convoy_channel_size size;
    if (findings == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for checking %u models", count);
    convoy_slot_size_begin(&size);
    for (uint32_t i = 0; i < count; i++) {
        const struct convoy_model_record *model = convoy_registry_at(registry, i);
        struct finding *finding = &findings[i];
        if (!model->plan.wanted)
            continue;
        finding->code = check_model(config, program, model, finding);
        if (finding->code == 0)
            convoy_slot_size_add(&size, &finding->shape, model->config->batching.max_batch);
    }
    convoy_slot_size_end(&size, config);
    for (uint32_t i = 0; i < count; i++) {
        const struct convoy_model_record *model = convoy_registry_at(registry, i);
        struct finding *finding = &findings[i];
        if (!model->plan.wanted) {
            printf("model %s version %s: not served by its version_policy\n", model->name, model->version);
            continue;
        }
        if (finding->code == 0) /* the size of slots is known only now */
            finding->code = convoy_slot_size_check(&size, &finding->shape, &finding->error);
        printf("model %s version %s: %s\n", model->name, model->version,
               finding->code == 0 ? "ok" : finding->error.message);
        if (finding->code == 0)
            convoy_check_report(model, &finding->shape, finding->weight_bytes);
        bad += finding->code != 0;
    }
    free(findings);
    return bad;
}

static bool every_name(void *context, const char *name)
{
    (void)context;
    (void)name;
    return true;
}

/* Fills the registry with the models of the repository's folder and selects those that would be served. */
static int find_models(const struct convoy_config *config, struct convoy_registry *registry,
                       struct convoy_error *error)
{
    struct convoy_repository_scan *scan = convoy_repository_scan_new(config, registry);
    if (scan == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for the models");
    convoy_repository_scan_run(scan);
    int code = scan->code;
    if (code != 0)
        *error = scan->error;
    else if (convoy_reconcile(registry, scan, NULL, NULL) != scan->repository.entry_count)
        code = convoy_fail(error, -ENOMEM, "not every model of %s can be checked: the log says why",
                           config->models);
    for (uint32_t i = 0; i < scan->repository.note_count; i++)
        convoy_log(scan->repository.notes[i].level, "model repository",
                   CONVOY_STR("note", scan->repository.notes[i].text));
    convoy_select_versions(registry, every_name, NULL);
    convoy_repository_scan_free(scan);
    return code;
}

static int complain(const struct convoy_error *error)
{
    fprintf(stderr, "convoyd: %s\n", error->message);
    return 1;
}

/* Reads the file of keys, where there is to be one. */
static int check_keys(const struct convoy_config *config, struct convoy_error *error)
{
    const char *file = config->access.auth.keys;
    struct convoy_key_table *table;
    if (file == NULL)
        return 0;
    int code = convoy_key_table_load(file, &table, error);
    if (code != 0)
        return code;
    printf("keys %s: %u\n", file, convoy_key_table_count(table));
    convoy_key_table_free(table);
    return 0;
}

/* The files of TLS, where they are configured. */
static int check_tls(const struct convoy_config *config, struct convoy_error *error)
{
    struct convoy_tls_credentials *credentials;
    char expires[32] = "";

    if (config->tls.certificate == NULL)
        return 0;
    int code = convoy_tls_load(&config->tls, &credentials, error);
    if (code != 0)
        return code;
    const time_t seconds = (time_t)convoy_tls_expiry(credentials);
    struct tm utc;
    if (gmtime_r(&seconds, &utc) != NULL)
        strftime(expires, sizeof expires, "%F %T UTC", &utc);
    printf("certificate %s: ok, valid until %s\n", config->tls.certificate, expires);
    convoy_tls_unload(credentials);
    return 0;
}

/* Whether traces can be sent, where they are to be; a collector need not be there yet. */
static int check_tracing(const struct convoy_config *config, struct convoy_error *error)
{
    struct convoy_collector *collector;

    if (config->tracing.otlp_url == NULL)
        return 0;
    int code = convoy_collector_new(config->tracing.otlp_url, NULL, NULL, &collector, error);
    if (code != 0)
        return code;
    convoy_collector_free(collector);
    return 0;
}

static int check(const struct convoy_config *config, struct convoy_registry *registry)
{
    struct convoy_error error;
    char program[PATH_MAX];
    if (convoy_worker_program(program, sizeof program, &error) != 0 || check_keys(config, &error) != 0 ||
        find_models(config, registry, &error) != 0)
        return complain(&error);
    printf("configuration %s: ok\n", config->file != NULL ? config->file : "(built-in values)");
    if (check_tls(config, &error) != 0 || check_tracing(config, &error) != 0)
        return complain(&error);
    bool empty = convoy_registry_count(registry) == 0;
    if (empty)
        printf("no model in %s: a model is NAME/VERSION/model.onnx, e.g. resnet/1/model.onnx\n",
               config->models);
    int bad = check_models(config, program, registry, &error);
    return bad < 0 ? complain(&error) : empty || bad > 0;
}

int convoy_check_config(const struct convoy_config *config)
{
    struct convoy_registry *registry = NULL;
    struct convoy_error error;
    struct convoy_metrics *metrics = convoy_metrics_new();
    int status = 1;
    if (metrics == NULL)
        convoy_fail(&error, -ENOMEM, "out of memory");
    if (metrics == NULL || convoy_registry_new(config, metrics, &registry, &error) != 0)
        complain(&error);
    else
        status = check(config, registry);
    convoy_registry_close(registry);
    convoy_metrics_free(metrics);
    return status;
}
