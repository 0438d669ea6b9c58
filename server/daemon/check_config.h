/* `convoyd --check-config`: checks whether the daemon could start and serve every model. */
#ifndef CONVOY_SERVER_CHECK_CONFIG_H
#define CONVOY_SERVER_CHECK_CONFIG_H

#include "server/config/config.h"

/* Asks `convoy-worker --check` about each model and prints what it finds. A model that cannot be served, or
 * takes longer to load than the daemon would allow, is an error here, although a running daemon would serve
 * the others. Returns the exit status: 0, or 1 when something is wrong or memory is out. */
int convoy_check_config(const struct convoy_config *config);

#endif
