/* The steps of `convoy bench --sweep` and `--compare`. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include "client/commands/sweep.h"
#include "client/data/output_file.h"
#include "client/lib/failure.h"

static int print_document(cJSON *document, struct convoy_failure *failure)
{
    char *text = document ? cJSON_Print(document) : NULL;
    if (text)
        puts(text);
    cJSON_free(text);
    cJSON_Delete(document);
    return text ? 0 : client_fail_with(failure, -ENOMEM, "memory is out");
}

static int exit_status_of(const struct client_sweep *sweep)
{
    bool answered = false, errors = *sweep->ended != '\0';
    for (size_t i = 0; i < sweep->count; i++) {
        answered |= sweep->points[i].result.latency.count > 0;
        errors |= client_sweep_errors(&sweep->points[i]) > 0;
    }
    return !answered ? CLIENT_EXIT_SERVER : errors ? CLIENT_EXIT_IMAGE : CLIENT_EXIT_OK;
}

/* Prints, and writes the page. Returns the exit status. */
static int report(const struct client_bench_arguments *arguments, const struct client_sweep *sweep)
{
    struct convoy_failure failure;
    int status = 0;
    if (arguments->common.json)
        status = print_document(client_sweep_to_json(sweep), &failure);
    else
        client_sweep_print_end(sweep);
    fflush(stdout); /* the page may go to the same place */
    if (status == 0 && arguments->report)
        status = client_output_file_write(arguments->report, client_sweep_page_write, sweep, &failure);
    return status ? client_report("bench", status, &failure) : exit_status_of(sweep);
}

int client_sweep_command(const struct client_bench_arguments *arguments, const struct client_bench_set *set)
{
    struct client_sweep sweep;
    struct convoy_failure failure;
    int signal, exit_status = CLIENT_EXIT_OK;
    int status = client_sweep_run(arguments, set, arguments->common.json ? NULL : client_sweep_print_point,
                                  &sweep, &signal, &failure);
    if (status)
        exit_status = client_report("bench", status, &failure);
    else if (sweep.count)
        exit_status = report(arguments, &sweep);
    if (status == 0 && signal)
        fprintf(stderr, "convoy bench: interrupted; %zu of %zu loads were measured%s\n", sweep.count,
                sweep.planned,
                sweep.count == 0    ? ", there is no report"
                : arguments->report ? ", the report has them"
                                    : "");
    client_sweep_clear(&sweep);
    if (status == 0 && signal) {
        fflush(stdout);
        raise(signal); /* with its default action: who waits sees how convoy ended */
    }
    return exit_status;
}

int client_sweep_compare_command(const struct client_bench_arguments *arguments)
{
    struct client_sweep first = {0}, second = {0};
    struct convoy_failure failure;
    struct client_sweep_comparison comparison = {.first = &first,
                                                 .second = &second,
                                                 .first_name = arguments->paths[0],
                                                 .second_name = arguments->paths[1]};
    int status = client_sweep_read(arguments->paths[0], &first, &failure);
    if (status == 0)
        status = client_sweep_read(arguments->paths[1], &second, &failure);
    if (status == 0) {
        client_sweep_match(&comparison);
        if (arguments->common.json)
            status = print_document(client_sweep_compare_json(&comparison), &failure);
        else
            client_sweep_compare_print(&comparison);
        fflush(stdout);
    }
    if (status == 0 && arguments->report)
        status = client_output_file_write(arguments->report, client_sweep_compare_page_write, &comparison,
                                          &failure);
    client_sweep_clear(&first);
    client_sweep_clear(&second);
    if (status == 0)
        return CLIENT_EXIT_OK;
    client_report("bench", status, &failure);
    return CLIENT_EXIT_IMAGE;
}
