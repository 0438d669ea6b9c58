#include "server/security/tls_credentials.h"

#include "engine/base/file.h"
#include "server/security/tls_credentials_internal.h"

#include <errno.h>
#include <gnutls/x509.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_BYTES_MAX ((size_t)1 << 20)

/* TLS 1.2 and 1.3 with what RFC 9325 recommends: keys of the session alone (no static RSA), authenticated
 * encryption. */
#define PRIORITY                                                                                             \
    "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA:-CIPHER-ALL:"                \
    "+AES-128-GCM:+AES-256-GCM:+CHACHA20-POLY1305:-MAC-ALL:+AEAD:%SERVER_PRECEDENCE"

/* A key that every user can read is none. */
#define FORBIDDEN_MODE (S_IWGRP | S_IRWXO)

static int read_file(const char *path, gnutls_datum_t *text, struct convoy_error *error)
{
    char *bytes;
    size_t length;
    int code = convoy_file_read(path, FILE_BYTES_MAX, &bytes, &length, error);

    if (code == 0)
        *text = (gnutls_datum_t){(unsigned char *)bytes, (unsigned)length};
    return code;
}

/* "2026-11-25 10:00:00 UTC" */
static const char *date(time_t time, char text[32])
{
    struct tm utc;

    if (gmtime_r(&time, &utc) == NULL || strftime(text, 32, "%F %T UTC", &utc) == 0)
        text[0] = '\0';
    return text;
}

/* Whether the certificate is valid now; *expires becomes the earlier one of it and its own end. */
static int check_dates(const char *path, gnutls_x509_crt_t certificate, time_t *expires,
                       struct convoy_error *error)
{
    time_t now = time(NULL), from = gnutls_x509_crt_get_activation_time(certificate),
           until = gnutls_x509_crt_get_expiration_time(certificate);
    char when[32], today[32];

    if (until <= now)
        return convoy_fail(error, -EINVAL, "tls.certificate: %s expired on %s: renew it", path,
                           date(until, when));
    if (from > now)
        return convoy_fail(
            error, -EINVAL,
            "tls.certificate: %s is valid from %s on, and here it is %s: look at the machine's clock", path,
            date(from, when), date(now, today));
    if (*expires == 0 || until < *expires)
        *expires = until;
    return 0;
}

/* Checks the whole chain. */
static int check_chain(const char *path, const gnutls_datum_t *text, time_t *expires,
                       struct convoy_error *error)
{
    gnutls_x509_crt_t *chain;
    unsigned count = 0;
    int code =
        gnutls_x509_crt_list_import2(&chain, &count, text, GNUTLS_X509_FMT_PEM, GNUTLS_X509_CRT_LIST_SORT);

    if (code < 0)
        return convoy_fail(
            error, -EINVAL,
            "tls.certificate: %s holds no chain of certificates in PEM, the server's own first: %s", path,
            gnutls_strerror(code));
    code = 0;
    for (unsigned i = 0; i < count; i++) {
        if (code == 0)
            code = check_dates(path, chain[i], expires, error);
        gnutls_x509_crt_deinit(chain[i]);
    }
    gnutls_free(chain);
    return code;
}

static int check_key_mode(const char *path, struct convoy_error *error)
{
    struct stat file;

    if (stat(path, &file) != 0)
        return convoy_fail(error, -errno, "tls.key: %s: %s", path, strerror(errno));
    if ((file.st_mode & FORBIDDEN_MODE) == 0)
        return 0;
    return convoy_fail(
        error, -EPERM,
        "tls.key: %s has mode %04o, so that others can read or change it: chmod 0600 (or 0640 with a "
        "group of its own), and if it was readable for long, make a new key",
        path, (unsigned)(file.st_mode & 07777));
}

