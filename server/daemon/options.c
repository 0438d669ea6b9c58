#include "server/daemon/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONFIG = 256, MODELS, LISTEN, HEALTH_LISTEN, BACKEND, TUNE, CHECK_CONFIG, VERSION };

static const struct option known[] = {{"config", required_argument, NULL, CONFIG},
                                      {"models", required_argument, NULL, MODELS},
                                      {"listen", required_argument, NULL, LISTEN},
                                      {"health-listen", required_argument, NULL, HEALTH_LISTEN},
                                      {"backend", required_argument, NULL, BACKEND},
                                      {"tune", required_argument, NULL, TUNE},
                                      {"check-config", no_argument, NULL, CHECK_CONFIG},
                                      {"version", no_argument, NULL, VERSION},
                                      {"help", no_argument, NULL, 'h'},
                                      {0}};

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
    "                      every address, port 0 for any free one, unix:PATH for\n"
    "                      a Unix socket; each --listen adds an address           (127.0.0.1:8080)\n"
    "  --health-listen HOST:PORT\n"
    "                      where to answer health and metrics besides, even when\n"
    "                      every connection of the other address is taken         (nowhere)\n"
    "  --backend NAME      auto: every GPU, or the CPU where there is none;\n"
    "                      cpu, cuda; null: answers without computing, to measure (auto)\n"
    "  --tune MODE         time GPU kernels for each model and remember the best:\n"
    "                      on: what is not known yet; off: never; force: all again (on)\n"
    "  --check-config      check the configuration and every model, say what is wrong, and leave\n"
    "  --version           print the version and leave\n"
    "  --help, -h          print this and leave\n"
    "\n"
    "Options go over the configuration file. In parentheses: built-in values.\n"
    "\n"
    "Examples:\n"
    "  convoyd --models models                      serve models/NAME/VERSION/model.onnx on 127.0.0.1:8080\n"
    "  convoyd --models models --check-config       say first what would fail\n"
    "  convoyd --listen :8080 --backend cpu         to other machines, too, and without a GPU\n"
    "  convoyd --listen 127.0.0.1:0                 on any free port, which the log names\n"
    "Then, from another terminal (or open http://127.0.0.1:8080/ in a browser):\n"
    "  curl --data-binary @cat.jpg 'http://127.0.0.1:8080/classify?model=NAME'\n"
    "\n"
    "Started by systemd with sockets (convoyd.socket) it answers there, and --listen has no effect.\n"
    "A front that crashes is started again by its parent, the process that you started, and workers keep "
    "their\n"
    "models.\n"
    "SIGTERM answers what was accepted and leaves; SIGHUP reads keys, log settings, labels, delays and the\n"
    "certificate again; SIGUSR2 lets the program that lies at its path now take over, with the workers.\n"
    "Exit codes: 0 in order, 1 failed (a sentence on standard error says why), 2 wrong command line.\n";

const char *convoy_options_help(void)
{
    return help;
}

static int check_choice(const char *name, const char *const *choices, const char *value,
                        struct convoy_error *error)
{
    char list[80] = "";
    size_t used = 0;
    for (const char *const *choice = choices; *choice != NULL; choice++) {
        if (strcmp(*choice, value) == 0)
            return 0;
        if (used < sizeof list)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used > 0 ? ", " : "", *choice);
    }
    return convoy_fail(error, -EINVAL, "--%s must be one of %s; found '%s'", name, list, value);
}

static int check_listen(const char *origin, const char *value, struct convoy_error *error)
{
    char *host = NULL;
    uint16_t port;
    int code = convoy_listen_parse(origin, value, &host, &port, error);
    free(host);
    return code;
}

/* Each is one more. */
static int take_listen(struct convoy_daemon_options *options, const char *value, struct convoy_error *error)
{
    struct convoy_listen_addresses all = {0};
    int code = 0;
    if (options->listen_count == CONVOY_LISTEN_MAX)
        return convoy_fail(error, -EINVAL, "--listen: more than %d addresses", CONVOY_LISTEN_MAX);
    options->listen[options->listen_count++] = value;
    for (uint32_t i = 0; i < options->listen_count && code == 0; i++)
        code = convoy_listen_add("--listen", options->listen[i], &all, error);
    convoy_listen_clear(&all);
    return code;
}

static const struct option *find(int letter)
{
    const struct option *option = known;
    while (option->name != NULL && option->val != letter)
        option++;
    return option;
}

