#include "server/security/tls_client.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/log_limit.h"
#include "server/http/connection_watch.h"
#include "server/http/status.h"
#include "server/metrics/metrics.h"
#include "server/security/tls_credentials_internal.h"

#include <errno.h>
#include <gnutls/x509.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

/* How far a handshake came. */
enum stage {
    NOTHING,    /* no message of a handshake came */
    HELLO,      /* the client's hello came, and is being read */
    NEGOTIATED, /* its version and extensions are known */
    ANSWERED,   /* the server's hello is out: there is a cipher both know */
    DONE
};

/* Why a handshake failed; the label of the metric. */
enum reason { NOT_TLS, VERSION, PARAMETERS, CLIENT_CERTIFICATE, REFUSED, CLOSED, TIMEOUT, PROTOCOL, REASONS };

static const char *const reason_names[REASONS] = {
    [NOT_TLS] = "not_tls",       /* e.g. plain HTTP */
    [VERSION] = "version",       /* older than TLS 1.2 */
    [PARAMETERS] = "parameters", /* no cipher, group or signature that both know */
    [CLIENT_CERTIFICATE] = "client_certificate",
    [REFUSED] = "refused", /* the client sent an alert: mostly, it does not trust the certificate */
    [CLOSED] = "closed",   /* the client left */
    [TIMEOUT] = "timeout",
    [PROTOCOL] = "protocol" /* anything else */
};

struct convoy_tls_connection {
    struct convoy_tls_credentials *credentials;
    struct convoy_metrics *metrics;
    struct convoy_connection *connection;
    gnutls_session_t session; /* the library's; gone when the connection is closed */
    enum stage stage;
    bool received, sent; /* the finished messages of a handshake */
    bool alerted;        /* the client sent an alert in the clear */
    bool ended;          /* the client closed its sending side, or reset the connection */
    bool refused;        /* the client's certificate was not accepted */
    bool failed;         /* and counted */
};

/* The connection that reads on this thread: the library says that a handshake failed, and not which. */
static _Thread_local struct convoy_tls_connection *current;

void convoy_tls_client_begin_metrics(struct convoy_metrics *metrics)
{
    for (int i = 0; i < REASONS; i++)
        convoy_metrics_tls_failure(metrics, reason_names[i], 0);
}

/* ---- The session's socket ---- */

enum { ALERT = 21, ALERT_BYTES = 2, ALERT_HEADER_BYTES = 5 };

/* The header of a record with an alert that is not encrypted; GnuTLS reads headers alone. OpenSSL 3.0 sends
 * one in TLS 1.3 when it does not trust the certificate, where GnuTLS 3.7 takes encrypted ones alone. */
static bool is_alert(const uint8_t *bytes, ssize_t count)
{
    return count == ALERT_HEADER_BYTES && bytes[0] == ALERT && bytes[1] == 3 && bytes[3] == 0 &&
           bytes[4] == ALERT_BYTES;
}

static ssize_t pull(gnutls_transport_ptr_t context, void *bytes, size_t length)
{
    struct convoy_tls_connection *tls = context;
    ssize_t got = recv(tls->connection->fd, bytes, length, MSG_DONTWAIT);

    current = tls;
    tls->ended = tls->ended || got == 0;
    tls->alerted = tls->alerted || is_alert(bytes, got);
    if (got < 0) {
        tls->ended = tls->ended || (errno != EAGAIN && errno != EINTR);
        gnutls_transport_set_errno(tls->session, errno);
    }
    return got;
}

/* Only a session that has time limits of its own asks; none has. */
static int pull_timeout(gnutls_transport_ptr_t context, unsigned ms)
{
    struct convoy_tls_connection *tls = context;
    struct pollfd wait = {.fd = tls->connection->fd, .events = POLLIN};

    (void)ms;
    return poll(&wait, 1, 0);
}

