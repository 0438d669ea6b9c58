/* TLS for the HTTP server: 1.2 and 1.3, with GnuTLS. docs/internet.md shows how to use it.
 *
 * convoy_tls_replace() gives other credentials to the connections that come, so that a certificate is renewed
 * without closing one.
 *
 * Threads: replace() and the hooks at the same time from any; new() and free() one. */
#ifndef CONVOY_SERVER_TLS_H
#define CONVOY_SERVER_TLS_H

struct convoy_metrics;
struct convoy_tls;
struct convoy_tls_credentials;
struct convoy_tls_hooks;

/* Takes one use of credentials over, also when it fails. NULL when memory is out. metrics must outlive it. */
struct convoy_tls *convoy_tls_new(struct convoy_tls_credentials *credentials, struct convoy_metrics *metrics);

/* Connections that are opened from now on get these credentials, of which one use is taken over. */
void convoy_tls_replace(struct convoy_tls *tls, struct convoy_tls_credentials *credentials);

/* For convoy_http_options.tls; lives as long as tls. */
const struct convoy_tls_hooks *convoy_tls_hooks(const struct convoy_tls *tls);

/* After convoy_http_stop(). NULL is allowed. */
void convoy_tls_free(struct convoy_tls *tls);

#endif
