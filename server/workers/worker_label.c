#include "server/workers/worker_label.h"

#include "engine/base/hash.h"
#include "server/workers/worker_message.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NO_MODELS "?" /* in labels: CONVOY_OF_NONE */

/* Whether the worker is to open no files but its own; a GPU may need others (engine/worker/confine_gpu.h). */
static bool confines_files(const struct convoy_worker_sandbox *sandbox)
{
    enum convoy_confine_files_choice files = sandbox->config->confine_files;
    return sandbox->config->sandbox && (files == CONVOY_CONFINE_FILES_ON ||
                                        (files == CONVOY_CONFINE_FILES_AUTO && !sandbox->models_change));
}

/* A fingerprint of what it is to read and of whom it runs as. 0: any file, as its own choice. */
static uint64_t hash_sandbox(const struct convoy_worker_sandbox *sandbox)
{
    const struct convoy_worker_config *config = sandbox->config;
    uint64_t hash = 0;
    if (config->user != NULL)
        hash = convoy_hash(hash, config->user, strlen(config->user) + 1);
    if (!confines_files(sandbox))
        return hash;
    hash = convoy_hash(hash, sandbox->models, strlen(sandbox->models) + 1);
    for (char **folder = config->readable; folder != NULL && *folder != NULL; folder++)
        hash = convoy_hash(hash, *folder, strlen(*folder) + 1);
    return hash;
}

/* What a front must agree with to adopt the worker: the rest of its label. Of a worker that is to open
 * any file the label is that of builds before there was a choice, so that it is adopted over an upgrade. */
static void describe_settings(const struct convoy_worker_settings *settings, char *text, size_t capacity)
{
    char confined[32] = "";
    uint64_t hash = hash_sandbox(&settings->sandbox);
    if (hash != 0)
        snprintf(confined, sizeof confined, " confined=%016" PRIx64, hash);
    snprintf(text, capacity, "streams=%u sandbox=%d%s%s canary=%u orphan=%u tune=%s cache=%s",
             settings->streams, settings->sandbox.config->sandbox, confined,
             settings->pixels_only ? " files=off" : "", settings->canary_ms, settings->orphan_ms,
             settings->tune != NULL ? settings->tune : "",
             settings->cache_dir != NULL ? settings->cache_dir : "");
}

void convoy_worker_label_make(const struct convoy_worker_settings *settings, const char *backend,
                              const struct convoy_channel_size *size, char label[CONVOY_WORKER_LABEL_BYTES])
{
    char text[CONVOY_WORKER_LABEL_BYTES / 2];
    describe_settings(settings, text, sizeof text);
    snprintf(label, CONVOY_WORKER_LABEL_BYTES, "%d %u %u %" PRIu64 " %" PRIu64 " %s of=%s %s",
             CONVOY_CHANNEL_ABI, settings->device_index, size->slots, size->input_bytes, size->output_bytes,
             backend, settings->of[0] != '\0' ? settings->of : NO_MODELS, text);
}

struct wanted {
    const struct convoy_worker_settings *settings;
    const char *backend;
    struct convoy_channel_size size;  /* found */
    char found[CONVOY_BACKEND_BYTES]; /* backend */
};

/* Could this front have started the worker with this label alike? */
static bool accepts(struct wanted *wanted, const char *label)
{
    char text[CONVOY_WORKER_LABEL_BYTES / 2], of[CONVOY_OF_BYTES] = "";
    int abi = 0, at = 0;
    uint32_t device = 0;
    /* Slots of a label that this build wrote are in bounds; convoy_channel_take_over() checks them. */
    if (sscanf(label, "%d %u %u %" SCNu64 " %" SCNu64 " %15s of=%128s %n", &abi, &device, &wanted->size.slots,
               &wanted->size.input_bytes, &wanted->size.output_bytes, wanted->found, of, &at) != 7 ||
        abi != CONVOY_CHANNEL_ABI || device != wanted->settings->device_index || wanted->size.slots == 0 ||
        strcmp(of, wanted->settings->of[0] != '\0' ? wanted->settings->of : NO_MODELS) != 0)
        return false;
    if (strcmp(wanted->backend, "auto") != 0 && strcmp(wanted->backend, wanted->found) != 0)
        return false;
    describe_settings(wanted->settings, text, sizeof text);
    return strcmp(label + at, text) == 0;
}

const char *convoy_worker_label_find(const struct convoy_link *link,
                                     const struct convoy_worker_settings *settings, const char *backend,
                                     struct convoy_channel_size *size, char found[CONVOY_BACKEND_BYTES])
{
    struct wanted wanted = {.settings = settings, .backend = backend};
    const char *label;
    for (uint32_t i = 0; (label = convoy_link_label_at(link, i)) != NULL; i++) {
        if (!accepts(&wanted, label))
            continue;
        *size = wanted.size;
        snprintf(found, CONVOY_BACKEND_BYTES, "%s", wanted.found);
        return label;
    }
    return NULL;
}

bool convoy_worker_label_held(const struct convoy_link *link, uint32_t index, uint32_t *device,
                              char of[CONVOY_OF_BYTES])
{
    const char *label = convoy_link_label_at(link, index);
    *device = CONVOY_MAX_DEVICES;
    of[0] = '\0';
    if (label != NULL)
        (void)sscanf(label, "%*d %u %*u %*u %*u %*s of=%128s", device, of);
    if (strcmp(of, NO_MODELS) == 0)
        of[0] = '\0';
    return label != NULL;
}