static ssize_t push(gnutls_transport_ptr_t context, const giovec_t *pieces, int count)
{
    struct convoy_tls_connection *tls = context;
    /* giovec_t is struct iovec (gnutls.h). */
    const struct msghdr message = {.msg_iov = (struct iovec *)pieces, .msg_iovlen = (size_t)count};
    ssize_t sent = sendmsg(tls->connection->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (sent < 0) {
        tls->ended = tls->ended || (errno != EAGAIN && errno != EINTR);
        gnutls_transport_set_errno(tls->session, errno);
    }
    return sent;
}

/* ---- The handshake ---- */

static void complete(struct convoy_tls_connection *tls)
{
    tls->stage = DONE;
    convoy_metrics_tls_handshake(tls->metrics, gnutls_session_is_resumed(tls->session) != 0);
    convoy_connection_rests(tls->connection); /* for a request it has the time of any connection */
}

/* A message of the handshake came (incoming) or is sent; when: before or after it was looked at. */
static int on_message(gnutls_session_t session, unsigned type, unsigned when, unsigned incoming,
                      const gnutls_datum_t *message)
{
    struct convoy_tls_connection *tls = gnutls_session_get_ptr(session);

    (void)message;
    if (tls->stage == DONE)
        return 0; /* tickets, and new keys */
    if (type == GNUTLS_HANDSHAKE_CLIENT_HELLO && tls->stage == NOTHING)
        tls->stage = HELLO;
    if (type == GNUTLS_HANDSHAKE_SERVER_HELLO && !incoming)
        tls->stage = ANSWERED;
    if (type == GNUTLS_HANDSHAKE_FINISHED && when == GNUTLS_HOOK_POST) {
        tls->received = tls->received || incoming;
        tls->sent = tls->sent || !incoming;
        if (tls->received && tls->sent)
            complete(tls);
    }
    return 0;
}

static int on_negotiated(gnutls_session_t session)
{
    struct convoy_tls_connection *tls = gnutls_session_get_ptr(session);

    if (tls->stage == HELLO)
        tls->stage = NEGOTIATED;
    return 0;
}

/* Whether the client's certificate is one of the authorities', is valid today, and may be used by a client.
 */
static int verify(gnutls_session_t session)
{
    struct convoy_tls_connection *tls = gnutls_session_get_ptr(session);
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                     .data = (unsigned char *)GNUTLS_KP_TLS_WWW_CLIENT};
    unsigned problems = 0;

    if (gnutls_certificate_verify_peers(session, &purpose, 1, &problems) == 0 && problems == 0)
        return 0;
    tls->refused = true;
    return GNUTLS_E_CERTIFICATE_ERROR;
}

struct convoy_tls_connection *convoy_tls_client_open(struct convoy_tls_credentials *credentials,
                                                     struct convoy_metrics *metrics, gnutls_session_t session,
                                                     struct convoy_connection *connection)
{
    struct convoy_tls_connection *tls = calloc(1, sizeof *tls);

    if (tls == NULL ||
        gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, credentials->certificate) < 0 ||
        gnutls_priority_set(session, credentials->priority) < 0 ||
        gnutls_session_ticket_enable_server(session, &credentials->ticket_key) < 0) {
        convoy_tls_unload(credentials);
        free(tls);
        return NULL;
    }
    *tls = (struct convoy_tls_connection){
        .credentials = credentials, .metrics = metrics, .connection = connection, .session = session};
    if (credentials->asks_client) {
        gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUIRE);
        gnutls_session_set_verify_function(session, verify);
    }
    gnutls_session_set_ptr(session, tls); /* the library's is for keys that are shared beforehand alone */
    gnutls_transport_set_ptr(session, tls);
    gnutls_transport_set_pull_function(session, pull);
    gnutls_transport_set_pull_timeout_function(session, pull_timeout);
    gnutls_transport_set_vec_push_function(session, push);
    gnutls_handshake_set_hook_function(session, GNUTLS_HANDSHAKE_ANY, GNUTLS_HOOK_BOTH, on_message);
    gnutls_handshake_set_post_client_hello_function(session, on_negotiated);
    convoy_connection_receives(connection, convoy_now_us());
    return tls;
}

/* ---- Failure ---- */

