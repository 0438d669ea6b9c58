/* From the repository's folder to records, and from records to what is served: scan, reconcile, select, find.
 * No worker takes part; the tests say what one would have said. */
#include "server/repository/reconcile.h"

#include "tests/unit/folder.h"

static struct folder folder;
static struct convoy_config *config;
static struct convoy_metrics *metrics;
static struct convoy_registry *registry;
static struct convoy_repository previous;
static struct convoy_error error;
static const char *asked_for; /* NULL: every name */

static bool asked(void *context, const char *name)
{
    (void)context;
    return asked_for == NULL || strcmp(asked_for, name) == 0;
}

static void begin(void)
{
    folder = folder_make();
    config = convoy_config_default();
    free(config->models);
    config->models = strdup(folder.path);
    config->repository.control = CONVOY_CONTROL_POLL;
    metrics = convoy_metrics_new();
    cr_assert_eq(convoy_registry_new(config, metrics, &registry, &error), 0);
    asked_for = NULL;
}

static void end(void)
{
    convoy_registry_close(registry);
    convoy_repository_free(&previous);
    convoy_metrics_free(metrics);
    convoy_config_free(config);
    folder_remove(&folder);
}

TestSuite(registry, .init = begin, .fini = end);

/* Looks, and takes over what looked the same the last time (at_once: all). Returns how many records came. */
static uint32_t look(bool at_once)
{
    struct convoy_repository_scan *now = convoy_repository_scan_new(config, registry);
    convoy_repository_scan_run(now);
    cr_assert_eq(now->code, 0, "%s", now->error.message);
    uint32_t added = convoy_reconcile(registry, now, at_once ? NULL : &previous, NULL);
    convoy_repository_free(&previous);
    previous = now->repository;
    now->repository = (struct convoy_repository){0};
    convoy_repository_scan_free(now);
    convoy_select_versions(registry, asked, NULL);
    return added;
}

static void put(const char *name, const char *version, const char *text)
{
    char path[100];
    snprintf(path, sizeof path, "%s/%s/model.onnx", name, version);
    folder_write(&folder, path, text);
}

/* The newest record of a version. */
static struct convoy_model_record *record(const char *name, uint32_t version)
{
    struct convoy_model_record *newest = NULL;
    for (uint32_t i = 0; i < convoy_registry_count(registry); i++) {
        struct convoy_model_record *model = convoy_registry_at(registry, i);
        if (model != NULL && strcmp(model->name, name) == 0 && model->version_number == version &&
            (newest == NULL || model->generation > newest->generation))
            newest = model;
    }
    cr_assert_not_null(newest, "%s/%u has no record", name, version);
    return newest;
}

static void ready(struct convoy_model_record *model)
{
    static const struct convoy_model_shape shape = {
        .channels = 3, .height = 2, .width = 2, .output_count = 1};
    convoy_registry_set_ready(registry, model, &shape);
    convoy_select_versions(registry, asked, NULL);
}

/* Who is found is let go at once: the tests have no other thread. */
static struct convoy_model_record *find(const char *name, const char *version)
{
    struct convoy_model_record *model = convoy_registry_find(registry, name, version, &error);
    convoy_model_release(model);
    return model;
}

static void assert_wanted(const char *name, const char *versions)
{
    char text[100] = "";
    for (uint32_t version = 1; version < 100; version++)
        for (uint32_t i = 0; i < convoy_registry_count(registry); i++) {
            const struct convoy_model_record *model = convoy_registry_at(registry, i);
            if (model != NULL && strcmp(model->name, name) == 0 && model->version_number == version &&
                model->plan.wanted)
                snprintf(text + strlen(text), sizeof text - strlen(text), "%u ", version);
        }
    cr_assert_str_eq(text, versions);
}

Test(registry, what_is_new_is_taken_when_it_looks_the_same_twice)
{
    put("a", "1", "x");
    cr_assert_eq(look(true), 1);
    put("a", "2", "half");
    cr_assert_eq(look(false), 0, "a file that was seen once may be in the middle of being written");
    put("a", "2", "half and half");
    cr_assert_eq(look(false), 0, "it has changed since");
    cr_assert_eq(look(false), 1);
    cr_assert_eq(look(false), 0, "it is known now");
    cr_assert_eq(record("a", 2)->bytes, strlen("half and half"));
}

