/* `convoy stats`: what a server has counted since its start. */
#include "client/commands/stats.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/failure.h"
#include "client/lib/http.h"

#define PATIENCE_MS 30000L

static const char help[] =
    "Usage: convoy stats [OPTION]... [MODEL]\n"
    "Shows what a convoyd has counted since its start, for every version of its models that is READY, or of\n"
    "one model: requests that were answered 200 (success) or otherwise (fail), images, batches, the mean "
    "size\n"
    "of a batch, and the mean times in microseconds: of a request, of an image's wait in the queue, and of "
    "a\n"
    "batch's input, compute and output; and when a batch last finished, in local time. Where nothing was\n"
    "counted stands '-'.\n"
    "\n"
    "  --batches        show the same for each batch size, and images/s: those that the device computes in "
    "a\n"
    "                   second in batches of that size, one batch after the other\n"
    "  --model NAME     the same as MODEL\n"
    "  --version V      one version of the model\n"
    "  --json           print the server's own answer, with everything in it\n"
    "  --url URL        the server (default: $CONVOY_URL, else http://127.0.0.1:8080)\n" CLIENT_TLS_HELP "\n"
    "Exit status: 0 shown, 1 the output cannot be written, 2 wrong command line, 3 no server, 4 the server\n"
    "refused (there is no such model, or it is not READY), or what answers is no convoyd.\n"
    "\n"
    "  convoy stats\n"
    "  convoy stats cifar10-resnet --batches\n";

static int take(int letter, const char *value, void *context, struct convoy_failure *failure)
{
    struct client_stats_arguments *arguments = context;
    (void)letter, (void)value, (void)failure;
    arguments->batches = true;
    return 0;
}

int client_stats_arguments(int argc, char **argv, struct client_stats_arguments *arguments,
                           struct convoy_failure *failure)
{
    static const struct option options[] = {
        CLIENT_COMMON_OPTIONS, CLIENT_MODEL_OPTIONS, {"batches", no_argument, NULL, 'b'}, {0}};
    struct client_common *common = &arguments->common;
    *arguments = (struct client_stats_arguments){0};
    int first = client_arguments(argc, argv, options, common, take, arguments, failure);
    arguments->help = first == 0;
    if (first <= 0)
        return first;
    if (client_take_model(argc, argv, first, common, failure) != 0)
        return -EINVAL;
    if (common->version && !common->model)
        return client_fail_with(failure, -EINVAL, "--version needs a model");
    if (common->version && !*common->version)
        return client_fail_with(failure, -EINVAL, "the model's version is empty");
    return common->model ? client_check_model_name(common->model, failure) : 0;
}

char *client_stats_path(const struct client_stats_arguments *arguments)
{
    const struct client_common *common = &arguments->common;
    if (!common->model)
        return strdup("/v2/models/stats");
    char *path = NULL, *version = NULL;
    char *model = curl_easy_escape(NULL, common->model, 0);
    if (common->version)
        version = curl_easy_escape(NULL, common->version, 0);
    if (model && (version || !common->version) &&
        asprintf(&path, "/v2/models/%s/stats%s%s", model, version ? "?version=" : "",
                 version ? version : "") < 0)
        path = NULL;
    curl_free(model);
    curl_free(version);
    return path;
}

static void print_json(const struct client_response *response)
{
    fwrite(response->text, 1, response->size, stdout);
    if (response->text[response->size - 1] != '\n')
        putchar('\n');
}

/* Requests and prints the statistics. Returns 0 or a code for client_report. */
static int show(struct client_http *http, const struct client_stats_arguments *arguments,
                struct convoy_failure *failure)
{
    struct client_response response;
    struct client_server_stats *stats = NULL;
    struct client_terminal terminal = client_terminal_open(stdout);
    char *path = client_stats_path(arguments);
    if (!path)
        return client_fail_with(failure, -ENOMEM, "memory is out");
    int status = client_http_get(http, path, PATIENCE_MS, &response, failure);
    free(path);
    if (status == 0)
        status = client_server_stats_read(&response, &stats, failure);
    if (status)
        return status;
    if (arguments->common.json)
        print_json(&response);
    else
        client_stats_print_text(stdout, &terminal, stats, arguments->batches);
    client_server_stats_free(stats);
    if (fflush(stdout) || ferror(stdout))
        return client_fail_with(failure, -EIO, "standard output cannot be written: %s", strerror(errno));
    return 0;
}

int client_stats_command(int argc, char **argv)
{
    struct client_stats_arguments arguments;
    struct client_http *http = NULL;
    struct convoy_failure failure;
    int status = client_stats_arguments(argc, argv, &arguments, &failure);
    if (status == 0 && arguments.help) {
        fputs(help, stdout);
        return CLIENT_EXIT_OK;
    }
    if (status == 0)
        status = client_http_open(arguments.common.url, &http, &failure);
    if (status == 0)
        status = show(http, &arguments, &failure);
    client_http_close(http);
    return status ? client_report("stats", status, &failure) : CLIENT_EXIT_OK;
}
