#include "client/commands/command.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/failure.h"
#include "client/lib/http.h"
#include "client/term/terminal.h"

#define DEFAULT_URL "http://127.0.0.1:8080"

int client_arguments(int argc, char **argv, const struct option *options, struct client_common *common,
                     client_take_option *take, void *context, struct convoy_failure *failure)
{
    const char *environment = getenv("CONVOY_URL");
    struct client_tls tls = {0};
    int letter;
    memset(common, 0, sizeof *common);
    common->url = environment && *environment ? environment : DEFAULT_URL;
    opterr = 0;
    optind = 0; /* glibc: restart the scan */
    // NOLINTNEXTLINE(concurrency-mt-unsafe): the command line is read before there are threads
    while ((letter = getopt_long(argc, argv, ":h", options, NULL)) != -1) {
        int status = 0;
        switch (letter) {
        case 'u':
            common->url = optarg;
            break;
        case 'm':
            common->model = optarg;
            break;
        case 'v':
            common->version = optarg;
            break;
        case 'j':
            common->json = true;
            break;
        case CLIENT_CACERT:
            tls.authorities = optarg;
            break;
        case CLIENT_CERT:
            tls.certificate = optarg;
            break;
        case CLIENT_KEY:
            tls.key = optarg;
            break;
        case CLIENT_INSECURE:
            tls.insecure = true;
            break;
        case 'h':
            return 0;
        case ':':
            return client_fail_with(failure, -EINVAL, "the option '%s' needs a value", argv[optind - 1]);
        case '?':
            if (optopt > 0 && optopt < 128 && argv[optind - 1][1] != '-')
                return client_fail_with(failure, -EINVAL, "there is no option '-%c'", optopt);
            return client_fail_with(failure, -EINVAL, "there is no option '%s'", argv[optind - 1]);
        default:
            status = take(letter, optarg, context, failure);
            break;
        }
        if (status)
            return status;
    }
    client_http_secure(&tls);
    return optind;
}

int client_read_whole(const char *name, const char *text, long least, long most, long *value,
                      struct convoy_failure *failure)
{
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno || end == text || *end || number < least || number > most)
        return client_fail_with(failure, -EINVAL, "--%s is '%s', it must be a whole number from %ld to %ld",
                                name, text, least, most);
    *value = number;
    return 0;
}

int client_read_decimal(const char *name, const char *text, double least, double most, double *value,
                        struct convoy_failure *failure)
{
    char *end;
    double number = strtod(text, &end);
    if (end == text || *end || !(number >= least && number <= most))
        return client_fail_with(failure, -EINVAL, "--%s is '%s', it must be a number from %g to %g", name,
                                text, least, most);
    *value = number;
    return 0;
}

/* Names that would change the path: HTTP clients, curl included, remove "." and "..". */
int client_take_model(int argc, char **argv, int first, struct client_common *common,
                      struct convoy_failure *failure)
{
    if (first < argc && common->model)
        return client_fail_with(failure, -EINVAL, "both --model and '%s' name a model", argv[first]);
    if (first < argc)
        common->model = argv[first++];
    if (first < argc)
        return client_fail_with(failure, -EINVAL, "'%s' is one argument too many", argv[first]);
    return 0;
}

int client_check_model_name(const char *name, struct convoy_failure *failure)
{
    if (!*name)
        return client_fail_with(failure, -EINVAL, "the model's name is empty");
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return client_fail_with(failure, -EINVAL, "a model cannot be called '%s'", name);
    return 0;
}

int client_report(const char *command, int code, const struct convoy_failure *failure)
{
    fprintf(stderr, "convoy %s: ", command);
    client_print_safely(stderr, failure->message);
    if (failure->request_id[0]) {
        fprintf(stderr, " (status %d, request ", failure->status);
        client_print_safely(stderr, failure->request_id);
        fputc(')', stderr);
    }
    fputc('\n', stderr);
    switch (code) {
    case -EINVAL:
        fprintf(stderr, "`convoy %s --help` explains.\n", command);
        return CLIENT_EXIT_USAGE;
    case -ECONNREFUSED:
        fputs("Start one with ./run.sh or convoyd, or name another with --url or CONVOY_URL.\n", stderr);
        return CLIENT_EXIT_NO_SERVER;
    case -EREMOTEIO:
    case -EPROTO:
    case -ETIMEDOUT:
        return CLIENT_EXIT_SERVER;
    default:
        return CLIENT_EXIT_IMAGE;
    }
}
