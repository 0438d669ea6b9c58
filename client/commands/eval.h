/* `convoy eval`: measures a model's accuracy on a labelled set. eval.c sends the set and counts,
 * eval_command.c parses the arguments, eval_report.c prints, eval_page.c writes the report in HTML. */
#ifndef CONVOY_CLIENT_EVAL_H
#define CONVOY_CLIENT_EVAL_H

#include <stdio.h>

#include "client/commands/command.h"
#include "client/data/data_set.h"
#include "client/stats/calibration.h"
#include "client/stats/layers.h"
#include "client/stats/mistakes.h"
#include "client/stats/score.h"

struct client_eval_arguments {
    struct client_common common;
    const char *path;
    const char *labels; /* NULL: found by the name of the images file */
    long connections;
    long batch;         /* images a request */
    long profiled;      /* number of images for which every layer is measured, after the accuracy pass */
    const char *report; /* where the page goes; NULL: none */
    bool csv;
    bool help;
};

/* Parses the arguments; argv[0] is the command's name. Returns 0, or -EINVAL with a message. */
int client_eval_arguments(int argc, char **argv, struct client_eval_arguments *arguments,
                          struct convoy_failure *failure);

struct client_eval_result {
    struct client_score score;
    struct client_calibration calibration; /* of the answers that the score counts */
    struct client_mistakes mistakes;       /* with arguments->report only */
    char model[128], version[64], device[64];
    size_t failed;            /* images that the server could not classify; not counted in the score */
    char failed_sample[1024]; /* the error of one of them */
    size_t requests;
    size_t waits;                /* how often a request was refused with 503 and repeated */
    struct convoy_timing timing; /* sums over the requests */
    double elapsed_s;            /* of the accuracy pass, without the measuring of layers */
    struct client_layer_means layers;
    char layers_problem[512]; /* why layers contains fewer images than requested; "" otherwise */
};

/* Classifies the whole set over several connections. A request that is refused with 503 is repeated after its
 * Retry-After, for at most a minute; any other failure of a request ends the run. Then measures the layers
 * for the first images that were classified; this pass is separate because profiling slows requests down.
 * Shows progress on standard error if that is a terminal. Call client_eval_clear also after an error. Returns
 * 0, or a negative errno with a message; -EINVAL when a class of the set is not one of the model's. */
int client_eval_run(const struct client_eval_arguments *arguments, struct client_data_set *set,
                    struct client_eval_result *result, struct convoy_failure *failure);

void client_eval_clear(struct client_eval_result *result);

/* Returns the result as --json prints it, for cJSON_free; NULL when out of memory. */
char *client_eval_json(const struct client_eval_result *result);

/* Print the report on standard output. */
void client_eval_print_text(const struct client_eval_result *result);
void client_eval_print_json(const struct client_eval_result *result);
void client_eval_print_csv(const struct client_eval_result *result);

/* More classes do not fit a chart of the page: the worst of them are shown. */
#define CLIENT_EVAL_PAGE_CLASSES    50
#define CLIENT_EVAL_PAGE_CONFUSIONS 50

/* What --report writes: one HTML file that stands alone. */
struct client_eval_page {
    const struct client_eval_result *result;
    const char *set;    /* the path that was evaluated */
    const char *server; /* the server's name and version, "" where it does not tell */
    const char *date;
};

/* Writes the page. Texts may come from anywhere. Returns 0 or -ENOMEM; whether out took everything is the
 * caller's to check. */
int client_eval_page_write(FILE *out, const struct client_eval_page *page);

/* Runs the command; argv[0] is its name. Returns the exit status. */
int client_eval_command(int argc, char **argv);

#endif
