/* The registry under many threads: HTTP threads look a model up and take views of it while the control loop
 * changes its state and its labels. A view is whole: of one moment. */
#include "server/models/registry.h"
#include "server/repository/reconcile.h"
#include "tests/threads/check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READERS 4
#define TURNS   400 /* of the control loop */

static struct convoy_registry *registry;
static const char *name;
static pthread_barrier_t start;
static atomic_bool ended;

static void *look(void *context)
{
    struct convoy_error why;
    (void)context;
    pthread_barrier_wait(&start);
    do {
        struct convoy_model_view view;
        struct convoy_model_record *model = convoy_registry_find(registry, name, NULL, &why);
        CHECK(model != NULL && strcmp(model->name, name) == 0);
        convoy_registry_view(registry, model, &view);
        CHECK(view.model == model);
        /* The state that follows the reason, and the two that come with the shape. */
        CHECK(view.state != CONVOY_MODEL_FAILED || strcmp(view.reason, "it is broken") == 0);
        CHECK(view.shape.height == view.shape.width);
        CHECK(view.labels != NULL && convoy_labels_list(view.labels)->count == 10);
        convoy_model_view_end(&view);
        convoy_model_release(model);
    } while (!atomic_load(&ended));
    return NULL;
}

static struct convoy_model_config *configuration(const struct convoy_config *config,
                                                 const struct convoy_model_record *model)
{
    struct convoy_error error;
    struct convoy_model_config *fresh = NULL;
    CHECK(convoy_model_config_load(model->folder, &config->batching, &fresh, &error) == 0);
    return fresh;
}

static void change(const struct convoy_config *config, struct convoy_model_record *model, uint32_t turn)
{
    struct convoy_model_shape shape = {.channels = 3, .height = turn, .width = turn, .outputs_per_row = 10};
    shape.output_count = 1;
    shape.output_elements[0] = 10;
    convoy_registry_set_loading(registry, model);
    if (turn % 64 == 1) /* each is a line of the log */
        convoy_registry_set_failed(registry, model, "it is broken");
    else
        convoy_registry_set_ready(registry, model, &shape);
    if (turn % 8 == 0)
        convoy_registry_reconfigure(registry, model, configuration(config, model));
}

int main(void)
{
    pthread_t readers[READERS];
    struct convoy_error error;
    struct convoy_config *config = convoy_config_default();
    struct convoy_metrics *metrics = convoy_metrics_new();
    CHECK(config != NULL && metrics != NULL);
    CHECK(convoy_registry_new(config, metrics, &registry, &error) == 0);
    struct convoy_repository_scan *scan = convoy_repository_scan_new(config, registry);
    convoy_repository_scan_run(scan);
    CHECK(scan->code == 0 && convoy_reconcile(registry, scan, NULL, NULL) > 0);
    struct convoy_model_record *model = convoy_registry_at(registry, 0);
    name = model->name;
    CHECK(pthread_barrier_init(&start, NULL, READERS + 1) == 0);
    for (int i = 0; i < READERS; i++)
        CHECK(pthread_create(&readers[i], NULL, look, NULL) == 0);
    pthread_barrier_wait(&start);
    for (uint32_t turn = 0; turn < TURNS; turn++)
        change(config, model, turn);
    atomic_store(&ended, true);
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    CHECK(atomic_load(&model->holders) == 0);
    CHECK(convoy_registry_remove(registry, model));
    convoy_repository_scan_free(scan);
    convoy_registry_close(registry);
    convoy_metrics_free(metrics);
    convoy_config_free(config);
    pthread_barrier_destroy(&start);
    return 0;
}
