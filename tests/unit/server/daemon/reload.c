/* What SIGHUP reads again: off the loop, and taken over on it. */
#include "server/daemon/reload.h"

#include "tests/unit/folder.h"

static struct folder folder;
static struct convoy_config *config;
static struct convoy_metrics *metrics;
static struct convoy_registry *registry;
static struct convoy_model_record *model;
static struct convoy_error error;
static uv_loop_t loop;
static uv_sem_t go_on;
static uv_work_t held;
static int begun, done;
static bool taken_over;
static char problem[CONVOY_ERROR_BYTES];
static struct convoy_reload reload;

/* The pool has one thread, and this holds it until go_on: whatever is read is read after that. */
static void hold_thread(uv_work_t *work)
{
    (void)work;
    uv_sem_wait(&go_on);
}

static void on_held(uv_work_t *work, int status)
{
    (void)work, (void)status;
}

static void on_begun(void *context)
{
    (void)context;
    begun++;
}

static void on_done(void *context, const struct convoy_config *fresh, const char *why)
{
    (void)context;
    done++;
    taken_over = fresh != NULL;
    cr_assert_eq(fresh == NULL, why != NULL);
    snprintf(problem, sizeof problem, "%s", why != NULL ? why : "");
}

static void add_model(void)
{
    struct convoy_repository_entry entry = {
        .name = "m", .version = "1", .number = 1, .folder = folder.path, .path = folder.path};
    struct convoy_model_config *of_model;
    cr_assert_eq(convoy_model_config_load(folder.path, &config->batching, &of_model, &error), 0);
    cr_assert_eq(convoy_registry_add(registry, &entry, of_model, NULL, &model, &error), 0);
}

static void begin(void)
{
    cr_assert_eq(setenv("UV_THREADPOOL_SIZE", "1", 1), 0);
    uv_sem_init(&go_on, 0);
    folder = folder_make();
    folder_write(&folder, "labels.txt", "cat\ndog\n");
    config = convoy_config_default();
    metrics = convoy_metrics_new();
    cr_assert_eq(uv_loop_init(&loop), 0);
    cr_assert_eq(convoy_registry_new(config, metrics, &registry, &error), 0);
    add_model();
    reload = (struct convoy_reload){.loop = &loop,
                                    .file = folder_write(&folder, "convoyd.json", "{}"),
                                    .registry = registry,
                                    .begun = on_begun,
                                    .done = on_done};
    cr_assert_eq(uv_queue_work(&loop, &held, hold_thread, on_held), 0);
}

static void end(void)
{
    uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&loop), 0);
    uv_sem_destroy(&go_on);
    convoy_registry_close(registry);
    convoy_metrics_free(metrics);
    convoy_config_free(config);
    folder_remove(&folder);
}
TestSuite(reload, .init = begin, .fini = end);

static const char *label(void)
{
    static char text[64];
    struct convoy_model_view view;
    char number[16];
    convoy_registry_view(registry, model, &view);
    snprintf(text, sizeof text, "%s", convoy_model_label(&view, 0, number));
    convoy_model_view_end(&view);
    return text;
}

static void until_done(int count)
{
    for (int alive = 1; done < count;) {
        cr_assert_neq(alive, 0, "nothing is left that could end it");
        alive = uv_run(&loop, UV_RUN_ONCE);
    }
    cr_assert_eq(done, count);
}

Test(reload, files_are_read_off_the_loop)
{
    convoy_reload_begin(&reload);
    folder_write(&folder, "labels.txt", "lynx\nwolf\n"); /* read when the pool gets to it */
    folder_write(&folder, "config.json", "{\"batching\": {\"max_delay_us\": 777}}");
    cr_assert(begun == 1 && done == 0);
    for (int i = 0; i < 3; i++)
        uv_run(&loop, UV_RUN_NOWAIT);
    cr_assert_eq(done, 0, "the loop turns meanwhile");
    cr_assert_str_eq(label(), "cat");
    uv_sem_post(&go_on);
    until_done(1);
    cr_assert(taken_over);
    cr_assert_str_eq(label(), "lynx");
    cr_assert_eq(model->config->batching.max_delay_us, 777);
}

Test(reload, a_second_one_meanwhile_is_read_after_the_first)
{
    convoy_reload_begin(&reload);
    convoy_reload_begin(&reload);
    convoy_reload_begin(&reload);
    cr_assert_eq(begun, 1);
    uv_sem_post(&go_on);
    until_done(1);
    cr_assert_eq(begun, 2, "the first may have read older files");
    until_done(2);
    while (uv_run(&loop, UV_RUN_ONCE) != 0)
        ;
    cr_assert(begun == 2 && done == 2);
}

Test(reload, what_comes_back_after_the_stop_changes_nothing)
{
    convoy_reload_begin(&reload);
    convoy_reload_begin(&reload);
    folder_write(&folder, "labels.txt", "lynx\nwolf\n");
    convoy_reload_stop(&reload);
    uv_sem_post(&go_on);
    while (uv_run(&loop, UV_RUN_ONCE) != 0)
        ;
    cr_assert(begun == 1 && done == 0);
    cr_assert_str_eq(label(), "cat");
    convoy_reload_begin(&reload);
    cr_assert_eq(begun, 1);
}

Test(reload, a_wrong_file_leaves_everything_as_it_was)
{
    uv_sem_post(&go_on);
    folder_write(&folder, "convoyd.json", "{\"log\": {\"level\": \"loud\"}}");
    folder_write(&folder, "labels.txt", "lynx\nwolf\n");
    convoy_reload_begin(&reload);
    until_done(1);
    cr_assert_not(taken_over);
    cr_assert_not_null(strstr(problem, "log.level"), "%s", problem);
    cr_assert_str_eq(label(), "cat");

    folder_write(&folder, "convoyd.json", "{}");
    folder_write(&folder, "config.json", "{\"batching\": 1}");
    convoy_reload_begin(&reload);
    until_done(2);
    cr_assert(taken_over, "one model's file is that model's matter");
    cr_assert_str_eq(label(), "cat");
}

Test(reload, a_record_that_took_the_place_of_another_is_left_alone)
{
    convoy_reload_begin(&reload);
    cr_assert(convoy_registry_remove(registry, model));
    folder_write(&folder, "labels.txt", "emu\nowl\n");
    add_model();
    folder_write(&folder, "labels.txt", "lynx\nwolf\n");
    uv_sem_post(&go_on);
    until_done(1);
    cr_assert_str_eq(label(), "emu");
}
