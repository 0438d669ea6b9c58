/* The object "tracing" of the daemon's configuration: where the times of requests are sent;
 * docs/configuration.md describes each key. */
#ifndef CONVOY_SERVER_TRACING_CONFIG_H
#define CONVOY_SERVER_TRACING_CONFIG_H

#include "engine/base/error.h"

struct convoy_json;

/* Member names are the keys. */
struct convoy_tracing_config {
    char *otlp_url; /* NULL: nothing is sent */
    double sample;  /* of the requests of clients that do not say whether they are to be traced; 0 to 1 */
};

/* Reads the object over *tracing. -EINVAL, -ENOMEM. */
int convoy_tracing_config_read(const struct convoy_json *root, struct convoy_tracing_config *tracing,
                               struct convoy_error *error);
void convoy_tracing_config_clear(struct convoy_tracing_config *tracing);

#endif
