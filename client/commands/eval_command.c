/* `convoy eval`: its arguments and its steps. */
#include <errno.h>
#include <stdio.h>

#include "client/commands/eval.h"
#include "client/commands/origin.h"
#include "client/data/output_file.h"
#include "client/lib/failure.h"

static const char help[] =
    "Usage: convoy eval [OPTION]... PATH\n"
    "Measures how often a model is right. PATH is a folder or an archive (tar, also compressed, or zip)\n"
    "with one folder for each class, named like the model's labels or their index; or an IDX file of images\n"
    "(MNIST's format, plain or gzip), whose labels file lies beside it.\n"
    "\n"
    "  --connections C  how many requests at once (default 4)\n"
    "  --batch N        images a request (default 16)\n"
    "  --profile-images N\n"
    "                   time every layer for N of the images, after the accuracy pass; 0: none (default 20)\n"
    "  --labels FILE    the IDX file of labels, when its name is not that of the images with labels-idx1\n"
    "  --model NAME     which model (default: the server's)\n"
    "  --version V      which version of it (default: the highest)\n"
    "  --json           print one JSON document\n"
    "  --csv            print a line for each class with its row of the confusion matrix; then, after an\n"
    "                   empty line, one for each layer\n"
    "  --report FILE    also write a page (HTML) with charts and the surest mistakes; it stands alone\n"
    "  --url URL        the server (default: $CONVOY_URL, else http://127.0.0.1:8080)\n" CLIENT_TLS_HELP "\n"
    "Prints the accuracy of all and of each class with its standard error, the confusion matrix, the mean\n"
    "time that a request spent in each stage, and that of each layer. Requests that a busy server refuses\n"
    "are sent again.\n"
    "\n"
    "Exit status: 0 every image was classified, 1 some image or file failed, 2 wrong command line or a\n"
    "class that the model lacks, 3 no server, 4 the server refused.\n"
    "\n"
    "  convoy eval photos/\n"
    "  convoy eval --csv test.tar.gz >classes.csv\n"
    "  convoy eval --report accuracy.html photos/\n"
    "  convoy eval --model fashion t10k-images-idx3-ubyte.gz\n";

static int take(int letter, const char *value, void *context, struct convoy_failure *failure)
{
    struct client_eval_arguments *arguments = context;
    switch (letter) {
    case 'c':
        return client_read_whole("connections", value, 1, 1000, &arguments->connections, failure);
    case 'b':
        return client_read_whole("batch", value, 1, 1024, &arguments->batch, failure);
    case 'p':
        return client_read_whole("profile-images", value, 0, 100000, &arguments->profiled, failure);
    case 'l':
        arguments->labels = value;
        return 0;
    case 'r':
        if (!*value)
            return client_fail_with(failure, -EINVAL, "--report needs the name of a file");
        arguments->report = value;
        return 0;
    default:
        arguments->csv = true;
        return 0;
    }
}

int client_eval_arguments(int argc, char **argv, struct client_eval_arguments *arguments,
                          struct convoy_failure *failure)
{
    static const struct option options[] = {CLIENT_COMMON_OPTIONS,
                                            CLIENT_MODEL_OPTIONS,
                                            {"connections", required_argument, NULL, 'c'},
                                            {"batch", required_argument, NULL, 'b'},
                                            {"profile-images", required_argument, NULL, 'p'},
                                            {"labels", required_argument, NULL, 'l'},
                                            {"csv", no_argument, NULL, 's'},
                                            {"report", required_argument, NULL, 'r'},
                                            {0}};
    *arguments = (struct client_eval_arguments){.connections = 4, .batch = 16, .profiled = 20};
    int first = client_arguments(argc, argv, options, &arguments->common, take, arguments, failure);
    arguments->help = first == 0;
    if (first <= 0)
        return first;
    if (argc - first != 1)
        return client_fail_with(failure, -EINVAL, "name one folder, archive or IDX file to evaluate");
    if (arguments->csv && arguments->common.json)
        return client_fail_with(failure, -EINVAL, "--json and --csv exclude each other");
    arguments->path = argv[first];
    return 0;
}

static int write_page(FILE *out, const void *page)
{
    return client_eval_page_write(out, page);
}

static int write_report(const struct client_eval_arguments *arguments,
                        const struct client_eval_result *result, struct convoy_failure *failure)
{
    char server[128], date[64];
    client_origin_server(arguments->common.url, server, sizeof server);
    client_origin_date(date, sizeof date);
    const struct client_eval_page page = {result, arguments->path, server, date};
    fflush(stdout); /* the page may go to the same place */
    return client_output_file_write(arguments->report, write_page, &page, failure);
}

int client_eval_command(int argc, char **argv)
{
    struct client_eval_arguments arguments;
    struct client_eval_result result = {0};
    struct convoy_failure failure;
    struct client_data_set *set = NULL;
    int status = client_eval_arguments(argc, argv, &arguments, &failure);
    if (status == 0 && arguments.help) {
        fputs(help, stdout);
        return CLIENT_EXIT_OK;
    }
    if (status == 0)
        status = client_data_set_open(arguments.path, arguments.labels, &set, &failure);
    if (status == 0 && arguments.report)
        status = client_output_file_check(arguments.report, &failure);
    if (status == 0)
        status = client_eval_run(&arguments, set, &result, &failure);
    int exit_status = result.failed ? CLIENT_EXIT_IMAGE : CLIENT_EXIT_OK;
    if (status)
        exit_status = client_report("eval", status, &failure);
    else if (arguments.common.json)
        client_eval_print_json(&result);
    else if (arguments.csv)
        client_eval_print_csv(&result);
    else
        client_eval_print_text(&result);
    if (status == 0 && arguments.report) {
        /* The numbers are printed, whatever becomes of the page. */
        status = write_report(&arguments, &result, &failure);
        if (status)
            exit_status = client_report("eval", status, &failure);
    }
    client_eval_clear(&result);
    client_data_set_close(set);
    return exit_status;
}
