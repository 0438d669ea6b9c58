/* `convoy load` and `convoy unload`: which models a server serves. */
#include "client/commands/load.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/failure.h"
#include "client/lib/json.h"
#include "client/term/terminal.h"

/* A server tries for minutes where loading kills its worker, and many models may come before this one. */
#define DEFAULT_TIMEOUT_S 600
#define MOST_TIMEOUT_S    86400

#define OPTIONS_HELP                                                                                         \
    "  --timeout S      wait for S seconds at most (default 600); the server goes on by itself\n"            \
    "  --json           print the server's own answer\n"                                                     \
    "  --url URL        the server (default: $CONVOY_URL, else http://127.0.0.1:8080)\n" CLIENT_TLS_HELP     \
    "\n"

static const char load_help[] =
    "Usage: convoy load [OPTION]... NAME\n"
    "Has a convoyd load the model NAME from its folder, as far as the model's version_policy goes, and\n"
    "waits until all of that is READY. What was READY before answers requests until then. Loading again\n"
    "is how changed files are taken over. The server's model_control must be \"explicit\".\n"
    "\n" OPTIONS_HELP
    "Exit status: 0 loaded, 1 the output cannot be written, 2 wrong command line, 3 no server, 4 the\n"
    "server could not load it (why is printed), refused, or did not answer in time.\n"
    "\n"
    "  convoy load cifar10-resnet\n";

static const char unload_help[] =
    "Usage: convoy unload [OPTION]... NAME\n"
    "Has a convoyd unload the model NAME: it gets no more requests, those that it has are answered, and\n"
    "then its weights are removed from the devices. The server's model_control must be \"explicit\".\n"
    "\n" OPTIONS_HELP
    "Exit status: 0 unloaded, or not loaded before, 1 the output cannot be written, 2 wrong command line,\n"
    "3 no server, 4 the server refused (there is no such model, say) or did not answer in time.\n"
    "\n"
    "  convoy unload cifar10-resnet\n";

static int take(int letter, const char *value, void *context, struct convoy_failure *failure)
{
    struct client_load_arguments *arguments = context;
    (void)letter;
    return client_read_whole("timeout", value, 1, MOST_TIMEOUT_S, &arguments->timeout_s, failure);
}

int client_load_arguments(int argc, char **argv, struct client_load_arguments *arguments,
                          struct convoy_failure *failure)
{
    static const struct option options[] = {
        CLIENT_COMMON_OPTIONS, {"timeout", required_argument, NULL, 't'}, {0}};
    *arguments = (struct client_load_arguments){.timeout_s = DEFAULT_TIMEOUT_S};
    int first = client_arguments(argc, argv, options, &arguments->common, take, arguments, failure);
    arguments->help = first == 0;
    if (first <= 0)
        return first;
    if (first == argc)
        return client_fail_with(failure, -EINVAL, "name a model");
    if (first + 1 < argc)
        return client_fail_with(failure, -EINVAL, "'%s' is one argument too many", argv[first + 1]);
    arguments->common.model = argv[first];
    return client_check_model_name(arguments->common.model, failure);
}

char *client_load_path(const char *model, const char *verb)
{
    char *path = NULL, *name = curl_easy_escape(NULL, model, 0);
    if (name && asprintf(&path, "/v2/repository/models/%s/%s", name, verb) < 0)
        path = NULL;
    curl_free(name);
    return path;
}

int client_load_read(const struct client_response *response, struct convoy_failure *failure)
{
    cJSON *document;
    int status = client_json_parse_ok(response, &document, failure);
    cJSON_Delete(document);
    return status;
}

static int print_done(const struct client_load_arguments *arguments, const char *verb,
                      const struct client_response *response, struct convoy_failure *failure)
{
    if (arguments->common.json) {
        fwrite(response->text, 1, response->size, stdout);
    } else {
        client_print_safely(stdout, arguments->common.model);
        puts(strcmp(verb, "load") == 0 ? " is loaded" : " is unloaded");
    }
    if (fflush(stdout) || ferror(stdout))
        return client_fail_with(failure, -EIO, "standard output cannot be written: %s", strerror(errno));
    return 0;
}

/* Sends the request and waits for the answer. Returns 0 or a code for client_report. */
static int ask(struct client_http *http, const struct client_load_arguments *arguments, const char *verb,
               struct convoy_failure *failure)
{
    static char header[] = "Content-Type: application/json";
    struct client_response response;
    struct client_request request = {.header = header, .body = "{}", .body_size = 2};
    request.path = client_load_path(arguments->common.model, verb);
    if (!request.path)
        return client_fail_with(failure, -ENOMEM, "memory is out");
    int status = client_http_post(http, &request, arguments->timeout_s * 1000, &response, failure);
    free(request.path);
    if (status == 0)
        status = client_load_read(&response, failure);
    return status ? status : print_done(arguments, verb, &response, failure);
}

static int run(int argc, char **argv, const char *help)
{
    struct client_load_arguments arguments;
    struct client_http *http = NULL;
    struct convoy_failure failure;
    int status = client_load_arguments(argc, argv, &arguments, &failure);
    if (status == 0 && arguments.help) {
        fputs(help, stdout);
        return CLIENT_EXIT_OK;
    }
    if (status == 0)
        status = client_http_open(arguments.common.url, &http, &failure);
    if (status == 0)
        client_http_prefer_admin_socket(http);
    if (status == 0)
        status = ask(http, &arguments, argv[0], &failure);
    client_http_close(http);
    return status ? client_report(argv[0], status, &failure) : CLIENT_EXIT_OK;
}

int client_load_command(int argc, char **argv)
{
    return run(argc, argv, load_help);
}

int client_unload_command(int argc, char **argv)
{
    return run(argc, argv, unload_help);
}
