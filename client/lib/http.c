#include "client/lib/http.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/endpoint.h"
#include "client/lib/failure.h"

/* 1,024 images with 1,000 classes each take about 80 MB; a much longer answer is not a convoyd's. */
#define ANSWER_BYTES_MAX ((size_t)256 << 20)
#define CONNECT_MS       10000L

struct client_http {
    CURL *curl;
    char *socket_url;             /* unix:PATH; NULL where base says where */
    char *base;                   /* without a trailing slash */
    char *authorization;          /* the header; NULL: none */
    unsigned loopback_port;       /* of a server on this machine; 0: it is on another, or on a socket */
    char reason[CURL_ERROR_SIZE]; /* libcurl's sentence about the last failure, or "" */
    char *text;
    size_t size, capacity;
    bool (*stop)(void *context); /* NULL: requests are not interrupted */
    void *stop_context;
};

static struct client_tls security;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static CURLcode global_status;

static void start_curl(void)
{
    global_status = curl_global_init(CURL_GLOBAL_DEFAULT);
}

static size_t receive(char *bytes, size_t one, size_t count, void *context)
{
    struct client_http *http = context;
    size_t size = one * count;
    if (size > ANSWER_BYTES_MAX - http->size)
        return 0;
    if (http->size + size + 1 > http->capacity) {
        size_t capacity = (http->size + size + 1) * 2;
        char *text = realloc(http->text, capacity);
        if (!text)
            return 0;
        http->text = text;
        http->capacity = capacity;
    }
    memcpy(http->text + http->size, bytes, size);
    http->size += size;
    http->text[http->size] = '\0';
    return size;
}

void client_http_secure(const struct client_tls *tls)
{
    security = *tls;
}

/* What is asked over a Unix socket: its server's name is nowhere looked up. */
static int read_socket_url(const char *path, char **base, bool *loopback, struct convoy_failure *failure)
{
    /* As in sun_path of unix(7), with its NUL. */
    if (!*path || strlen(path) > 107)
        return client_fail_with(failure, -EINVAL,
                                "the server's URL 'unix:%s' is of no use: the path of a socket has 1 to 107 "
                                "bytes; unix:/run/convoyd/convoyd.sock is an example",
                                path);
    *loopback = true;
    *base = strdup("http://localhost");
    return *base ? 0 : client_fail_with(failure, -ENOMEM, "memory is out");
}

/* Checks url and returns a copy without a trailing slash. *port: where the server listens, if it is on this
 * machine; else 0. */
static int read_url(const char *url, char **base, bool *loopback, unsigned *port,
                    struct convoy_failure *failure)
{
    char *host = NULL, *scheme = NULL, *part = NULL, *number = NULL, *whole = NULL;
    int status = -EINVAL;
    CURLU *parsed = curl_url();
    if (!parsed)
        return client_fail_with(failure, -ENOMEM, "memory is out");
    const char *problem = NULL;
    if (!*url || curl_url_set(parsed, CURLUPART_URL, url, CURLU_GUESS_SCHEME | CURLU_NON_SUPPORT_SCHEME))
        problem = "it is not a URL";
    else if (curl_url_get(parsed, CURLUPART_SCHEME, &scheme, 0) ||
             (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0))
        problem = "only http and https are spoken";
    else if (curl_url_get(parsed, CURLUPART_HOST, &host, 0))
        problem = "it names no host";
    else if (curl_url_get(parsed, CURLUPART_QUERY, &part, 0) == 0 ||
             curl_url_get(parsed, CURLUPART_FRAGMENT, &part, 0) == 0)
        problem = "it must end with the path, without ? and #";
    if (problem) {
        client_fail_with(failure, status,
                         "the server's URL '%s' is of no use: %s; http://127.0.0.1:8080 is an example", url,
                         problem);
        goto out;
    }
    *loopback = client_endpoint_is_loopback(host);
    if (*loopback && curl_url_get(parsed, CURLUPART_PORT, &number, CURLU_DEFAULT_PORT) == 0)
        *port = (unsigned)strtoul(number, NULL, 10);
    if (curl_url_get(parsed, CURLUPART_URL, &whole, 0) || !(*base = strdup(whole))) {
        status = client_fail_with(failure, -ENOMEM, "memory is out");
        goto out;
    }
    for (size_t length = strlen(*base); length > 0 && (*base)[length - 1] == '/'; length--)
        (*base)[length - 1] = '\0';
    status = 0;
out:
    curl_free(host);
    curl_free(scheme);
    curl_free(part);
    curl_free(number);
    curl_free(whole);
    curl_url_cleanup(parsed);
    return status;
}

