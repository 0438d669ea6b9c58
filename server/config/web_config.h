/* The object "web" of the daemon's configuration: the page at /; docs/configuration.md describes each key. */
#ifndef CONVOY_SERVER_WEB_CONFIG_H
#define CONVOY_SERVER_WEB_CONFIG_H

#include "engine/base/error.h"

#include <stdbool.h>

struct convoy_json;

/* Member names are the keys. */
struct convoy_web_config {
    bool enabled;
};

/* Reads the object over *web. -EINVAL. */
int convoy_web_config_read(const struct convoy_json *root, struct convoy_web_config *web,
                           struct convoy_error *error);

#endif
