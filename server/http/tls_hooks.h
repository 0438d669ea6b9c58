/* What the HTTP server asks of TLS. libmicrohttpd makes the TLS session of a connection and drives it;
 * server/security gives it the certificate and watches the handshake. The HTTP server itself knows no TLS
 * library.
 *
 * Threads: all but context is called on the HTTP thread of the connection. */
#ifndef CONVOY_SERVER_TLS_HOOKS_H
#define CONVOY_SERVER_TLS_HOOKS_H

#include <stddef.h>
#include <sys/types.h>

struct convoy_connection;
struct convoy_tls_connection;

struct convoy_tls_hooks {
    void *context;
    /* The library's own source of certificates, a gnutls_certificate_retrieve_function2: it has none. A
     * session that open() has not prepared fails. */
    void (*no_certificate)(void);
    /* A connection was opened. session: its gnutls_session_t, the library's. Returns NULL when memory is out:
     * the caller then shuts the connection down. Until the handshake is complete the connection counts as one
     * whose request is being received. */
    struct convoy_tls_connection *(*open)(void *context, void *session, struct convoy_connection *connection);
    /* The library has given up the handshake that it drove last on this thread. The session is still there.
     */
    void (*failed)(void);
    /* As send(2) with MSG_DONTWAIT and MSG_NOSIGNAL, encrypted. */
    ssize_t (*send)(struct convoy_tls_connection *tls, const void *bytes, size_t length);
    /* The connection is closed; its session is gone. connection is the one of open(). */
    void (*close)(struct convoy_tls_connection *tls);
};

#endif
