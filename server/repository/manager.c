#include "server/repository/manager_internal.h"

#include "engine/base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN_MS 10 /* how often apply() checks whether the last request to an old version was answered */

/* Logs the notes that the previous scan did not have. */
static void log_notes(const struct convoy_repository *found, const struct convoy_repository *previous)
{
    for (uint32_t i = 0; i < found->note_count; i++) {
        bool old = false;
        for (uint32_t j = 0; j < previous->note_count; j++)
            old = old || strcmp(previous->notes[j].text, found->notes[i].text) == 0;
        if (!old)
            convoy_log(found->notes[i].level, "model repository", CONVOY_STR("note", found->notes[i].text));
    }
}

static void apply(struct convoy_manager *manager);

static void on_again(uv_timer_t *timer)
{
    apply(timer->data);
}

static void apply(struct convoy_manager *manager)
{
    if (manager->stopped)
        return;
    convoy_manager_requests_end(
        manager, true); /* a request that waited for a model holds it before it can be evicted again */
    bool again = convoy_manager_apply(manager);
    if (again && manager->started)
        uv_timer_start(&manager->again, on_again, AGAIN_MS, 0);
    convoy_manager_requests_end(manager, false);
    if (manager->started && manager->tells != NULL)
        convoy_manager_ready_tell(manager);
}

static void on_called(uv_async_t *called)
{
    struct convoy_manager *manager = called->data;
    if (manager->stopped)
        return;
    convoy_manager_requests_take(manager);
    apply(manager);
}

/* A model became READY or FAILED. Called from within the supervisor, so the work is left to the loop. */
static void on_changed(void *context)
{
    struct convoy_manager *manager = context;
    uv_async_send(&manager->called);
}

static void run_scan(uv_work_t *work)
{
    struct convoy_manager *manager = work->data;
    convoy_repository_scan_run(manager->scan);
}

/* Takes over a scan's result; a folder that cannot be read changes nothing. */
static void take_scan(struct convoy_manager *manager, struct convoy_repository_scan *scan)
{
    bool polls = manager->config->repository.control == CONVOY_CONTROL_POLL;
    const char *problem = scan->code != 0 ? scan->error.message : "";
    if (scan->code != 0 && strcmp(manager->scan_problem, problem) != 0)
        convoy_log(CONVOY_LOG_ERROR, "the model repository is not looked through",
                   CONVOY_STR("reason", problem));
    snprintf(manager->scan_problem, sizeof manager->scan_problem, "%s", problem);
    if (scan->code == 0) {
        log_notes(&scan->repository, &manager->previous);
        if (polls)
            convoy_reconcile(manager->registry, scan, &manager->previous, NULL);
    }
    convoy_manager_requests_scanned(manager, scan);
    if (scan->code != 0)
        return;
    convoy_repository_free(&manager->previous);
    manager->previous = scan->repository;
    scan->repository = (struct convoy_repository){0};
}

static void on_scanned(uv_work_t *work, int status)
{
    struct convoy_manager *manager = work->data;
    struct convoy_repository_scan *scan = manager->scan;
    (void)status;
    manager->scan = NULL;
    if (!manager->stopped) {
        take_scan(manager, scan);
        if (manager->scan_again)
            convoy_manager_begin_scan(manager);
        apply(manager);
    }
    convoy_repository_scan_free(scan);
}

void convoy_manager_begin_scan(struct convoy_manager *manager)
{
    manager->scan_again = manager->scan != NULL;
    if (manager->scan_again)
        return;
    manager->scan = convoy_repository_scan_new(manager->config, manager->registry);
    if (manager->scan == NULL || uv_queue_work(manager->loop, &manager->work, run_scan, on_scanned) != 0) {
        convoy_log(CONVOY_LOG_ERROR, "the model repository is not looked through",
                   CONVOY_STR("reason", "out of memory"));
        convoy_repository_scan_free(manager->scan);
        manager->scan = NULL;
        return;
    }
    manager->scans++;
}

static void on_poll(uv_timer_t *timer)
{
    struct convoy_manager *manager = timer->data;
    if (manager->scan == NULL)
        convoy_manager_begin_scan(manager);
}

void convoy_manager_scan(struct convoy_manager *manager)
{
    if (manager->config->repository.control == CONVOY_CONTROL_POLL && !manager->stopped)
        convoy_manager_begin_scan(manager);
}

