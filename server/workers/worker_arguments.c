#include "server/workers/worker_arguments.h"

#include "server/workers/environment.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void add(struct convoy_worker_arguments *arguments, const char *text)
{
    arguments->list[arguments->count++] = (char *)(uintptr_t)text; /* execve() takes no const */
}

static void add_number(struct convoy_worker_arguments *arguments, const char *name, char text[16],
                       uint32_t value)
{
    snprintf(text, 16, "%" PRIu32, value);
    add(arguments, name);
    add(arguments, text);
}

int convoy_worker_arguments_make(struct convoy_worker_arguments *arguments,
                                 const struct convoy_worker_settings *settings, const char *backend,
                                 const char *tune, struct convoy_error *error)
{
    memset(arguments, 0, sizeof *arguments);
    int code = convoy_worker_program(arguments->program, sizeof arguments->program, error);
    if (code != 0)
        return code;
    add(arguments, arguments->program);
    add(arguments, "--serve");
    add(arguments, "--backend");
    add(arguments, backend);
    add_number(arguments, "--device", arguments->device, settings->device_index);
    add_number(arguments, "--streams", arguments->streams, settings->streams);
    add(arguments, "--tune");
    add(arguments, tune);
    add_number(arguments, "--canary-ms", arguments->canary_ms, settings->canary_ms);
    if (settings->cache_dir != NULL) {
        add(arguments, "--cache-dir");
        add(arguments, settings->cache_dir);
    }
    if (settings->orphan_ms > 0)
        add_number(arguments, "--orphan-ms", arguments->orphan_ms, settings->orphan_ms);
    if (settings->pixels_only) {
        add(arguments, "--files");
        add(arguments, "off");
    }
    if (settings->unconfined) {
        add(arguments, "--sandbox");
        add(arguments, "off");
    }
    return 0;
}
