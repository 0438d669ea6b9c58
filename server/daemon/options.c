#include "server/daemon/options.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct option {
    const char *name;
    size_t offset;              /* of its member in struct convoy_daemon_options */
    bool takes_value;           /* else a switch */
    const char *const *choices; /* NULL: any text */
};

static const struct option known[] = {
    {"--config", offsetof(struct convoy_daemon_options, config), true, NULL},
    {"--models", offsetof(struct convoy_daemon_options, models), true, NULL},
    {"--listen", offsetof(struct convoy_daemon_options, listen), true, NULL},
    {"--backend", offsetof(struct convoy_daemon_options, backend), true, convoy_backend_choices},
    {"--tune", offsetof(struct convoy_daemon_options, tune), true, convoy_tune_choices},
    {"--check-config", offsetof(struct convoy_daemon_options, check_config), false, NULL},
    {"--version", offsetof(struct convoy_daemon_options, version), false, NULL},
    {"--help", offsetof(struct convoy_daemon_options, help), false, NULL},
    {"-h", offsetof(struct convoy_daemon_options, help), false, NULL},
};

static const char help[] =
    "convoyd classifies images with convolutional networks: it loads every model of a folder once, keeps it "
    "on\n"
    "the GPU (or the CPU), and answers over HTTP.\n"
    "\n"
    "Usage: convoyd [OPTION]...\n"
    "\n"
    "  --config FILE       configuration, JSON; without it ./config/convoyd.json, else\n"
    "                      PREFIX/etc/convoyd/convoyd.json (/etc for /usr), else built-in values\n"
    "  --models DIR        folder of models, DIR/NAME/VERSION/model.onnx          (models)\n"
    "  --listen HOST:PORT  where to answer HTTP; [ADDRESS]:PORT for IPv6, :PORT for\n"
    "                      every address, port 0 for any free one                 (127.0.0.1:8080)\n"
    "  --backend NAME      auto: every GPU, or the CPU where there is none;\n"
    "                      cpu, cuda; null: answers without computing, to measure (auto)\n"
    "  --tune MODE         time GPU kernels for each model and remember the best:\n"
    "                      on: what is not known yet; off: never; force: all anew (on)\n"
    "  --check-config      check the configuration and every model, say what is wrong, and leave\n"
    "  --version           print the version and leave\n"
    "  --help, -h          print this and leave\n"
    "\n"
    "Options go over the configuration file. In parentheses: built-in values.\n"
    "\n"
    "Try it:\n"
    "  convoyd --models models --listen 127.0.0.1:8080 &\n"
    "  curl --data-binary @cat.jpg http://127.0.0.1:8080/classify\n"
    "\n"
    "Started by systemd with a socket (convoyd.socket) it answers there, and --listen has no effect.\n"
    "SIGTERM answers what was accepted and leaves; SIGHUP reads log settings, labels and delays again.\n"
    "Exit codes: 0 in order, 1 failed (a sentence on standard error says why), 2 wrong command line.\n";

const char *convoy_options_help(void)
{
    return help;
}

static const struct option *find(const char *argument, size_t length)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strlen(known[i].name) == length && memcmp(known[i].name, argument, length) == 0)
            return &known[i];
    }
    return NULL;
}

static int check_value(const struct option *option, const char *value, struct convoy_error *error)
{
    if (value[0] == '\0')
        return convoy_fail(error, -EINVAL, "%s needs a value that is not empty", option->name);
    if (option->offset == offsetof(struct convoy_daemon_options, listen)) {
        char *host = NULL;
        uint16_t port;
        int result = convoy_listen_parse("--listen", value, &host, &port, error);
        free(host);
        return result;
    }
    if (option->choices == NULL)
        return 0;
    char list[80] = "";
    size_t used = 0;
    for (const char *const *choice = option->choices; *choice != NULL; choice++) {
        if (strcmp(*choice, value) == 0)
            return 0;
        if (used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used > 0 ? ", " : "", *choice);
    }
    return convoy_fail(error, -EINVAL, "%s must be one of %s; found '%s'", option->name, list, value);
}

int convoy_options_parse(int argc, char **argv, struct convoy_daemon_options *options,
                         struct convoy_error *error)
{
    *options = (struct convoy_daemon_options){0};
    for (int i = 1; i < argc; i++) {
        const char *argument = argv[i];
        size_t length = strcspn(argument, "=");
        const char *value = argument[length] == '=' ? argument + length + 1 : NULL;
        const struct option *option = find(argument, length);
        if (option == NULL)
            return convoy_fail(error, -EINVAL,
                               argument[0] == '-' ? "unknown option '%s'; convoyd --help lists the options"
                                                  : "'%s' is no option; convoyd --help lists the options",
                               argument);
        void *member = (char *)options + option->offset;
        if (!option->takes_value) {
            if (value != NULL)
                return convoy_fail(error, -EINVAL, "%s takes no value; found '%s'", option->name, argument);
            *(bool *)member = true;
            continue;
        }
        if (value == NULL) {
            if (i + 1 == argc)
                return convoy_fail(error, -EINVAL, "%s needs a value; convoyd --help shows which",
                                   option->name);
            value = argv[++i];
        }
        int result = check_value(option, value, error);
        if (result < 0)
            return result;
        *(const char **)member = value;
    }
    return 0;
}

static unsigned choice_index(const char *const *choices, const char *text)
{
    unsigned index = 0;
    while (choices[index] != NULL && strcmp(choices[index], text) != 0)
        index++;
    return index;
}

int convoy_options_apply(const struct convoy_daemon_options *options, struct convoy_config *config,
                         struct convoy_error *error)
{
    if (options->models != NULL) {
        char *models = strdup(options->models);
        if (models == NULL)
            return convoy_fail(error, -ENOMEM, "--models: out of memory");
        free(config->models);
        config->models = models;
    }
    if (options->listen != NULL) {
        char *listen = strdup(options->listen), *host = NULL;
        if (listen == NULL)
            return convoy_fail(error, -ENOMEM, "--listen: out of memory");
        int result = convoy_listen_parse("--listen", listen, &host, &config->listen_port, error);
        if (result < 0) {
            free(listen);
            return result;
        }
        free(config->listen);
        free(config->listen_host);
        config->listen = listen;
        config->listen_host = host;
    }
    if (options->backend != NULL)
        config->backend = (enum convoy_backend_choice)choice_index(convoy_backend_choices, options->backend);
    if (options->tune != NULL)
        config->tune = (enum convoy_tune)choice_index(convoy_tune_choices, options->tune);
    return 0;
}