/* Warns when the configured default model is missing. */
static void check_default(struct convoy_manager *manager)
{
    const char *wanted = manager->config->default_model;
    struct convoy_model_record *model =
        wanted != NULL ? convoy_registry_find(manager->registry, wanted, NULL, NULL) : NULL;
    if (wanted == NULL || model != NULL) {
        convoy_model_release(model);
        return;
    }
    model = convoy_registry_find(manager->registry, NULL, NULL, NULL);
    if (model != NULL)
        convoy_log(CONVOY_LOG_WARNING, "the default_model is not there: the only model takes its place",
                   CONVOY_STR("default_model", wanted), CONVOY_STR("model", model->name));
    else
        convoy_log(CONVOY_LOG_WARNING, "the default_model is not there: requests must name one",
                   CONVOY_STR("default_model", wanted));
    convoy_model_release(model);
}

/* The first scan. */
static int scan_first(struct convoy_manager *manager, struct convoy_error *error)
{
    struct convoy_repository_scan *scan = convoy_repository_scan_new(manager->config, manager->registry);
    if (scan == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for the models");
    convoy_repository_scan_run(scan);
    int code = scan->code;
    if (code != 0) {
        *error = scan->error;
    } else {
        convoy_reconcile(manager->registry, scan, NULL, NULL);
        take_scan(manager, scan);
    }
    convoy_repository_scan_free(scan);
    return code;
}

int convoy_manager_new(uv_loop_t *loop, const struct convoy_config *config, struct convoy_registry *registry,
                       struct convoy_supervisor *supervisor, struct convoy_manager **result,
                       struct convoy_error *error)
{
    struct convoy_manager *manager = calloc(1, sizeof *manager);
    if (manager == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for the models");
    manager->loop = loop;
    manager->config = config;
    manager->registry = registry;
    manager->supervisor = supervisor;
    convoy_list_init(&manager->open);
    convoy_list_init(&manager->sent);
    pthread_mutex_init(&manager->lock, NULL);
    manager->work.data = manager->poll.data = manager->again.data = manager->called.data = manager;
    bool complete = true;
    for (char **name = config->repository.load_at_start; name != NULL && *name != NULL; name++)
        complete = complete && convoy_manager_set_served(manager, *name, true);
    int code = complete ? scan_first(manager, error) : convoy_fail(error, -ENOMEM, "out of memory");
    if (code != 0) {
        convoy_manager_free(manager);
        return code;
    }
    apply(manager);
    check_default(manager);
    *result = manager;
    return 0;
}

void convoy_manager_follow(struct convoy_manager *manager, struct convoy_link *link)
{
    manager->tells = link;
    if (manager->config->repository.control != CONVOY_CONTROL_EXPLICIT)
        return;
    convoy_manager_requests_follow(manager, link);
    apply(manager);
}

void convoy_manager_take_over(struct convoy_manager *manager)
{
    convoy_manager_ready_follow(manager);
    convoy_manager_follow(manager, manager->tells);
}

void convoy_manager_start(struct convoy_manager *manager)
{
    uint32_t poll_ms = manager->config->repository.poll_ms;
    uv_timer_init(manager->loop, &manager->poll);
    uv_timer_init(manager->loop, &manager->again);
    uv_async_init(manager->loop, &manager->called, on_called);
    convoy_supervisor_on_change(manager->supervisor, on_changed, manager);
    if (manager->config->repository.control == CONVOY_CONTROL_POLL)
        uv_timer_start(&manager->poll, on_poll, poll_ms, poll_ms);
    pthread_mutex_lock(&manager->lock);
    manager->started = true;
    pthread_mutex_unlock(&manager->lock);
    uv_async_send(&manager->called); /* for what was sent before */
}

void convoy_manager_stop(struct convoy_manager *manager)
{
    pthread_mutex_lock(&manager->lock);
    bool was = manager->stopped;
    manager->stopped = true;
    pthread_mutex_unlock(&manager->lock);
    if (was)
        return;
    convoy_manager_requests_take(manager);
    convoy_manager_requests_end(manager, false);
    convoy_supervisor_on_change(manager->supervisor, NULL, NULL);
    if (!manager->started)
        return;
    uv_close((uv_handle_t *)&manager->poll, NULL);
    uv_close((uv_handle_t *)&manager->again, NULL);
    uv_close((uv_handle_t *)&manager->called, NULL);
}

void convoy_manager_free(struct convoy_manager *manager)
{
    if (manager == NULL)
        return;
    for (uint32_t i = 0; i < manager->asked_count; i++)
        free(manager->asked[i]);
    free(manager->asked);
    convoy_repository_free(&manager->previous);
    pthread_mutex_destroy(&manager->lock);
    free(manager);
}
