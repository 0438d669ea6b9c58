#include "server/config/worker_config.h"

#include "engine/base/json.h"
#include "engine/ipc/channel.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOUR_MS    3600000u
#define LEAST_SLOT 4096u /* bytes: a page */

const char *const convoy_confine_files_choices[] = {"auto", "on", "off", NULL};

const struct convoy_worker_config convoy_worker_config_default = {.streams = 3,
                                                                  .slots = 8,
                                                                  .hang_timeout_ms = 2000,
                                                                  .sandbox = true,
                                                                  .canary_ms = 10000,
                                                                  .orphan_ms = 60000,
                                                                  .spares = 1};

static bool is_folder(const char *text)
{
    return text[0] != '\0';
}

static int read_readable(const struct convoy_json *inside, struct convoy_worker_config *worker,
                         struct convoy_error *error)
{
    size_t count = 0;
    int result = convoy_json_strings(inside, "readable", is_folder, "a folder", &worker->readable, error);
    if (result < 0)
        return result;
    while (worker->readable != NULL && worker->readable[count] != NULL)
        count++;
    return count <= CONVOY_MOST_READABLE
               ? 0
               : convoy_fail(error, -EINVAL, "%s: worker.readable must name at most %d folders, found %zu",
                             inside->file, CONVOY_MOST_READABLE, count);
}

static int read_user(const struct convoy_json *inside, char **user, struct convoy_error *error)
{
    char identity[CONVOY_USER_IDENTITY_BYTES], key[PATH_MAX + 16];
    const char *name = *user;
    int result = convoy_json_string_or_null(inside, "user", &name, error);
    if (result < 0 || name == *user)
        return result;
    free(*user);
    *user = NULL;
    if (name == NULL)
        return 0;
    snprintf(key, sizeof key, "%s: worker.user", inside->file);
    if ((result = convoy_user_identity(key, name, identity, error)) < 0)
        return result;
    *user = strdup(identity);
    return *user != NULL ? 0 : convoy_fail(error, -ENOMEM, "%s: out of memory", inside->file);
}

static int read_confinement(const struct convoy_json *inside, struct convoy_worker_config *worker,
                            struct convoy_error *error)
{
    unsigned files = worker->confine_files;
    int result;
    if ((result = convoy_json_bool(inside, "sandbox", &worker->sandbox, error)) < 0 ||
        (result = convoy_json_choice(inside, "confine_files", convoy_confine_files_choices, &files, error)) <
            0 ||
        (result = read_readable(inside, worker, error)) < 0 ||
        (result = read_user(inside, &worker->user, error)) < 0)
        return result;
    worker->confine_files = (enum convoy_confine_files_choice)files;
    return 0;
}

int convoy_worker_config_read(const struct convoy_json *root, struct convoy_worker_config *worker,
                              struct convoy_error *error)
{
    static const char *const known[] = {"streams",   "slots",         "hang_timeout_ms", "slot_bytes",
                                        "sandbox",   "confine_files", "readable",        "user",
                                        "canary_ms", "orphan_ms",     "per_model",       "spares",
                                        NULL};
    struct convoy_json inside;
    int result;
    if ((result = convoy_json_object(root, "worker", &inside, error)) < 0 ||
        (result = convoy_json_known(&inside, known, error)) < 0 ||
        (result = convoy_json_uint32(&inside, "streams", 1, 16, &worker->streams, error)) < 0 ||
        (result = convoy_json_uint32(&inside, "slots", 1, CONVOY_MAX_SLOTS, &worker->slots, error)) < 0 ||
        /* A worker sends a heartbeat every 100 ms: with less than a few of them a healthy one would count as
           hung. */
        (result = convoy_json_uint32(&inside, "hang_timeout_ms", 500, HOUR_MS, &worker->hang_timeout_ms,
                                     error)) < 0 ||
        (result = read_confinement(&inside, worker, error)) < 0 ||
        (result = convoy_json_uint32(&inside, "spares", 0, CONVOY_MOST_SPARES, &worker->spares, error)) < 0 ||
        (result = convoy_json_bool(&inside, "per_model", &worker->per_model, error)) < 0 ||
        (result = convoy_json_uint32(&inside, "canary_ms", 0, HOUR_MS, &worker->canary_ms, error)) < 0 ||
        (result = convoy_json_uint32(&inside, "orphan_ms", 0, HOUR_MS, &worker->orphan_ms, error)) < 0 ||
        (result = convoy_json_uint64(&inside, "slot_bytes", 0, CONVOY_SLOT_MAX_BYTES, &worker->slot_bytes,
                                     error)) < 0)
        return result;
    if (worker->slot_bytes != 0 && worker->slot_bytes < LEAST_SLOT)
        return convoy_fail(
            error, -EINVAL, "%s: worker.slot_bytes must be 0 (automatic) or from %u to %u, found %llu",
            root->file, LEAST_SLOT, CONVOY_SLOT_MAX_BYTES, (unsigned long long)worker->slot_bytes);
    return 0;
}

void convoy_worker_config_clear(struct convoy_worker_config *worker)
{
    convoy_json_strings_free(worker->readable);
    free(worker->user);
    worker->readable = NULL;
    worker->user = NULL;
}
