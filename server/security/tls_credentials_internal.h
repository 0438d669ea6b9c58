/* What a set of credentials is: for the files of TLS and no other. */
#ifndef CONVOY_SERVER_TLS_CREDENTIALS_INTERNAL_H
#define CONVOY_SERVER_TLS_CREDENTIALS_INTERNAL_H

#include "server/security/tls_credentials.h"

#include <gnutls/gnutls.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

struct convoy_tls_credentials {
    _Atomic uint32_t users; /* 1 for the owner, 1 for each connection; the last one frees */
    gnutls_certificate_credentials_t certificate;
    gnutls_priority_t priority; /* versions and ciphers */
    gnutls_datum_t ticket_key;  /* GnuTLS derives from it the keys that it uses for some hours each */
    bool asks_client;           /* a client has to show a certificate */
    time_t expires;             /* the first of the chain */
};

#endif