static void count(struct convoy_tls_connection *tls, enum reason reason)
{
    static struct convoy_log_limit limits[REASONS];
    uint64_t unwritten;

    tls->failed = true;
    convoy_metrics_tls_failure(tls->metrics, reason_names[reason], 1);
    if (convoy_log_enabled(CONVOY_LOG_DEBUG) && convoy_log_limit_pass(&limits[reason], &unwritten))
        convoy_log(CONVOY_LOG_DEBUG, "a TLS handshake failed", CONVOY_STR("reason", reason_names[reason]),
                   CONVOY_UINT("unwritten", unwritten));
}

/* Whether the client said why it leaves. A connection that is reset is closed before what came last was read.
 */
static bool was_refused(const struct convoy_tls_connection *tls)
{
    uint8_t header[ALERT_HEADER_BYTES];

    return tls->alerted ||
           is_alert(header, recv(tls->connection->fd, header, sizeof header, MSG_DONTWAIT | MSG_PEEK));
}

/* The session is still there. */
static enum reason reason_of_failure(const struct convoy_tls_connection *tls)
{
    int cut = atomic_load_explicit(&tls->connection->cut_status, memory_order_relaxed);

    if (cut == CONVOY_HTTP_REQUEST_TIMEOUT)
        return TIMEOUT;
    if (tls->refused)
        return CLIENT_CERTIFICATE;
    /* The last alert that came; one that closes orderly is 0. */
    if (was_refused(tls) || gnutls_alert_get(tls->session) != GNUTLS_A_CLOSE_NOTIFY)
        return REFUSED;
    if (tls->ended)
        return CLOSED;
    switch (tls->stage) {
    case NOTHING:
        return NOT_TLS;
    case HELLO:
        return VERSION;
    case NEGOTIATED:
        return PARAMETERS;
    default:
        /* After the server's hello only a certificate is asked for that the client may lack. */
        return tls->credentials->asks_client && !tls->received ? CLIENT_CERTIFICATE : PROTOCOL;
    }
}

/* What a client is told: RFC 8446, 6.2. */
static void send_alert(const struct convoy_tls_connection *tls, enum reason reason)
{
    static const gnutls_alert_description_t alerts[REASONS] = {
        [VERSION] = GNUTLS_A_PROTOCOL_VERSION,
        [PARAMETERS] = GNUTLS_A_HANDSHAKE_FAILURE,
        [CLIENT_CERTIFICATE] = GNUTLS_A_BAD_CERTIFICATE,
        [PROTOCOL] = GNUTLS_A_DECODE_ERROR,
    };

    if (alerts[reason] != GNUTLS_A_CLOSE_NOTIFY)
        (void)gnutls_alert_send(tls->session, GNUTLS_AL_FATAL, alerts[reason]);
}

void convoy_tls_client_failed(void)
{
    struct convoy_tls_connection *tls = current;

    if (tls == NULL || tls->failed || tls->stage == DONE)
        return;
    enum reason reason = reason_of_failure(tls);
    count(tls, reason);
    send_alert(tls, reason);
}

/* The library closes a connection that is reset, or on which nothing comes for long, without a word. */
static enum reason reason_of_close(const struct convoy_tls_connection *tls)
{
    struct pollfd state = {.fd = tls->connection->fd, .events = POLLRDHUP};

    if (atomic_load_explicit(&tls->connection->cut_status, memory_order_relaxed) ==
        CONVOY_HTTP_REQUEST_TIMEOUT)
        return TIMEOUT;
    if (was_refused(tls))
        return REFUSED;
    return tls->ended || poll(&state, 1, 0) > 0 ? CLOSED : TIMEOUT;
}

void convoy_tls_client_close(struct convoy_tls_connection *tls)
{
    if (tls->stage != DONE && !tls->failed)
        count(tls, reason_of_close(tls));
    if (current == tls)
        current = NULL;
    convoy_tls_unload(tls->credentials);
    free(tls);
}

/* ---- Past the library ---- */

ssize_t convoy_tls_client_send(struct convoy_tls_connection *tls, const void *bytes, size_t length)
{
    ssize_t sent = gnutls_record_send(tls->session, bytes, length);

    if (sent >= 0)
        return sent;
    errno = sent == GNUTLS_E_AGAIN || sent == GNUTLS_E_INTERRUPTED ? EAGAIN : EPIPE;
    return -1;
}
