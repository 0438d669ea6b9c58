/* What is asked of the model manager, and what becomes of it. No worker is ever started: the tests say what
 * one would have said. */
#include "server/repository/manager.h"

#include "tests/unit/folder.h"

#define REQUESTS 8

static struct folder folder;
static struct convoy_config *config;
static struct convoy_metrics *metrics;
static struct convoy_registry *registry;
static struct convoy_supervisor *supervisor;
static struct convoy_manager *manager;
static struct convoy_error error;
static uv_loop_t loop;

static struct asked {
    struct convoy_control_request request;
    int done, code;
    char sentence[CONVOY_ERROR_BYTES];
} asked[REQUESTS];

static void on_done(struct convoy_control_request *request, int code, const struct convoy_error *why)
{
    struct asked *it = (struct asked *)request;
    it->done++;
    it->code = code;
    snprintf(it->sentence, sizeof it->sentence, "%s", why->message);
}

/* Models that the folder holds: "NAME/VERSION"s up to NULL. */
static void begin(enum convoy_model_control control, const char *const *models)
{
    folder = folder_make();
    for (; *models != NULL; models++) {
        char path[100];
        snprintf(path, sizeof path, "%s/model.onnx", *models);
        folder_write(&folder, path, "a network");
    }
    config = convoy_config_default();
    free(config->models);
    config->models = strdup(folder.path);
    config->repository.control = control;
    metrics = convoy_metrics_new();
    cr_assert_eq(uv_loop_init(&loop), 0);
    cr_assert_eq(convoy_registry_new(config, metrics, &registry, &error), 0);
    cr_assert_eq(convoy_supervisor_new(&loop, config, registry, metrics, &supervisor, &error), 0);
    cr_assert_eq(convoy_manager_new(&loop, config, registry, supervisor, &manager, &error), 0, "%s",
                 error.message);
    memset(asked, 0, sizeof asked);
}

static void end(void)
{
    convoy_manager_stop(manager);
    uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&loop), 0, "something is left on the loop");
    convoy_manager_free(manager);
    convoy_supervisor_free(supervisor);
    convoy_registry_close(registry);
    convoy_metrics_free(metrics);
    convoy_config_free(config);
    folder_remove(&folder);
}

static struct asked *ask(int number, enum convoy_control_request_kind kind, const char *name,
                         uint32_t version)
{
    struct convoy_control_request *request = &asked[number].request;
    request->kind = kind;
    request->version = version;
    request->done = on_done;
    snprintf(request->name, sizeof request->name, "%s", name);
    convoy_manager_send(manager, request);
    return &asked[number];
}

static void until_done(const struct asked *it)
{
    while (it->done == 0)
        cr_assert_neq(uv_run(&loop, UV_RUN_ONCE), 0, "nothing is left that could end it");
    cr_assert_eq(it->done, 1);
}

static struct convoy_model_record *model_of(const char *name)
{
    for (uint32_t i = 0; i < convoy_registry_count(registry); i++) {
        struct convoy_model_record *model = convoy_registry_at(registry, i);
        if (model != NULL && strcmp(model->name, name) == 0)
            return model;
    }
    return NULL;
}

/* Turns the loop until the model's state is that. */
static struct convoy_model_record *until_state(const char *name, enum convoy_model_state state)
{
    struct convoy_model_record *model;
    while ((model = model_of(name)) == NULL || model->state != state)
        cr_assert_neq(uv_run(&loop, UV_RUN_ONCE), 0);
    return model;
}

/* What the supervisor does when a worker has loaded it. */
static void become_ready(struct convoy_model_record *model)
{
    static const struct convoy_model_shape shape = {
        .channels = 3, .height = 2, .width = 2, .output_count = 1, .outputs_per_row = 1};
    convoy_registry_set_ready(registry, model, &shape);
}

/* The manager looks at what there is: a request without an effect. */
static void nudge(void)
{
    struct asked *it = ask(REQUESTS - 1, CONVOY_CONTROL_REQUEST_UNLOAD, "nobody", 0);
    it->done = 0;
    until_done(it);
    cr_assert_eq(it->code, -ENOENT);
}

/* Asks for the model, has it loaded, and waits for the answer. */
static struct convoy_model_record *serve(int number, const char *name)
{
    struct asked *it = ask(number, CONVOY_CONTROL_REQUEST_LOAD, name, 0);
    struct convoy_model_record *model = until_state(name, CONVOY_MODEL_LOADING);
    become_ready(model);
    nudge();
    cr_assert_eq(it->done, 1);
    cr_assert_eq(it->code, 0);
    return model;
}

static const char *const two[] = {"a/1", "b/1", NULL}, *const none[] = {NULL};

