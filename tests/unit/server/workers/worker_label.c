/* Labels of workers: what a front must agree with to adopt one. */
#include "server/workers/worker_label.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct convoy_channel_size size = {.slots = 2, .input_bytes = 100, .output_bytes = 64};

static const char *label_with(const struct convoy_worker_config *config, const char *models,
                              bool models_change, const char *backend)
{
    static char labels[2][CONVOY_WORKER_LABEL_BYTES];
    static unsigned turn;
    const struct convoy_worker_settings settings = {.device_index = 1,
                                                    .streams = 2,
                                                    .of = CONVOY_OF_ALL,
                                                    .tune = "on",
                                                    .sandbox = {config, models, models_change}};
    convoy_worker_label_make(&settings, backend, &size, labels[turn++ % 2]);
    return labels[(turn + 1) % 2];
}

static const char *label_of(const struct convoy_worker_config *config, const char *models)
{
    return label_with(config, models, false, "cpu");
}

Test(worker_label, a_worker_that_is_confined_otherwise_has_another)
{
    char *one[] = {"/data/a", "/data/b", NULL}, *other[] = {"/data/a", "/data/", "b", NULL};
    char user[] = "5:5";
    const struct convoy_worker_config usual = convoy_worker_config_default;
    struct convoy_worker_config changed[] = {usual, usual, usual, usual};
    changed[0].sandbox = false;
    changed[1].confine_files = CONVOY_CONFINE_FILES_OFF;
    changed[2].readable = one;
    changed[3].user = user;
    cr_assert_str_eq(label_of(&usual, "models"), label_of(&usual, "models"));
    for (size_t i = 0; i < sizeof changed / sizeof changed[0]; i++)
        cr_assert_str_neq(label_of(&usual, "models"), label_of(&changed[i], "models"), "%zu", i);
    cr_assert_str_neq(label_of(&usual, "models"), label_of(&usual, "other"), "the models' folder");
    changed[3] = changed[2];
    changed[3].readable = other;
    cr_assert_str_neq(label_of(&changed[2], "models"), label_of(&changed[3], "models"));
}

/* As builds before there was a choice wrote it. */
Test(worker_label, a_worker_that_may_open_any_file_has_the_same_whatever_else_is_configured)
{
    static const char wanted[] = "streams=2 sandbox=1 canary=0 orphan=0 tune=on cache=";
    char *readable[] = {"/data", NULL};
    struct convoy_worker_config off = convoy_worker_config_default, on = off;
    off.confine_files = CONVOY_CONFINE_FILES_OFF;
    on.confine_files = CONVOY_CONFINE_FILES_ON;
    off.readable = readable;
    cr_assert_not_null(strstr(label_with(&convoy_worker_config_default, "models", true, "cpu"), wanted));
    cr_assert_not_null(strstr(label_with(&off, "models", false, "cpu"), wanted));
    cr_assert_null(strstr(label_with(&convoy_worker_config_default, "models", false, "cpu"), wanted));
    cr_assert_null(strstr(label_with(&convoy_worker_config_default, "models", false, "cuda"), wanted));
    cr_assert_null(strstr(label_with(&on, "models", true, "cuda"), wanted));
}