/* What getopt_long() found at argument: takes it over, or says what is wrong with it. */
static int take(struct convoy_daemon_options *options, int letter, const char *argument,
                struct convoy_error *error)
{
    const struct option *option = find(letter == '?' || letter == ':' ? optopt : letter);
    bool is_long = strncmp(argument, "--", 2) == 0;
    /* getopt_long() would also take a beginning of a name, which a later version may give another meaning. */
    if (option->name == NULL || (is_long && strcspn(argument + 2, "=") != strlen(option->name)))
        return convoy_fail(error, -EINVAL, "unknown option '%s'; convoyd --help lists the options", argument);
    if (letter == ':')
        return convoy_fail(error, -EINVAL, "--%s needs a value; convoyd --help shows which", option->name);
    if (letter == '?')
        return convoy_fail(error, -EINVAL, "--%s takes no value; found '%s'", option->name, argument);
    if (option->has_arg == required_argument && optarg[0] == '\0')
        return convoy_fail(error, -EINVAL, "--%s needs a value that is not empty", option->name);
    switch (letter) {
    case CONFIG:
        options->config = optarg;
        return 0;
    case MODELS:
        options->models = optarg;
        return 0;
    case LISTEN:
        return take_listen(options, optarg, error);
    case HEALTH_LISTEN:
        options->health_listen = optarg;
        return check_listen("--health-listen", optarg, error);
    case BACKEND:
        options->backend = optarg;
        return check_choice(option->name, convoy_backend_choices, optarg, error);
    case TUNE:
        options->tune = optarg;
        return check_choice(option->name, convoy_tune_choices, optarg, error);
    case CHECK_CONFIG:
        options->check_config = true;
        return 0;
    case VERSION:
        options->version = true;
        return 0;
    default:
        options->help = true;
        return 0;
    }
}

int convoy_options_parse(int argc, char **argv, struct convoy_daemon_options *options,
                         struct convoy_error *error)
{
    *options = (struct convoy_daemon_options){0};
    opterr = 0;
    optind = 0; /* glibc: begin at the first argument, also in a second call */
    for (;;) {
        int at = optind > 0 ? optind : 1;
        // NOLINTNEXTLINE(concurrency-mt-unsafe): the command line is read before there are threads
        int letter = getopt_long(argc, argv, "+:h", known, NULL); /* +: argv keeps its order */
        if (letter == -1)
            break;
        int code = take(options, letter, argv[at], error);
        if (code != 0)
            return code;
    }
    if (optind < argc)
        return convoy_fail(error, -EINVAL, "'%s' is no option; convoyd --help lists the options",
                           argv[optind]);
    return 0;
}

static unsigned choice_index(const char *const *choices, const char *text)
{
    unsigned index = 0;
    while (choices[index] != NULL && strcmp(choices[index], text) != 0)
        index++;
    return index;
}

/* Takes an address over into the configuration's members. */
static int apply_listen(const char *origin, const char *text, char **written, char **host, uint16_t *port,
                        struct convoy_error *error)
{
    char *copy = strdup(text), *parsed = NULL;
    if (copy == NULL)
        return convoy_fail(error, -ENOMEM, "%s: out of memory", origin);
    int result = convoy_listen_parse(origin, text, &parsed, port, error);
    if (result < 0) {
        free(copy);
        return result;
    }
    free(*written);
    free(*host);
    *written = copy;
    *host = parsed;
    return 0;
}

static int apply_addresses(const struct convoy_daemon_options *options, struct convoy_config *config,
                           struct convoy_error *error)
{
    int result = 0;
    if (options->listen_count > 0)
        convoy_listen_clear(&config->listen);
    for (uint32_t i = 0; i < options->listen_count && result == 0; i++)
        result = convoy_listen_add("--listen", options->listen[i], &config->listen, error);
    if (result == 0 && options->health_listen != NULL)
        result = apply_listen("--health-listen", options->health_listen, &config->health_listen,
                              &config->health_host, &config->health_port, error);
    for (uint32_t i = 0; config->health_listen != NULL && i < config->listen.count && result == 0; i++) {
        const struct convoy_listen_address *address = &config->listen.list[i];
        if (address->path == NULL && address->port != 0 && config->health_port == address->port &&
            strcmp(config->health_host, address->host) == 0)
            result = convoy_fail(error, -EINVAL,
                                 "health_listen and listen are both %s: choose another port for one",
                                 address->written);
    }
    return result;
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
    int result = apply_addresses(options, config, error);
    if (result < 0)
        return result;
    if (options->backend != NULL)
        config->backend = (enum convoy_backend_choice)choice_index(convoy_backend_choices, options->backend);
    if (options->tune != NULL)
        config->tune = (enum convoy_tune)choice_index(convoy_tune_choices, options->tune);
    return 0;
}
