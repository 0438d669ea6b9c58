/* Labels of workers: what a front must agree with to adopt one. */
#include "server/workers/worker_label.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct convoy_channel_size size = {.slots = 2, .input_bytes = 100, .output_bytes = 64};

static const char *label_of(const struct convoy_worker_config *config, const char *models)
{
    static char labels[2][CONVOY_WORKER_LABEL_BYTES];
    static unsigned turn;
    const struct convoy_worker_settings settings = {.device_index = 1,
                                                    .streams = 2,
                                                    .of = CONVOY_OF_ALL,
                                                    .tune = "on",
                                                    .sandbox = {config, models, false}};
    convoy_worker_label_make(&settings, "cpu", &size, labels[turn++ % 2]);
    return labels[(turn + 1) % 2];
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
