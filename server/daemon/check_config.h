/* `convoyd --check-config`: is everything in place to start? */
#ifndef CONVOY_SERVER_CHECK_CONFIG_H
#define CONVOY_SERVER_CHECK_CONFIG_H

#include "server/config/config.h"

/* Asks `convoy-worker --check` about each model and prints a line for each; a model that cannot be served is
 * an error here, though a running daemon would serve the rest. Returns the exit status. */
int convoy_check_config(const struct convoy_config *config);

#endif