Test(manager, what_is_asked_before_the_loop_turns_is_done_when_it_does)
{
    begin(CONVOY_CONTROL_EXPLICIT, none);
    struct asked *it = ask(0, CONVOY_CONTROL_REQUEST_LOAD, "nobody", 0);
    cr_assert_eq(it->done, 0);
    convoy_manager_start(manager);
    until_done(it);
    cr_assert_eq(it->code, -ENOENT);
    cr_assert_not_null(strstr(it->sentence, folder.path), "%s", it->sentence);
    end();
}

Test(manager, a_load_is_done_when_the_model_is_ready)
{
    begin(CONVOY_CONTROL_EXPLICIT, two);
    cr_assert_eq(model_of("a")->state, CONVOY_MODEL_UNLOADED, "it was not asked for");
    convoy_manager_start(manager);
    struct asked *it = ask(0, CONVOY_CONTROL_REQUEST_LOAD, "a", 0);
    struct convoy_model_record *model = until_state("a", CONVOY_MODEL_LOADING);
    nudge();
    cr_assert_eq(it->done, 0, "it is not READY yet");
    cr_assert_eq(model_of("b")->state, CONVOY_MODEL_UNLOADED);
    become_ready(model);
    nudge();
    cr_assert_eq(it->done, 1);
    cr_assert_eq(it->code, 0);
    end();
}

Test(manager, a_load_that_fails_says_why_and_can_be_asked_for_again)
{
    begin(CONVOY_CONTROL_EXPLICIT, two);
    convoy_manager_start(manager);
    struct asked *it = ask(0, CONVOY_CONTROL_REQUEST_LOAD, "a", 0);
    convoy_registry_set_failed(registry, until_state("a", CONVOY_MODEL_LOADING), "it is a poem");
    nudge();
    cr_assert_eq(it->done, 1);
    cr_assert_eq(it->code, -EINVAL);
    cr_assert_not_null(strstr(it->sentence, "it is a poem"), "%s", it->sentence);
    serve(1, "a");
    end();
}

Test(manager, a_load_finds_what_is_new)
{
    begin(CONVOY_CONTROL_EXPLICIT, none);
    convoy_manager_start(manager);
    cr_assert_null(model_of("late"));
    folder_write(&folder, "late/3/model.onnx", "a network");
    serve(0, "late");
    end();
}

Test(manager, a_load_does_not_wait_for_versions_that_are_not_to_be_served)
{
    static const char *const versions[] = {"a/1", "a/2", NULL};
    begin(CONVOY_CONTROL_EXPLICIT, none);
    folder_write(&folder, "a/config.json", "{\"version_policy\": {\"latest\": 1}}");
    for (int i = 0; versions[i] != NULL; i++) {
        char path[100];
        snprintf(path, sizeof path, "%s/model.onnx", versions[i]);
        folder_write(&folder, path, "a network");
    }
    convoy_manager_start(manager);
    struct asked *it = ask(0, CONVOY_CONTROL_REQUEST_LOAD, "a", 0);
    struct convoy_model_record *model = NULL;
    while (model == NULL) {
        cr_assert_neq(uv_run(&loop, UV_RUN_ONCE), 0);
        for (uint32_t i = 0; i < convoy_registry_count(registry); i++)
            if (convoy_registry_at(registry, i)->state == CONVOY_MODEL_LOADING)
                model = convoy_registry_at(registry, i);
    }
    cr_assert_eq(model->version_number, 2);
    become_ready(model);
    nudge();
    cr_assert_eq(it->done, 1);
    cr_assert_eq(it->code, 0);
    end();
}

/* Holds libuv's only thread. */
static uv_sem_t go_on;
static void hold_thread(uv_work_t *work)
{
    (void)work;
    uv_sem_wait(&go_on);
}
static void held_thread(uv_work_t *work, int status)
{
    (void)work, (void)status;
}

static int second_done_when_first_was;
static void on_first_done(struct convoy_control_request *request, int code, const struct convoy_error *why)
{
    second_done_when_first_was = asked[1].done;
    on_done(request, code, why);
}

Test(manager, a_load_that_comes_during_a_scan_waits_for_the_next)
{
    uv_work_t held;
    cr_assert_eq(setenv("UV_THREADPOOL_SIZE", "1", 1), 0);
    uv_sem_init(&go_on, 0);
    begin(CONVOY_CONTROL_EXPLICIT, none);
    convoy_manager_start(manager);
    cr_assert_eq(uv_queue_work(&loop, &held, hold_thread, held_thread), 0);
    for (int i = 0; i < 2; i++) {
        ask(i, CONVOY_CONTROL_REQUEST_LOAD, i == 0 ? "first" : "second", 0);
        uv_run(&loop, UV_RUN_NOWAIT); /* it is taken, and the scan cannot begin */
        asked[0].request.done = on_first_done;
    }
    uv_sem_post(&go_on);
    until_done(&asked[0]);
    until_done(&asked[1]);
    cr_assert_eq(second_done_when_first_was, 0, "the scan had begun when it came");
    uv_sem_destroy(&go_on);
    end();
}

