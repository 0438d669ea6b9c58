#include "server/workers/worker_arguments.h"

#include "server/workers/environment.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void convoy_worker_arguments_add(struct convoy_worker_arguments *arguments, const char *text)
{
    if (arguments->count + 1 < CONVOY_WORKER_ARGUMENTS)
        arguments->list[arguments->count++] = (char *)(uintptr_t)text; /* execve() takes no const */
}

void convoy_worker_arguments_add_text(struct convoy_worker_arguments *arguments, const char *option,
                                      const char *text)
{
    convoy_worker_arguments_add(arguments, option);
    convoy_worker_arguments_add(arguments, text);
}

void convoy_worker_arguments_add_number(struct convoy_worker_arguments *arguments, const char *option,
                                        uint32_t number)
{
    if (arguments->number_count == CONVOY_WORKER_NUMBERS)
        return;
    char *text = arguments->numbers[arguments->number_count++];
    snprintf(text, sizeof arguments->numbers[0], "%" PRIu32, number);
    convoy_worker_arguments_add_text(arguments, option, text);
}

void convoy_worker_arguments_confine(struct convoy_worker_arguments *arguments,
                                     const struct convoy_worker_sandbox *sandbox)
{
    const struct convoy_worker_config *config = sandbox->config;
    enum convoy_confine_files_choice files = config->confine_files;
    if (files == CONVOY_CONFINE_FILES_AUTO && sandbox->models_change)
        files = CONVOY_CONFINE_FILES_OFF;
    if (!config->sandbox)
        convoy_worker_arguments_add_text(arguments, "--sandbox", "off");
    if (config->user != NULL)
        convoy_worker_arguments_add_text(arguments, "--user", config->user);
    if (files != CONVOY_CONFINE_FILES_AUTO)
        convoy_worker_arguments_add_text(arguments, "--confine-files", convoy_confine_files_choices[files]);
    convoy_worker_arguments_add_text(arguments, "--read", sandbox->models);
    for (char **folder = config->readable; folder != NULL && *folder != NULL; folder++)
        convoy_worker_arguments_add_text(arguments, "--read", *folder);
}

int convoy_worker_arguments_make(struct convoy_worker_arguments *arguments,
                                 const struct convoy_worker_settings *settings, const char *backend,
                                 const char *tune, struct convoy_error *error)
{
    memset(arguments, 0, sizeof *arguments);
    int code = convoy_worker_program(arguments->program, sizeof arguments->program, error);
    if (code != 0)
        return code;
    convoy_worker_arguments_add(arguments, arguments->program);
    convoy_worker_arguments_add(arguments, "--serve");
    convoy_worker_arguments_add_text(arguments, "--backend", backend);
    convoy_worker_arguments_add_number(arguments, "--device", settings->device_index);
    convoy_worker_arguments_add_number(arguments, "--streams", settings->streams);
    convoy_worker_arguments_add_text(arguments, "--tune", tune);
    convoy_worker_arguments_add_number(arguments, "--canary-ms", settings->canary_ms);
    if (settings->cache_dir != NULL)
        convoy_worker_arguments_add_text(arguments, "--cache-dir", settings->cache_dir);
    if (settings->orphan_ms > 0)
        convoy_worker_arguments_add_number(arguments, "--orphan-ms", settings->orphan_ms);
    if (settings->pixels_only)
        convoy_worker_arguments_add_text(arguments, "--files", "off");
    convoy_worker_arguments_confine(arguments, &settings->sandbox);
    return 0;
}
