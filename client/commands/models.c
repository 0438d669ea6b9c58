/* `convoy models`: lists a server's models. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/commands/command.h"
#include "client/commands/models.h"
#include "client/lib/answer.h"
#include "client/lib/failure.h"
#include "client/term/terminal.h"

static const char help[] =
    "Usage: convoy models [OPTION]...\n"
    "Lists the models of a convoyd: name, version and state (READY, LOADING, or FAILED with the reason).\n"
    "\n"
    "  --all            list also what lies in its folder and is not to be served, in the words of the\n"
    "                   server's repository index (READY, LOADING, UNLOADING, or UNAVAILABLE with the "
    "reason)\n"
    "  --json           print one JSON document\n"
    "  --url URL        the server (default: $CONVOY_URL, else http://127.0.0.1:8080)\n" CLIENT_TLS_HELP "\n"
    "Exit status: 0 listed, 2 wrong command line, 3 no server, 4 the server refused.\n"
    "\n"
    "  convoy models\n"
    "  convoy models --all --url http://gpu-7:8080\n";

static void print_json(const struct convoy_models *models)
{
    cJSON *document = cJSON_CreateObject();
    cJSON *list = cJSON_AddArrayToObject(document, "models");
    for (size_t i = 0; i < models->count; i++) {
        cJSON *model = cJSON_CreateObject();
        cJSON_AddStringToObject(model, "name", models->models[i].name);
        cJSON_AddStringToObject(model, "version", models->models[i].version);
        cJSON_AddStringToObject(model, "state", models->models[i].state);
        cJSON_AddStringToObject(model, "reason", models->models[i].reason);
        cJSON_AddItemToArray(list, model);
    }
    char *text = cJSON_Print(document);
    if (text)
        puts(text);
    cJSON_free(text);
    cJSON_Delete(document);
}

static void print_padded(const char *text, size_t width)
{
    client_print_safely(stdout, text);
    printf("%*s", strlen(text) < width ? (int)(width - strlen(text)) : 0, "");
}

static void print_text(const struct convoy_models *models)
{
    struct client_terminal terminal = client_terminal_open(stdout);
    size_t name = 0, version = 0;
    for (size_t i = 0; i < models->count; i++) {
        name = strlen(models->models[i].name) > name ? strlen(models->models[i].name) : name;
        version = strlen(models->models[i].version) > version ? strlen(models->models[i].version) : version;
    }
    for (size_t i = 0; i < models->count; i++) {
        const struct convoy_model *model = &models->models[i];
        enum client_colour colour = strcmp(model->state, "READY") == 0    ? CLIENT_GREEN
                                    : strcmp(model->state, "FAILED") == 0 ? CLIENT_RED
                                                                          : CLIENT_DIM;
        print_padded(model->name, name + 2);
        print_padded(model->version, version + 2);
        fputs(client_colour(&terminal, colour), stdout);
        client_print_safely(stdout, model->state);
        fputs(client_colour(&terminal, CLIENT_PLAIN), stdout);
        if (*model->reason) {
            fputs(": ", stdout);
            client_print_safely(stdout, model->reason);
        }
        putchar('\n');
    }
    if (models->count == 0)
        puts("The server has no models.");
}

static int take(int letter, const char *value, void *context, struct convoy_failure *failure)
{
    (void)letter, (void)value, (void)failure;
    *(bool *)context = true;
    return 0;
}

#define PATIENCE_MS 30000L

static int ask_index(const char *url, struct convoy_models **models, struct convoy_failure *failure)
{
    static char path[] = "/v2/repository/index", header[] = "Content-Type: application/json";
    const struct client_request request = {.path = path, .header = header, .body = "{}", .body_size = 2};
    struct client_http *http = NULL;
    struct client_response response;
    int status = client_http_open(url, &http, failure);
    if (status == 0)
        status = client_http_post(http, &request, PATIENCE_MS, &response, failure);
    if (status == 0)
        status = client_index_read(&response, models, failure);
    client_http_close(http);
    return status;
}

static int ask_models(const char *url, struct convoy_models **models, struct convoy_failure *failure)
{
    struct convoy_client *client = NULL;
    int status = convoy_client_open(url, &client, failure);
    if (status == 0)
        status = convoy_client_models(client, models, failure);
    convoy_client_close(client);
    return status;
}

int client_models_command(int argc, char **argv)
{
    static const struct option options[] = {CLIENT_COMMON_OPTIONS, {"all", no_argument, NULL, 'a'}, {0}};
    bool all = false;
    struct client_common common;
    struct convoy_failure failure;
    struct convoy_models *models = NULL;
    int first = client_arguments(argc, argv, options, &common, take, &all, &failure);
    if (first == 0) {
        fputs(help, stdout);
        return CLIENT_EXIT_OK;
    }
    if (first > 0 && first < argc)
        first = client_fail_with(&failure, -EINVAL, "'%s' is one argument too many", argv[first]);
    if (first < 0)
        return client_report("models", first, &failure);
    int status = all ? ask_index(common.url, &models, &failure) : ask_models(common.url, &models, &failure);
    int exit_status = CLIENT_EXIT_OK;
    if (status)
        exit_status = client_report("models", status, &failure);
    else if (common.json)
        print_json(models);
    else
        print_text(models);
    convoy_models_free(models);
    return exit_status;
}
