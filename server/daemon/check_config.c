#include "server/daemon/check_config.h"

#include "engine/base/log.h"
#include "server/repository/reconcile.h"
#include "server/workers/environment.h"
#include "server/workers/slot_size.h"
#include "server/workers/worker_process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs the worker and returns what it printed (malloc'd), or NULL. */
static char *ask_worker(const char *program, const char *backend, const char *path)
{
    int pipes[2];
    char **environment = convoy_worker_environment();
    if (environment == NULL || pipe2(pipes, O_CLOEXEC) != 0) {
        free(environment);
        return NULL;
    }
    char *arguments[] = {(char *)(uintptr_t)program, "--check", (char *)(uintptr_t)path, "--backend",
                         (char *)(uintptr_t)backend, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipes[1], STDOUT_FILENO);
    pid_t pid;
    int code = posix_spawn(&pid, program, &actions, NULL, arguments, environment);
    free(environment);
    posix_spawn_file_actions_destroy(&actions);
    close(pipes[1]);
    char *text = code == 0 ? calloc(1, CONVOY_WORKER_LINE_MAX) : NULL;
    size_t used = 0;
    ssize_t got = 0;
    while (text != NULL && used < CONVOY_WORKER_LINE_MAX - 1 &&
           (got = read(pipes[0], text + used, CONVOY_WORKER_LINE_MAX - 1 - used)) > 0)
        used += (size_t)got;
    close(pipes[0]);
    if (code == 0)
        waitpid(pid, NULL, 0);
    return text;
}

/* Asks about one model; *shape is what its network looks like. */
static int check_model(const struct convoy_config *config, const char *program,
                       const struct convoy_model *model, struct convoy_model_shape *shape,
                       struct convoy_error *error)
{
    if (model->state == CONVOY_MODEL_FAILED)
        return convoy_fail(error, -EINVAL, "%s", model->reason);
    char *text = ask_worker(program, convoy_backend_choice_text(config->backend), model->path);
    cJSON *answer = text != NULL ? cJSON_Parse(text) : NULL;
    const char *reason = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(answer, "reason"));
    int code;
    if (answer == NULL)
        code = convoy_fail(error, -EIO,
                           "convoy-worker died or said nothing when it was asked to load this model");
    else if (reason != NULL)
        code = convoy_fail(error, -EINVAL, "%s", reason);
    else if ((code = convoy_worker_message_shape(answer, shape, error)) == 0)
        code = convoy_model_config_check(model->config, shape->channels, shape->height, shape->width, error);
    cJSON_Delete(answer);
    free(text);
    return code;
}

/* Returns how many of the models cannot be served. */
static uint32_t check_models(const struct convoy_config *config, const char *program,
                             struct convoy_registry *registry)
{
    uint32_t count = convoy_registry_count(registry), bad = 0;
    struct convoy_model_shape *shapes = calloc(count + 1, sizeof *shapes);
    struct convoy_error *errors = calloc(count + 1, sizeof *errors);
    struct convoy_channel_size size;
    convoy_slot_size_begin(&size);
    for (uint32_t i = 0; shapes != NULL && errors != NULL && i < count; i++) {
        const struct convoy_model *model = convoy_registry_at(registry, i);
        if (model->plan.wanted && check_model(config, program, model, &shapes[i], &errors[i]) == 0) {
            errors[i].message[0] = '\0';
            convoy_slot_size_add(&size, &shapes[i], model->config->batching.max_batch);
        }
    }
    convoy_slot_size_end(&size, config);
    for (uint32_t i = 0; shapes != NULL && errors != NULL && i < count; i++) {
        const struct convoy_model *model = convoy_registry_at(registry, i);
        if (!model->plan.wanted) {
            printf("model %s version %s: not served by its version_policy\n", model->name, model->version);
            continue;
        }
        if (errors[i].message[0] == '\0')
            (void)convoy_slot_size_check(&size, &shapes[i], &errors[i]);
        bool good = errors[i].message[0] == '\0';
        printf("model %s version %s: %s\n", model->name, model->version, good ? "ok" : errors[i].message);
        bad += !good;
    }
    free(shapes);
    free(errors);
    return bad;
}

static bool every_name(void *context, const char *name)
{
    (void)context;
    (void)name;
    return true;
}

/* What the repository's folder holds, and which of it would be served. */
static int scan(const struct convoy_config *config, struct convoy_registry *registry,
                struct convoy_error *error)
{
    struct convoy_repository_scan *scan = convoy_repository_scan_new(config, registry);
    if (scan == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for the models");
    convoy_repository_scan_run(scan);
    int code = scan->code;
    if (code != 0)
        *error = scan->error;
    else
        convoy_reconcile(registry, scan, NULL, NULL);
    for (uint32_t i = 0; i < scan->repository.note_count; i++)
        convoy_log(scan->repository.notes[i].level, "model repository",
                   CONVOY_STR("note", scan->repository.notes[i].text));
    convoy_select_versions(registry, every_name, NULL);
    convoy_repository_scan_free(scan);
    return code;
}

int convoy_check_config(const struct convoy_config *config)
{
    struct convoy_registry *registry = NULL;
    struct convoy_error error;
    char program[PATH_MAX];
    struct convoy_metrics *metrics = convoy_metrics_new();
    if (metrics == NULL || convoy_worker_program(program, sizeof program, &error) != 0 ||
        convoy_registry_new(config, metrics, &registry, &error) != 0 || scan(config, registry, &error) != 0) {
        fprintf(stderr, "convoyd: %s\n", metrics == NULL ? "out of memory" : error.message);
        convoy_registry_close(registry);
        convoy_metrics_free(metrics);
        return 1;
    }
    printf("configuration %s: ok\n", config->file != NULL ? config->file : "(built-in values)");
    bool empty = convoy_registry_count(registry) == 0;
    if (empty)
        printf("no model in %s: a model is NAME/VERSION/model.onnx, e.g. resnet/1/model.onnx\n",
               config->models);
    uint32_t bad = check_models(config, program, registry);
    convoy_registry_close(registry);
    convoy_metrics_free(metrics);
    return empty || bad > 0;
}
