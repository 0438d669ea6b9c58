/* The object "tls" of the daemon's configuration: the files for HTTPS; docs/configuration.md describes each
 * key. */
#ifndef CONVOY_SERVER_TLS_CONFIG_H
#define CONVOY_SERVER_TLS_CONFIG_H

#include "engine/base/error.h"

struct convoy_json;

/* Paths of PEM files, owned. certificate and key are both set, or both NULL: the server then speaks plain
 * HTTP. */
struct convoy_tls_config {
    char *certificate; /* the server's own first, then those that lead to the authority's */
    char *key;
    char *client_ca; /* a client must have a certificate that one of these signed; NULL: it needs none */
};

/* Reads the object over *tls, which the caller frees, also after an error. -EINVAL, -ENOMEM. */
int convoy_tls_config_read(const struct convoy_json *root, struct convoy_tls_config *tls,
                           struct convoy_error *error);

/* Frees the paths, not *tls itself. */
void convoy_tls_config_clear(struct convoy_tls_config *tls);

#endif