Test(manager, an_unload_takes_it_off_and_only_that)
{
    begin(CONVOY_CONTROL_EXPLICIT, two);
    convoy_manager_start(manager);
    serve(0, "a");
    serve(1, "b");
    until_done(ask(2, CONVOY_CONTROL_REQUEST_UNLOAD, "a", 0));
    cr_assert_eq(asked[2].code, 0);
    until_state("a", CONVOY_MODEL_UNLOADED);
    cr_assert_eq(model_of("b")->state, CONVOY_MODEL_READY);
    end();
}

Test(manager, a_model_that_is_held_stays_until_it_is_let_go)
{
    begin(CONVOY_CONTROL_EXPLICIT, two);
    convoy_manager_start(manager);
    struct convoy_model_record *model = serve(0, "a");
    convoy_model_hold(model);
    until_done(ask(1, CONVOY_CONTROL_REQUEST_UNLOAD, "a", 0));
    until_state("a", CONVOY_MODEL_UNLOADING);
    for (int i = 0; i < 5; i++)
        nudge();
    cr_assert_eq(model->state, CONVOY_MODEL_UNLOADING, "a request is bound to it");
    convoy_model_release(model);
    until_state("a", CONVOY_MODEL_UNLOADED);
    end();
}

Test(manager, only_explicit_control_takes_requests)
{
    static const enum convoy_model_control others[] = {CONVOY_CONTROL_NONE, CONVOY_CONTROL_POLL};
    for (int i = 0; i < 2; i++) {
        begin(others[i], two);
        cr_assert_eq(model_of("a")->state, CONVOY_MODEL_LOADING, "all that is there is served");
        convoy_manager_start(manager);
        until_done(ask(0, CONVOY_CONTROL_REQUEST_LOAD, "a", 0));
        until_done(ask(1, CONVOY_CONTROL_REQUEST_UNLOAD, "a", 0));
        cr_assert(asked[0].code == -EPERM && asked[1].code == -EPERM);
        cr_assert_not_null(strstr(asked[0].sentence, "model_control"), "%s", asked[0].sentence);
        cr_assert_eq(model_of("a")->state, CONVOY_MODEL_LOADING);
        end();
    }
}

Test(manager, who_wakes_a_model_holds_it_when_it_is_ready)
{
    begin(CONVOY_CONTROL_NONE, two);
    convoy_manager_start(manager);
    struct convoy_model_record *model = model_of("a");
    struct asked *it = ask(0, CONVOY_CONTROL_REQUEST_ACTIVATE, "a", 1);
    uv_run(&loop, UV_RUN_ONCE);
    cr_assert_eq(it->done, 0);
    become_ready(model);
    ask(1, CONVOY_CONTROL_REQUEST_UNLOAD, "a", 0); /* refused, but looked at */
    until_done(&asked[1]);
    cr_assert_eq(it->done, 1);
    cr_assert_eq(it->code, 0);
    cr_assert_eq(it->request.model, model);
    cr_assert_eq(atomic_load(&model->holders), 1);
    convoy_model_release(model);
    it = ask(2, CONVOY_CONTROL_REQUEST_ACTIVATE, "a", 7);
    until_done(it);
    cr_assert_eq(it->code, -ENOENT, "there is no such version");
    end();
}

Test(manager, stopping_ends_what_waits_and_what_comes_later)
{
    begin(CONVOY_CONTROL_EXPLICIT, two);
    convoy_manager_start(manager);
    struct asked *waits = ask(0, CONVOY_CONTROL_REQUEST_LOAD, "a", 0);
    until_state("a", CONVOY_MODEL_LOADING);
    struct asked *not_taken = ask(1, CONVOY_CONTROL_REQUEST_LOAD, "b", 0);
    convoy_manager_stop(manager);
    cr_assert(waits->done == 1 && not_taken->done == 1);
    cr_assert(waits->code == -ECANCELED && not_taken->code == -ECANCELED);
    struct asked *late = ask(2, CONVOY_CONTROL_REQUEST_LOAD, "b", 0);
    cr_assert_eq(late->done, 1);
    cr_assert_eq(late->code, -ECANCELED);
    end();
}

Test(manager, a_folder_that_cannot_be_read_changes_nothing)
{
    begin(CONVOY_CONTROL_EXPLICIT, two);
    convoy_manager_start(manager);
    serve(0, "a");
    char moved[100];
    snprintf(moved, sizeof moved, "%s-away", folder.path);
    cr_assert_eq(rename(folder.path, moved), 0);
    struct asked *known = ask(1, CONVOY_CONTROL_REQUEST_LOAD, "a", 0),
                 *unknown = ask(2, CONVOY_CONTROL_REQUEST_LOAD, "c", 0);
    until_done(known);
    until_done(unknown);
    cr_assert_eq(known->code, 0, "it serves");
    cr_assert_eq(unknown->code, -ENOENT);
    cr_assert_eq(model_of("a")->state, CONVOY_MODEL_READY);
    cr_assert_eq(rename(moved, folder.path), 0);
    end();
}
