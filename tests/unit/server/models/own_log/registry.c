/* The registry writes log lines while its lock, which HTTP threads take, is free: standard error may be slow.
 * The log's functions are replaced by ones that look at the lock. */
#include "server/models/registry_internal.h"

#include "engine/base/log.h"
#include "tests/unit/folder.h"

static struct convoy_registry *registry;
static char last[200];
static int lines;

void convoy_log_fields(enum convoy_log_level level, const struct convoy_log_field *fields)
{
    (void)level;
    lines++;
    snprintf(last, sizeof last, "%s", fields[0].string);
    for (uint32_t i = 0; i < CONVOY_THREAD_PARTS; i++) {
        cr_assert_eq(pthread_mutex_trylock(&registry->lock.parts[i].mutex), 0, "logged under the lock: %s",
                     last);
        pthread_mutex_unlock(&registry->lock.parts[i].mutex);
    }
}

bool convoy_log_enabled(enum convoy_log_level level)
{
    (void)level;
    return true;
}

void convoy_log_configure(enum convoy_log_format format, enum convoy_log_level level)
{
    (void)format, (void)level;
}

bool convoy_log_level_parse(const char *text, enum convoy_log_level *level)
{
    (void)text, (void)level;
    return false;
}

const char *convoy_log_level_text(enum convoy_log_level level)
{
    (void)level;
    return "";
}

Test(registry_log, lines_are_written_while_the_lock_is_free)
{
    struct convoy_error error;
    struct folder folder = folder_make();
    struct convoy_config *config = convoy_config_default();
    struct convoy_metrics *metrics = convoy_metrics_new();
    struct convoy_repository_entry entry = {
        .name = "m", .version = "1", .number = 1, .folder = folder.path, .path = folder.path};
    static const struct convoy_model_shape three_classes = {.channels = 3,
                                                            .height = 2,
                                                            .width = 2,
                                                            .output_count = 1,
                                                            .output_elements = {3},
                                                            .outputs_per_row = 3};
    struct convoy_model_config *of_model, *fresh;
    struct convoy_model_record *model;
    cr_assert_eq(convoy_registry_new(config, metrics, &registry, &error), 0);
    folder_write(&folder, "labels.txt", "cat\ndog\n");
    cr_assert_eq(convoy_model_config_load(folder.path, &config->batching, &of_model, &error), 0);
    cr_assert_eq(convoy_model_config_load(folder.path, &config->batching, &fresh, &error), 0);
    cr_assert_eq(convoy_registry_add(registry, &entry, of_model, NULL, &model, &error), 0);
    convoy_registry_set_loading(registry, model);
    convoy_registry_set_ready(registry, model, &three_classes);
    cr_assert_eq(lines, 1);
    cr_assert_not_null(strstr(last, "labels"), "%s", last);
    convoy_registry_reconfigure(registry, model, fresh);
    cr_assert_eq(lines, 2, "it is still wrong");
    convoy_registry_set_failed(registry, model, "it died");
    cr_assert_eq(lines, 3);
    convoy_registry_close(registry);
    convoy_metrics_free(metrics);
    convoy_config_free(config);
    folder_remove(&folder);
}
