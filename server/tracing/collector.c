#include "server/tracing/collector.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define LIBRARY    "libcurl.so.4"
#define CONNECT_MS 2000L

struct convoy_collector {
    void *library;
    __typeof__(curl_global_init) *global_init;
    __typeof__(curl_global_cleanup) *global_cleanup;
    __typeof__(curl_easy_init) *easy_init;
    __typeof__(curl_easy_setopt) *easy_setopt;
    __typeof__(curl_easy_perform) *easy_perform;
    __typeof__(curl_easy_getinfo) *easy_getinfo;
    __typeof__(curl_easy_strerror) *easy_strerror;
    __typeof__(curl_easy_cleanup) *easy_cleanup;
    __typeof__(curl_slist_append) *slist_append;
    __typeof__(curl_slist_free_all) *slist_free_all;
    bool (*gives_up)(void *context);
    void *context;
    CURL *curl;
    struct curl_slist *headers;
    char reason[CURL_ERROR_SIZE];
};

/* The header's macros check the types of curl_easy_setopt()'s arguments, and know it by its name alone. */
#undef curl_easy_setopt
#undef curl_easy_getinfo

static bool open_library(struct convoy_collector *collector)
{
    const struct {
        const char *name;
        void *function; /* where its pointer is kept */
    } functions[] = {{"curl_global_init", &collector->global_init},
                     {"curl_global_cleanup", &collector->global_cleanup},
                     {"curl_easy_init", &collector->easy_init},
                     {"curl_easy_setopt", &collector->easy_setopt},
                     {"curl_easy_perform", &collector->easy_perform},
                     {"curl_easy_getinfo", &collector->easy_getinfo},
                     {"curl_easy_strerror", &collector->easy_strerror},
                     {"curl_easy_cleanup", &collector->easy_cleanup},
                     {"curl_slist_append", &collector->slist_append},
                     {"curl_slist_free_all", &collector->slist_free_all}};

    collector->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; collector->library != NULL && i < sizeof functions / sizeof functions[0]; i++) {
        void *symbol = dlsym(collector->library, functions[i].name);
        if (symbol == NULL)
            return false;
        memcpy(functions[i].function, &symbol, sizeof symbol);
    }
    return collector->library != NULL;
}

/* A worker that starts meanwhile is to inherit no socket. */
static curl_socket_t open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)context;
    (void)purpose;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static size_t pass_over(char *bytes, size_t size, size_t count, void *context)
{
    (void)bytes;
    (void)context;
    return size * count;
}

static int on_progress(void *context, curl_off_t total, curl_off_t got, curl_off_t to_send, curl_off_t sent)
{
    const struct convoy_collector *collector = context;

    (void)total;
    (void)got;
    (void)to_send;
    (void)sent;
    return collector->gives_up(collector->context);
}

static bool add_header(struct convoy_collector *collector, const char *line)
{
    struct curl_slist *longer = collector->slist_append(collector->headers, line);

    if (longer != NULL)
        collector->headers = longer;
    return longer != NULL;
}

static int prepare(struct convoy_collector *collector, const char *url, struct convoy_error *error)
{
    __typeof__(curl_easy_setopt) *set = collector->easy_setopt;
    CURL *curl = collector->curl = collector->easy_init();

    /* No header Expect: a collector that does not know it would cost a second a batch. */
    if (curl == NULL || !add_header(collector, "Content-Type: application/json") ||
        !add_header(collector, "Expect:"))
        return convoy_fail(error, -ENOMEM, "out of memory for libcurl");
    if (set(curl, CURLOPT_PROTOCOLS_STR, "http,https") != CURLE_OK || set(curl, CURLOPT_URL, url) != CURLE_OK)
        return convoy_fail(error, -EINVAL,
                           "tracing.otlp_url: libcurl does not take it, or is older than 7.85");
    set(curl, CURLOPT_NOSIGNAL, 1L);
    set(curl, CURLOPT_QUICK_EXIT, 1L); /* a name that is not answered for is not waited for at the end */
    set(curl, CURLOPT_ERRORBUFFER, collector->reason);
    set(curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    set(curl, CURLOPT_PROXY, ""); /* the configuration alone says where traces go */
    set(curl, CURLOPT_USERAGENT, "convoyd/" CONVOY_VERSION);
    set(curl, CURLOPT_HTTPHEADER, collector->headers);
    set(curl, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    set(curl, CURLOPT_WRITEFUNCTION, pass_over);
    set(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
    set(curl, CURLOPT_XFERINFODATA, collector);
    set(curl, CURLOPT_NOPROGRESS, 0L);
    return 0;
}

int convoy_collector_new(const char *url, bool (*gives_up)(void *context), void *context,
                         struct convoy_collector **result, struct convoy_error *error)
{
    struct convoy_collector *collector = calloc(1, sizeof *collector);
    int code;

    if (collector == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for the traces");
    collector->gives_up = gives_up;
    collector->context = context;
    if (!open_library(collector))
        code = convoy_fail(error, -ENOENT,
                           "tracing.otlp_url needs " LIBRARY ", which cannot be opened: install it (Debian "
                           "package libcurl4), or set tracing.otlp_url to null");
    else if (collector->global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        code = convoy_fail(error, -ENOMEM, "libcurl cannot be started");
    else
        code = prepare(collector, url, error);
    if (code != 0) {
        convoy_collector_free(collector);
        return code;
    }
    *result = collector;
    return 0;
}

void convoy_collector_free(struct convoy_collector *collector)
{
    if (collector == NULL)
        return;
    if (collector->curl != NULL)
        collector->easy_cleanup(collector->curl);
    if (collector->headers != NULL)
        collector->slist_free_all(collector->headers);
    /* The library stays: a thread of it may still wait for a name's address. */
    free(collector);
}

int convoy_collector_post(struct convoy_collector *collector, const char *json, size_t length,
                          uint32_t timeout_ms, struct convoy_error *error)
{
    __typeof__(curl_easy_setopt) *set = collector->easy_setopt;
    CURL *curl = collector->curl;
    long status = 0;

    collector->reason[0] = '\0';
    set(curl, CURLOPT_POST, 1L);
    set(curl, CURLOPT_POSTFIELDS, json);
    set(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)length);
    set(curl, CURLOPT_TIMEOUT_MS, (long)timeout_ms);
    CURLcode code = collector->easy_perform(curl);
    if (code != CURLE_OK)
        return convoy_fail(error, -EIO, "%s",
                           collector->reason[0] != '\0' ? collector->reason : collector->easy_strerror(code));
    collector->easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    if (status < 200 || status > 299)
        return convoy_fail(error, -EIO, "the collector answers %ld", status);
    return 0;
}