Test(registry, files_that_change_are_read_again_beside_the_old_record)
{
    put("a", "1", "x");
    look(true);
    struct convoy_model_record *old = record("a", 1);
    ready(old);
    put("a", "1", "another");
    look(false);
    cr_assert_eq(look(false), 1);
    struct convoy_model_record *new = record("a", 1);
    cr_assert_neq(new, old);
    cr_assert(new->plan.wanted && !old->plan.wanted);
    cr_assert(!old->plan.covered, "the old one goes before the new one is READY");
    cr_assert_eq(find("a", NULL), old);
    ready(new);
    cr_assert(old->plan.covered);
    cr_assert_eq(find("a", NULL), new);
    cr_assert_eq(new->statistics, old->statistics, "the version's statistics begin at 0");
    folder_write(&folder, "a/labels.txt", "one\n");
    look(false);
    cr_assert_eq(look(false), 1, "labels are part of it");
    folder_write(&folder, "a/README.md", "# a");
    look(false);
    cr_assert_eq(look(false), 0, "a note is not");
}

Test(registry, what_is_gone_twice_is_gone)
{
    put("a", "1", "x");
    put("b", "1", "x");
    look(true);
    cr_assert_eq(unlink(folder_path(&folder, "a/1/model.onnx")), 0);
    cr_assert_eq(rmdir(folder_path(&folder, "a/1")), 0);
    look(false);
    cr_assert(record("a", 1)->plan.wanted, "a folder that is being replaced is away for a moment");
    look(false);
    cr_assert(!record("a", 1)->plan.wanted && !record("a", 1)->plan.present);
    cr_assert(record("b", 1)->plan.wanted);
}

Test(registry, a_broken_version_leaves_the_old_one)
{
    struct convoy_model_list list;
    put("a", "1", "x");
    look(true);
    struct convoy_model_record *old = record("a", 1);
    ready(old);
    folder_write(&folder, "a/config.json", "{\"version_policy\": {\"latest\": 1}}");
    put("a", "2", "y");
    look(false);
    cr_assert_eq(look(false), 2); /* 1 has another configuration, too */
    struct convoy_model_record *broken = record("a", 2);
    assert_wanted("a", "2 ");
    convoy_registry_set_failed(registry, broken, "it is damaged");
    convoy_select_versions(registry, asked, NULL);
    cr_assert(!old->plan.covered);
    cr_assert_eq(find("a", NULL), old);
    cr_assert_eq(find("a", "2"), broken);
    convoy_registry_set_failed(registry, record("a", 1), "so is this");
    cr_assert_eq(convoy_registry_list(registry, "a", &list, &error), 0);
    cr_assert_eq(list.count, 2);
    cr_assert_eq(list.views[0].model, old);
    cr_assert_eq(list.views[0].state, CONVOY_MODEL_READY);
    cr_assert_str_eq(list.views[0].reason, "so is this", "why the newer reading cannot be served");
    cr_assert_str_eq(list.views[1].reason, "it is damaged");
    convoy_model_list_end(&list);
    cr_assert_eq(atomic_load(&old->holders), 0);
}

Test(registry, without_a_live_repository_a_broken_version_is_not_replaced_by_a_lower_one)
{
    config->repository.control = CONVOY_CONTROL_NONE;
    put("a", "1", "x");
    put("a", "2", "y");
    look(true);
    ready(record("a", 1));
    convoy_registry_set_failed(registry, record("a", 2), "it is damaged");
    cr_assert_eq(find("a", NULL), record("a", 2));
    cr_assert_eq(find("a", "1"), record("a", 1));
}

Test(registry, versions_are_chosen_by_policy)
{
    put("a", "1", "x");
    put("a", "3", "x");
    put("a", "10", "x");
    look(true);
    assert_wanted("a", "1 3 10 ");
    folder_write(&folder, "a/config.json", "{\"version_policy\": {\"latest\": 2}}");
    look(true);
    assert_wanted("a", "3 10 ");
    folder_write(&folder, "a/config.json", "{\"version_policy\": {\"specific\": [10, 1, 7]}}");
    look(true);
    assert_wanted("a", "1 10 ");
    folder_write(&folder, "a/config.json", "{\"version_policy\": \"all\"}");
    look(true);
    assert_wanted("a", "1 3 10 ");
    asked_for = "b";
    convoy_select_versions(registry, asked, NULL);
    assert_wanted("a", "");
}