/* The header with the key in $CONVOY_KEY: not an option, as every user of a machine sees the arguments of
 * all programs. */
static int read_key(char **authorization, struct convoy_failure *failure)
{
    const char *key = getenv("CONVOY_KEY");
    if (!key || !*key)
        return 0;
    for (const char *at = key; *at; at++)
        if (*at <= ' ' || *at > '~')
            return client_fail_with(failure, -EINVAL,
                                    "CONVOY_KEY holds a character that no key has: it must be the key alone");
    if (asprintf(authorization, "Authorization: Bearer %s", key) >= 0)
        return 0;
    *authorization = NULL;
    return client_fail_with(failure, -ENOMEM, "memory is out");
}

/* A file that cannot be used shows when a connection is made. */
static void secure(CURL *curl)
{
    if (security.authorities)
        curl_easy_setopt(curl, CURLOPT_CAINFO, security.authorities);
    if (security.certificate)
        curl_easy_setopt(curl, CURLOPT_SSLCERT, security.certificate);
    if (security.key)
        curl_easy_setopt(curl, CURLOPT_SSLKEY, security.key);
    if (security.insecure) {
        curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
    }
}

int client_http_open(const char *url, struct client_http **http, struct convoy_failure *failure)
{
    const char *path = client_endpoint_unix(url);
    bool loopback = false;
    *http = NULL;
    pthread_once(&once, start_curl);
    if (global_status)
        return client_fail_with(failure, -EIO, "libcurl does not start: %s",
                                curl_easy_strerror(global_status));
    struct client_http *made = calloc(1, sizeof *made);
    if (!made)
        return client_fail_with(failure, -ENOMEM, "memory is out");
    int status = path ? read_socket_url(path, &made->base, &loopback, failure)
                      : read_url(url, &made->base, &loopback, &made->loopback_port, failure);
    if (status == 0)
        status = read_key(&made->authorization, failure);
    if (status)
        goto out;
    made->socket_url = path ? strdup(url) : NULL;
    made->curl = curl_easy_init();
    if (!made->curl || (path && !made->socket_url)) {
        status = client_fail_with(failure, -ENOMEM, "memory is out");
        goto out;
    }
    curl_easy_setopt(made->curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(made->curl, CURLOPT_ERRORBUFFER, made->reason);
    curl_easy_setopt(made->curl, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(made->curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    curl_easy_setopt(made->curl, CURLOPT_WRITEFUNCTION, receive);
    curl_easy_setopt(made->curl, CURLOPT_WRITEDATA, made);
    curl_easy_setopt(made->curl, CURLOPT_USERAGENT, "convoy/" CONVOY_VERSION);
    /* A proxy from the environment could not reach a server on this machine. */
    if (loopback)
        curl_easy_setopt(made->curl, CURLOPT_PROXY, "");
    if (path)
        curl_easy_setopt(made->curl, CURLOPT_UNIX_SOCKET_PATH, path);
    secure(made->curl);
    *http = made;
    return 0;
out:
    client_http_close(made);
    return status;
}

void client_http_close(struct client_http *http)
{
    if (!http)
        return;
    curl_easy_cleanup(http->curl);
    free(http->base);
    free(http->socket_url);
    free(http->authorization);
    free(http->text);
    free(http);
}

/* The server, in sentences. */
static const char *server_of(const struct client_http *http)
{
    return http->socket_url ? http->socket_url : http->base;
}

/* A server that asks for a client's certificate refuses in the handshake, which curl tells as a failed
 * exchange: in TLS 1.3 the client is already sending by then. */
static bool wants_certificate(const struct client_http *http)
{
    return strncmp(http->base, "https:", 6) == 0 && strstr(http->reason, " alert ") != NULL &&
           strstr(http->reason, "certificate") != NULL;
}

static int explain(const struct client_http *http, CURLcode code, long timeout_ms,
                   struct convoy_failure *failure)
{
    if (code != CURLE_PEER_FAILED_VERIFICATION && wants_certificate(http))
        return client_fail_with(
            failure, -EPROTO,
            "the server at %s lets in only clients with a certificate that it trusts: name one "
            "with --cert and --key (%s)",
            server_of(http), http->reason);
    switch (code) {
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        return client_fail_with(failure, -ECONNREFUSED, "no server answers at %s (%s)", server_of(http),
                                curl_easy_strerror(code));
    case CURLE_OPERATION_TIMEDOUT: {
        double connected = 0;
        curl_easy_getinfo(http->curl, CURLINFO_PRETRANSFER_TIME, &connected);
        if (connected <= 0)
            return client_fail_with(failure, -ECONNREFUSED, "no server answers at %s within %ld ms",
                                    server_of(http), timeout_ms < CONNECT_MS ? timeout_ms : CONNECT_MS);
        return client_fail_with(failure, -ETIMEDOUT, "the server at %s did not answer within %ld ms",
                                server_of(http), timeout_ms);
    }
    case CURLE_PEER_FAILED_VERIFICATION:
        return client_fail_with(failure, -EPROTO,
                                "the server at %s cannot be trusted: %s; name the authority that signed its "
                                "certificate with --cacert FILE",
                                server_of(http), http->reason[0] ? http->reason : curl_easy_strerror(code));
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
        return client_fail_with(failure, -EINVAL, "a file of --cacert, --cert or --key is of no use: %s",
                                http->reason[0] ? http->reason : curl_easy_strerror(code));
    case CURLE_SSL_CONNECT_ERROR:
        return client_fail_with(failure, -EPROTO,
                                "no TLS with %s: %s; a server without a certificate is asked at http://",
                                server_of(http), http->reason[0] ? http->reason : curl_easy_strerror(code));
    case CURLE_GOT_NOTHING:
        return client_fail_with(
            failure, -EPROTO, "the server at %s closed the connection without an answer%s", server_of(http),
            strncmp(http->base, "https:", 6) == 0 ? "" : "; one that has a certificate is asked at https://");
    case CURLE_ABORTED_BY_CALLBACK:
        return client_fail_with(failure, -ECANCELED, "interrupted");
    case CURLE_OUT_OF_MEMORY:
        return client_fail_with(failure, -ENOMEM, "memory is out");
    case CURLE_WRITE_ERROR:
        return client_fail_with(failure, -EPROTO, "the answer from %s is too long to be a convoyd's",
                                server_of(http));
    default:
        return client_fail_with(failure, -EPROTO, "the exchange with %s failed: %s", server_of(http),
                                http->reason[0] ? http->reason : curl_easy_strerror(code));
    }
}

/* Returns the response header's value, valid until the next request, or NULL. */
static const char *header(struct client_http *http, const char *name)
{
    struct curl_header *found;
    return curl_easy_header(http->curl, name, 0, CURLH_HEADER, -1, &found) == CURLHE_OK ? found->value : NULL;
}

/* header: one more than those that every request has, or NULL. */
static int perform(struct client_http *http, const char *path, const char *header_line, long timeout_ms,
                   struct client_response *response, struct convoy_failure *failure)
{
    const char *lines[] = {header_line, http->authorization};
    struct curl_slist *headers = NULL;
    size_t length = strlen(http->base) + strlen(path) + 1;
    char *url = malloc(length);
    if (!url)
        return client_fail_with(failure, -ENOMEM, "memory is out");
    strcpy(url, http->base); // NOLINT(clang-analyzer-security.insecureAPI.strcpy): measured just above
    strcat(url, path);       // NOLINT(clang-analyzer-security.insecureAPI.strcpy)
    CURLcode code = curl_easy_setopt(http->curl, CURLOPT_URL, url);
    free(url);
    for (size_t i = 0; i < sizeof lines / sizeof *lines && code == CURLE_OK; i++) {
        struct curl_slist *longer = lines[i] ? curl_slist_append(headers, lines[i]) : headers;
        if (lines[i] && !longer)
            code = CURLE_OUT_OF_MEMORY;
        else
            headers = longer;
    }
    curl_easy_setopt(http->curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(http->curl, CURLOPT_TIMEOUT_MS, timeout_ms);
    http->size = 0;
    http->reason[0] = '\0';
    if (http->text)
        http->text[0] = '\0';
    if (code == CURLE_OK)
        code = curl_easy_perform(http->curl);
    curl_easy_setopt(http->curl, CURLOPT_HTTPHEADER, NULL);
    curl_slist_free_all(headers);
    if (code != CURLE_OK)
        return explain(http, code, timeout_ms, failure);
    long status = 0;
    curl_easy_getinfo(http->curl, CURLINFO_RESPONSE_CODE, &status);
    memset(response, 0, sizeof *response);
    response->text = http->text ? http->text : "";
    response->size = http->size;
    response->status = (int)status;
    const char *value = header(http, "X-Request-Id");
    if (value)
        strncat(response->request_id, value, sizeof response->request_id - 1);
    value = header(http, "Retry-After");
    long seconds = value ? strtol(value, NULL, 10) : 0;
    response->retry_after_s = seconds < 0 ? 0 : seconds > 86400 ? 86400 : (int)seconds;
    return 0;
}

int client_http_post(struct client_http *http, const struct client_request *request, long timeout_ms,
                     struct client_response *response, struct convoy_failure *failure)
{
    curl_easy_setopt(http->curl, CURLOPT_POST, 1L);
    curl_easy_setopt(http->curl, CURLOPT_POSTFIELDS, request->body);
    curl_easy_setopt(http->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_size);
    return perform(http, request->path, request->header, timeout_ms, response, failure);
}

int client_http_get(struct client_http *http, const char *path, long timeout_ms,
                    struct client_response *response, struct convoy_failure *failure)
{
    curl_easy_setopt(http->curl, CURLOPT_HTTPGET, 1L);
    return perform(http, path, NULL, timeout_ms, response, failure);
}

void client_http_prefer_admin_socket(struct client_http *http)
{
    char path[CLIENT_SOCKET_BYTES];
    if (http->loopback_port && !http->authorization && client_endpoint_admin(http->loopback_port, path))
        curl_easy_setopt(http->curl, CURLOPT_UNIX_SOCKET_PATH, path);
}

static int progress(void *context, curl_off_t total, curl_off_t got, curl_off_t to_send, curl_off_t sent)
{
    struct client_http *http = context;
    (void)total, (void)got, (void)to_send, (void)sent;
    return http->stop(http->stop_context);
}

void client_http_abort_when(struct client_http *http, bool (*stop)(void *context), void *context)
{
    http->stop = stop;
    http->stop_context = context;
    curl_easy_setopt(http->curl, CURLOPT_XFERINFOFUNCTION, progress);
    curl_easy_setopt(http->curl, CURLOPT_XFERINFODATA, http);
    curl_easy_setopt(http->curl, CURLOPT_NOPROGRESS, 0L);
}

long client_http_patience_ms(int timeout_ms)
{
    return timeout_ms ? timeout_ms + 30000L : 120000L;
}
