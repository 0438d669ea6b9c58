/* A TLS connection with a client, from its first byte to its end. */
#ifndef CONVOY_SERVER_TLS_CLIENT_H
#define CONVOY_SERVER_TLS_CLIENT_H

#include <gnutls/gnutls.h>

struct convoy_metrics;
struct convoy_connection;
struct convoy_tls_connection;
struct convoy_tls_credentials;

/* The series of failed handshakes, at 0. */
void convoy_tls_client_begin_metrics(struct convoy_metrics *metrics);

/* Prepares the session, and takes over one use of credentials, also when it fails: NULL, memory is out.
 * Begins the time that the handshake has. */
struct convoy_tls_connection *convoy_tls_client_open(struct convoy_tls_credentials *credentials,
                                                     struct convoy_metrics *metrics, gnutls_session_t session,
                                                     struct convoy_connection *connection);

/* See struct convoy_tls_hooks. */
void convoy_tls_client_failed(void);
ssize_t convoy_tls_client_send(struct convoy_tls_connection *tls, const void *bytes, size_t length);
void convoy_tls_client_close(struct convoy_tls_connection *tls);

#endif
