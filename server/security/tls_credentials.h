/* What was read from the files of TLS at one time. Connections keep the set that they were opened with.
 * Session tickets belong to a set: a session is not resumed under another.
 *
 * Threads: any. */
#ifndef CONVOY_SERVER_TLS_CREDENTIALS_H
#define CONVOY_SERVER_TLS_CREDENTIALS_H

#include "engine/base/error.h"
#include "server/config/tls_config.h"

#include <stdint.h>

struct convoy_tls_credentials;

/* Reads the files and checks them: the key belongs to the certificate and is not readable by every user, and
 * each certificate of the chain is valid today. config->certificate is not NULL. The caller has one use of
 * *credentials. Errors: -EINVAL, -EPERM (the mode of the key's file), -ENOMEM, those of open(2); the sentence
 * names the file and says what to do. */
int convoy_tls_load(const struct convoy_tls_config *config, struct convoy_tls_credentials **credentials,
                    struct convoy_error *error);

/* When the first certificate of the chain expires, in seconds since the epoch. */
uint64_t convoy_tls_expiry(const struct convoy_tls_credentials *credentials);

/* One use more, and one less: the last one frees. NULL is allowed for the latter. */
void convoy_tls_credentials_hold(struct convoy_tls_credentials *credentials);
void convoy_tls_unload(struct convoy_tls_credentials *credentials);

#endif
