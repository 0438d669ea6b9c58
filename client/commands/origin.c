#include "client/commands/origin.h"

#include <cjson/cJSON.h>
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "client/lib/http.h"
#include "client/lib/json.h"

#define ANSWER_MS 10000

/* Asks the server for a document. Returns it, for cJSON_Delete, or NULL. */
static cJSON *ask(const char *url, const char *path)
{
    struct client_http *http = NULL;
    struct client_response response;
    struct convoy_failure failure;
    cJSON *document = NULL;
    if (client_http_open(url, &http, &failure) == 0 &&
        client_http_get(http, path, ANSWER_MS, &response, &failure) == 0 && response.status == 200)
        document = cJSON_ParseWithLength(response.text, response.size);
    client_http_close(http);
    return document;
}

void client_origin_server(const char *url, char *text, size_t bytes)
{
    cJSON *document = ask(url, "/v2");
    const char *name = client_json_text(document, "name");
    const char *version = client_json_text(document, "version");
    *text = '\0';
    if (name && version)
        snprintf(text, bytes, "%s %s", name, version);
    cJSON_Delete(document);
}

void client_origin_precision(const char *url, const char *model, const char *version, char *text,
                             size_t bytes)
{
    char *path = NULL, *name = curl_easy_escape(NULL, model, 0);
    char *number = curl_easy_escape(NULL, version, 0);
    *text = '\0';
    if (name && number && asprintf(&path, "/v2/models/%s/versions/%s", name, number) >= 0) {
        cJSON *document = ask(url, path);
        const char *precision = client_json_text(document, "precision");
        snprintf(text, bytes, "%s", precision ? precision : "");
        cJSON_Delete(document);
        free(path);
    }
    curl_free(name);
    curl_free(number);
}

void client_origin_url(const char *url, char *text, size_t bytes)
{
    const char *scheme = strstr(url, "://");
    const char *host = scheme ? scheme + strlen("://") : url;
    const char *user_end = memrchr(host, '@', strcspn(host, "/?#"));
    if (strncmp(url, "unix:", strlen("unix:")) == 0)
        user_end = NULL;
    snprintf(text, bytes, "%.*s%s", (int)(host - url), url, user_end ? user_end + 1 : host);
}

void client_origin_date(char *text, size_t bytes)
{
    time_t now = time(NULL);
    struct tm local;
    if (!localtime_r(&now, &local) || !strftime(text, bytes, "%F %H:%M %z", &local))
        *text = '\0';
}

/* Writes the name of the processor; "" where the kernel does not tell. */
static void read_processor(char *text, size_t bytes)
{
    FILE *file = fopen("/proc/cpuinfo", "re");
    char line[256];
    *text = '\0';
    while (file && !*text && fgets(line, sizeof line, file)) {
        const char *value = strchr(line, ':');
        if (!value || strncmp(line, "model name", strlen("model name")) != 0)
            continue;
        value += 1 + strspn(value + 1, " \t");
        snprintf(text, bytes, "%.*s", (int)strcspn(value, "\n"), value);
    }
    if (file)
        fclose(file);
}

void client_origin_machine(char *text, size_t bytes)
{
    char processor[128];
    struct utsname system = {0};
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    read_processor(processor, sizeof processor);
    uname(&system);
    snprintf(text, bytes, "%s%s%ld processor%s, %s %s %s", processor, *processor ? ", " : "", count,
             count == 1 ? "" : "s", system.sysname, system.release, system.machine);
}
