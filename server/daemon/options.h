/* The command line of convoyd. What it says goes over what the configuration file says. */
#ifndef CONVOY_SERVER_OPTIONS_H
#define CONVOY_SERVER_OPTIONS_H

#include "engine/base/error.h"
#include "server/config/config.h"

#include <stdbool.h>

#define CONVOY_EXIT_USAGE 2 /* exit code for a command line that cannot be understood */

/* Strings point into argv; NULL where an option was not given. */
struct convoy_daemon_options {
    const char *config, *models, *listen, *backend, *tune;
    bool check_config, version, help;
};

/* Reads "--name value" and "--name=value"; the last of equal options counts. -EINVAL with a sentence for an
 * unknown option, a missing or a wrong value; the program then exits with CONVOY_EXIT_USAGE. */
int convoy_options_parse(int argc, char **argv, struct convoy_daemon_options *options,
                         struct convoy_error *error);

/* Puts the overrides into config. Parsed options have right values, so only memory can run out (-ENOMEM). */
int convoy_options_apply(const struct convoy_daemon_options *options, struct convoy_config *config,
                         struct convoy_error *error);

/* The text of --help: what the daemon is, each option, where configuration comes from, an example. */
const char *convoy_options_help(void);

#endif
