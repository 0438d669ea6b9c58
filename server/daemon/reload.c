#include "server/daemon/reload.h"

#include "engine/base/log.h"
#include "server/http/access_log.h"
#include "server/security/tls.h"
#include "server/security/tls_credentials.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* One model's folder, and the configuration that was read from it. */
struct model_reading {
    uint32_t number;
    uint64_t generation; /* identifies the record: another one may have its number when the reading is over */
    char *folder;
    struct convoy_model_config *config; /* NULL: error says why */
    struct convoy_error error;
};

/* One reading of all files. Owned by the pool's thread while it reads, else by the control loop. */
struct convoy_reading {
    const char *file;
    struct convoy_config *config; /* NULL: error says why */
    struct convoy_error error;
    struct convoy_tls_credentials *credentials; /* NULL: none are configured, or tls_error says why */
    struct convoy_error tls_error;
    uint32_t model_count;
    struct model_reading models[];
};

static void free_reading(struct convoy_reading *reading)
{
    for (uint32_t i = 0; i < reading->model_count; i++) {
        free(reading->models[i].folder);
        convoy_model_config_free(reading->models[i].config);
    }
    convoy_tls_unload(reading->credentials);
    convoy_config_free(reading->config);
    free(reading);
}

/* NULL when memory is out. */
static struct convoy_reading *new_reading(struct convoy_reload *reload)
{
    uint32_t count = convoy_registry_count(reload->registry);
    struct convoy_reading *reading = calloc(1, sizeof *reading + count * sizeof reading->models[0]);
    if (reading == NULL)
        return NULL;
    reading->file = reload->file;
    for (uint32_t i = 0; i < count; i++) {
        const struct convoy_model_record *model = convoy_registry_at(reload->registry, i);
        if (model == NULL || model->config == NULL)
            continue;
        struct model_reading *of_model = &reading->models[reading->model_count++];
        *of_model = (struct model_reading){
            .number = i, .generation = model->generation, .folder = strdup(model->folder)};
        if (of_model->folder == NULL) {
            free_reading(reading);
            return NULL;
        }
    }
    return reading;
}

/* On a thread of the pool. */
static void read_files(uv_work_t *work)
{
    const struct convoy_reload *reload = work->data;
    struct convoy_reading *reading = reload->reading;
    /* Whatever else is wrong: a key that was taken out of its file must not open anything any more. */
    convoy_keyring_reload(reload->keyring);
    if (convoy_config_load(reading->file, &reading->config, &reading->error) != 0) {
        reading->config = NULL;
        return;
    }
    if (reading->config->tls.certificate != NULL &&
        convoy_tls_load(&reading->config->tls, &reading->credentials, &reading->tls_error) != 0)
        reading->credentials = NULL;
    for (uint32_t i = 0; i < reading->model_count; i++) {
        struct model_reading *model = &reading->models[i];
        if (convoy_model_config_load(model->folder, &reading->config->batching, &model->config,
                                     &model->error) != 0)
            model->config = NULL;
    }
}

static void take_over(struct convoy_reload *reload, struct model_reading *reading)
{
    struct convoy_model_record *model = reading->number < convoy_registry_count(reload->registry)
                                            ? convoy_registry_at(reload->registry, reading->number)
                                            : NULL;
    if (model == NULL || model->generation != reading->generation)
        return; /* it was removed meanwhile */
    if (reading->config != NULL) {
        convoy_registry_reconfigure(reload->registry, model, reading->config);
        reading->config = NULL;
    } else {
        convoy_log(CONVOY_LOG_ERROR, "a model's configuration is not taken over",
                   CONVOY_STR("model", model->name), CONVOY_STR("reason", reading->error.message));
    }
}

/* Returns the sentence of what keeps the files from being used, or NULL. */
static const char *take_over_tls(const struct convoy_reload *reload, struct convoy_reading *reading)
{
    bool configured = reading->config->tls.certificate != NULL;

    if (configured != (reload->tls != NULL)) {
        convoy_log(CONVOY_LOG_WARNING, "TLS is turned on and off at a start alone: restart convoyd",
                   CONVOY_STR("tls", reload->tls != NULL ? "on" : "off"));
        return "TLS is turned on and off at a start alone";
    }
    if (!configured)
        return NULL;
    if (reading->credentials == NULL) {
        convoy_log(CONVOY_LOG_ERROR, "the certificate is not taken over, the one before serves on",
                   CONVOY_STR("reason", reading->tls_error.message));
        return reading->tls_error.message;
    }
    convoy_log(CONVOY_LOG_INFO, "certificate read again",
               CONVOY_UINT("expires", convoy_tls_expiry(reading->credentials)));
    convoy_tls_replace(reload->tls, reading->credentials);
    reading->credentials = NULL;
    return NULL;
}

static void on_read(uv_work_t *work, int status)
{
    struct convoy_reload *reload = work->data;
    struct convoy_reading *reading = reload->reading;
    (void)status;
    reload->reading = NULL;
    if (!reload->stopped && reading->config == NULL) {
        reload->done(reload->context, NULL, reading->error.message);
    } else if (!reload->stopped) {
        convoy_log_configure(reading->config->log.format, reading->config->log.level);
        convoy_access_log_configure(reading->config->log.access);
        for (uint32_t i = 0; i < reading->model_count; i++)
            take_over(reload, &reading->models[i]);
        const char *problem = take_over_tls(reload, reading);
        reload->done(reload->context, reading->config, problem);
    }
    free_reading(reading);
    if (reload->again && !reload->stopped)
        convoy_reload_begin(reload);
}

void convoy_reload_begin(struct convoy_reload *reload)
{
    reload->again = reload->reading != NULL;
    if (reload->again || reload->stopped)
        return;
    reload->begun(reload->context);
    reload->work.data = reload;
    reload->reading = new_reading(reload);
    int code =
        reload->reading == NULL ? UV_ENOMEM : uv_queue_work(reload->loop, &reload->work, read_files, on_read);
    if (code == 0)
        return;
    if (reload->reading != NULL)
        free_reading(reload->reading);
    reload->reading = NULL;
    reload->done(reload->context, NULL, uv_strerror(code));
}

void convoy_reload_stop(struct convoy_reload *reload)
{
    reload->stopped = true;
}