static int set_key(struct convoy_tls_credentials *credentials, const struct convoy_tls_config *config,
                   const gnutls_datum_t *chain, const gnutls_datum_t *key, struct convoy_error *error)
{
    int code = gnutls_certificate_set_x509_key_mem2(credentials->certificate, chain, key, GNUTLS_X509_FMT_PEM,
                                                    NULL, 0);
    switch (code) {
    case GNUTLS_E_CERTIFICATE_KEY_MISMATCH:
        return convoy_fail(
            error, -EINVAL,
            "tls.key: %s is not the key of the certificate in %s: name the two files that were made "
            "together",
            config->key, config->certificate);
    case GNUTLS_E_DECRYPTION_FAILED:
        return convoy_fail(
            error, -EINVAL,
            "tls.key: %s is encrypted, and convoyd has no one to ask for the password: store it "
            "without (openssl pkey -in FILE -out FILE), with mode 0600",
            config->key);
    default:
        if (code < 0)
            return convoy_fail(error, -EINVAL, "tls.key: %s holds no private key in PEM: %s", config->key,
                               gnutls_strerror(code));
        return 0;
    }
}

/* The authorities whose clients are served. */
static int set_client_ca(struct convoy_tls_credentials *credentials, const char *path,
                         struct convoy_error *error)
{
    gnutls_datum_t text;
    int code = read_file(path, &text, error);

    if (code != 0)
        return convoy_fail_in(error, code, "tls.client_ca");
    int count = gnutls_certificate_set_x509_trust_mem(credentials->certificate, &text, GNUTLS_X509_FMT_PEM);
    free(text.data);
    if (count <= 0)
        return convoy_fail(error, -EINVAL, "tls.client_ca: %s holds no certificate in PEM", path);
    credentials->asks_client = true;
    return 0;
}

static int fill(struct convoy_tls_credentials *credentials, const struct convoy_tls_config *config,
                const gnutls_datum_t *chain, const gnutls_datum_t *key, struct convoy_error *error)
{
    int code;

    if (gnutls_certificate_allocate_credentials(&credentials->certificate) < 0 ||
        gnutls_session_ticket_key_generate(&credentials->ticket_key) < 0)
        return convoy_fail(error, -ENOMEM, "out of memory for the certificate");
    code = gnutls_priority_init(&credentials->priority, PRIORITY, NULL);
    if (code < 0)
        return convoy_fail(error, -EINVAL, "GnuTLS does not take the ciphers of convoyd: %s",
                           gnutls_strerror(code));
    if ((code = check_chain(config->certificate, chain, &credentials->expires, error)) != 0 ||
        (code = set_key(credentials, config, chain, key, error)) != 0)
        return code;
    return config->client_ca != NULL ? set_client_ca(credentials, config->client_ca, error) : 0;
}

int convoy_tls_load(const struct convoy_tls_config *config, struct convoy_tls_credentials **result,
                    struct convoy_error *error)
{
    struct convoy_tls_credentials *credentials = calloc(1, sizeof *credentials);
    gnutls_datum_t chain = {0}, key = {0};
    int code = -ENOMEM;

    if (credentials == NULL)
        return convoy_fail(error, code, "out of memory for the certificate");
    atomic_init(&credentials->users, 1);
    if ((code = read_file(config->certificate, &chain, error)) != 0)
        code = convoy_fail_in(error, code, "tls.certificate");
    else if ((code = check_key_mode(config->key, error)) == 0 &&
             (code = read_file(config->key, &key, error)) != 0)
        code = convoy_fail_in(error, code, "tls.key");
    if (code == 0)
        code = fill(credentials, config, &chain, &key, error);
    if (key.data != NULL)
        gnutls_memset(key.data, 0, key.size);
    free(key.data);
    free(chain.data);
    if (code != 0) {
        convoy_tls_unload(credentials);
        return code;
    }
    *result = credentials;
    return 0;
}

uint64_t convoy_tls_expiry(const struct convoy_tls_credentials *credentials)
{
    return credentials->expires > 0 ? (uint64_t)credentials->expires : 0;
}

void convoy_tls_credentials_hold(struct convoy_tls_credentials *credentials)
{
    atomic_fetch_add_explicit(&credentials->users, 1, memory_order_relaxed);
}

void convoy_tls_unload(struct convoy_tls_credentials *credentials)
{
    if (credentials == NULL || atomic_fetch_sub(&credentials->users, 1) > 1)
        return;
    if (credentials->certificate != NULL)
        gnutls_certificate_free_credentials(credentials->certificate);
    if (credentials->priority != NULL)
        gnutls_priority_deinit(credentials->priority);
    if (credentials->ticket_key.data != NULL)
        gnutls_memset(credentials->ticket_key.data, 0, credentials->ticket_key.size);
    gnutls_free(credentials->ticket_key.data);
    free(credentials);
}
