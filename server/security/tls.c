#include "server/security/tls.h"

#include "server/http/tls_hooks.h"
#include "server/metrics/metrics.h"
#include "server/security/tls_client.h"
#include "server/security/tls_credentials.h"

#include <gnutls/abstract.h>
#include <pthread.h>
#include <stdlib.h>

struct convoy_tls {
    pthread_mutex_t lock; /* current: held to take one use of it */
    struct convoy_tls_credentials *current;
    struct convoy_metrics *metrics;
    struct convoy_tls_hooks hooks;
};

static struct convoy_tls_connection *open_connection(void *context, void *session,
                                                     struct convoy_connection *connection)
{
    struct convoy_tls *tls = context;

    pthread_mutex_lock(&tls->lock);
    struct convoy_tls_credentials *credentials = tls->current;
    convoy_tls_credentials_hold(credentials);
    pthread_mutex_unlock(&tls->lock);
    return convoy_tls_client_open(credentials, tls->metrics, session, connection);
}

/* The library's own credentials serve no session. */
static int no_certificate(gnutls_session_t session, const gnutls_datum_t *authorities, int authority_count,
                          const gnutls_pk_algorithm_t *algorithms, int algorithm_count,
                          gnutls_pcert_st **certificate, unsigned *count, gnutls_privkey_t *key)
{
    (void)session;
    (void)authorities;
    (void)authority_count;
    (void)algorithms;
    (void)algorithm_count;
    (void)certificate;
    (void)count;
    (void)key;
    return -1;
}

static gnutls_certificate_retrieve_function2 *const typed_no_certificate = &no_certificate;

struct convoy_tls *convoy_tls_new(struct convoy_tls_credentials *credentials, struct convoy_metrics *metrics)
{
    struct convoy_tls *tls = calloc(1, sizeof *tls);

    if (tls == NULL) {
        convoy_tls_unload(credentials);
        return NULL;
    }
    pthread_mutex_init(&tls->lock, NULL);
    tls->current = credentials;
    tls->metrics = metrics;
    tls->hooks = (struct convoy_tls_hooks){.context = tls,
                                           .no_certificate = (void (*)(void))typed_no_certificate,
                                           .open = open_connection,
                                           .failed = convoy_tls_client_failed,
                                           .send = convoy_tls_client_send,
                                           .close = convoy_tls_client_close};
    convoy_tls_client_begin_metrics(metrics);
    convoy_metrics_tls_expiry(metrics, convoy_tls_expiry(credentials));
    return tls;
}

void convoy_tls_replace(struct convoy_tls *tls, struct convoy_tls_credentials *credentials)
{
    pthread_mutex_lock(&tls->lock);
    struct convoy_tls_credentials *old = tls->current;
    tls->current = credentials;
    pthread_mutex_unlock(&tls->lock);
    convoy_metrics_tls_expiry(tls->metrics, convoy_tls_expiry(credentials));
    convoy_tls_unload(old);
}

const struct convoy_tls_hooks *convoy_tls_hooks(const struct convoy_tls *tls)
{
    return &tls->hooks;
}

void convoy_tls_free(struct convoy_tls *tls)
{
    if (tls == NULL)
        return;
    convoy_tls_unload(tls->current);
    pthread_mutex_destroy(&tls->lock);
    free(tls);
}
