/* The command line of convoyd. Its options override the configuration file. */
#ifndef CONVOY_SERVER_OPTIONS_H
#define CONVOY_SERVER_OPTIONS_H

#include "engine/base/error.h"
#include "server/config/config.h"

#include <stdbool.h>

#define CONVOY_EXIT_USAGE 2 /* exit code for a command line that cannot be understood */

/* Strings point into argv; NULL where an option was not given. */
struct convoy_daemon_options {
    const char *config, *models, *health_listen, *backend, *tune;
    const char *listen[CONVOY_LISTEN_MAX];
    uint32_t listen_count;
    bool check_config, version, help;
};

/* Reads the command line with getopt_long(): "--name value" and "--name=value"; names are not abbreviated; of
 * equal options the last counts, but each --listen adds an address. -EINVAL with a sentence for an unknown
 * option, a missing or a wrong value; the program then exits with CONVOY_EXIT_USAGE. Before threads start. */
int convoy_options_parse(int argc, char **argv, struct convoy_daemon_options *options,
                         struct convoy_error *error);

/* Puts the options into config. Their values were checked by convoy_options_parse(), so the errors are
 * -ENOMEM, and -EINVAL when listen and health_listen are the same address then. */
int convoy_options_apply(const struct convoy_daemon_options *options, struct convoy_config *config,
                         struct convoy_error *error);

/* The text of --help. */
const char *convoy_options_help(void);

#endif