Test(registry, what_is_wrong_with_a_policy_is_named)
{
    static const char *const wrong[][2] = {
        {"1", "version_policy must be \"all\", {\"latest\": N} or {\"specific\": [N, ...]}"},
        {"\"some\"", "version_policy must be"},
        {"{}", "version_policy needs one of latest and specific"},
        {"{\"latest\": 1, \"specific\": [1]}", "needs one of"},
        {"{\"latest\": 0}", "version_policy.latest must be an integer from 1 to 1024"},
        {"{\"newest\": 1}", "unknown key 'version_policy.newest'"},
        {"{\"specific\": []}", "version_policy.specific must be an array of 1 to 1024 versions"},
        {"{\"specific\": 3}", "version_policy.specific must be an array"},
        {"{\"specific\": [1, 0]}", "version_policy.specific[1] must be a version"},
        {"{\"specific\": [1.5]}", "version_policy.specific[0] must be a version"},
        {"{\"specific\": [1000000000]}", "version_policy.specific[0] must be a version"},
        {"{\"specific\": [\"1\"]}", "version_policy.specific[0] must be a version"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        char text[200];
        snprintf(text, sizeof text, "{\"version_policy\": %s}", wrong[i][0]);
        folder_write(&folder, "a/config.json", text);
        put("a", "1", wrong[i][0]);
        look(true);
        cr_assert_eq(record("a", 1)->state, CONVOY_MODEL_FAILED, "%s", text);
        cr_assert_not_null(strstr(record("a", 1)->reason, wrong[i][1]), "%s: %s", text,
                           record("a", 1)->reason);
    }
}

Test(registry, a_number_is_used_again_when_nobody_holds_it)
{
    put("a", "1", "x");
    put("b", "1", "x");
    look(true);
    struct convoy_model_record *a = record("a", 1);
    uint32_t number = a->number;
    convoy_model_hold(a);
    cr_assert(!convoy_registry_remove(registry, a), "a record that is held is freed");
    cr_assert_eq(record("a", 1), a);
    convoy_model_release(a);
    cr_assert(convoy_registry_remove(registry, a));
    cr_assert_null(convoy_registry_at(registry, number));
    cr_assert_null(find("a", NULL));
    assert_says(error, "there is no such model: the models are b");
    put("c", "1", "x");
    look(true);
    cr_assert_eq(convoy_registry_at(registry, number)->number, number);
}

Test(registry, who_is_found_without_a_name)
{
    put("a", "1", "x");
    put("b", "1", "x");
    look(true);
    cr_assert_null(find(NULL, NULL), "nothing is to be served yet");
    ready(record("a", 1));
    cr_assert_eq(find(NULL, NULL), record("a", 1), "the only one that is to be served");
    cr_assert(!convoy_registry_default_missing(registry));
    ready(record("b", 1));
    cr_assert_null(find(NULL, NULL));
    assert_says(
        error,
        "name a model with ?model=NAME (convoy: --model NAME): there is no default; the models are a, b");
    cr_assert(convoy_registry_default_missing(registry));
    config->default_model = strdup("b");
    cr_assert_eq(find(NULL, NULL), record("b", 1));
    cr_assert_null(find("b", "2"));
    assert_says(error, "that version of the model does not exist");
}

Test(registry, one_that_rests_is_found_like_one_that_is_ready)
{
    put("a", "1", "x");
    put("a", "2", "x");
    look(true);
    ready(record("a", 1));
    ready(record("a", 2));
    convoy_registry_set_unloading(registry, record("a", 2), true);
    cr_assert_eq(find("a", NULL), record("a", 2));
    convoy_registry_set_unloaded(registry, record("a", 2), true);
    cr_assert_eq(find("a", NULL), record("a", 2));
    convoy_registry_set_loading(registry, record("a", 2));
    cr_assert(record("a", 2)->evicted, "a request waits while it is loaded again, too");
    convoy_registry_set_unloaded(registry, record("a", 2), false);
    cr_assert_eq(find("a", NULL), record("a", 1));
}

Test(registry, settled_once_is_settled)
{
    put("a", "1", "x");
    look(true);
    cr_assert(!convoy_registry_settled(registry));
    convoy_registry_set_loading(registry, record("a", 1));
    ready(record("a", 1));
    cr_assert(!convoy_registry_settled(registry), "it was not told that all are answered");
    convoy_registry_settle(registry);
    cr_assert(convoy_registry_settled(registry));
    put("b", "1", "x");
    look(true);
    convoy_registry_set_loading(registry, record("b", 1));
    cr_assert(convoy_registry_settled(registry), "a new model makes the server unready");
    convoy_registry_set_failed(registry, record("a", 1), "gone");
    cr_assert(!convoy_registry_settled(registry), "nothing answers");
}
