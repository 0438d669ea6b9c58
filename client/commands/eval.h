/* Runs a labelled set through a server; the command's arguments and reports are elsewhere. */
#ifndef CONVOY_CLIENT_EVAL_H
#define CONVOY_CLIENT_EVAL_H

#include "client/commands/command.h"
#include "client/data/data_set.h"
#include "client/stats/layers.h"
#include "client/stats/score.h"

struct client_eval_arguments {
    struct client_common common;
    const char *path;
    const char *labels; /* NULL: by the images' name */
    long connections;
    long batch;    /* images a request */
    long profiled; /* of so many images every layer is timed, after the others are done */
    bool csv;
    bool help;
};

/* argv[0] is the command's name. 0 or -EINVAL with a sentence. */
int client_eval_arguments(int argc, char **argv, struct client_eval_arguments *arguments,
                          struct convoy_failure *failure);

struct client_eval_result {
    struct client_score score;
    char model[128], version[64], device[64];
    size_t failed;            /* images that the server could not classify: in no accuracy */
    char failed_sample[1024]; /* what was wrong with one of them */
    size_t requests;
    size_t waits;                /* how often a request was refused with 503 and sent again */
    struct convoy_timing timing; /* sums over the requests */
    double elapsed_s;            /* without the timing of layers */
    struct client_layer_means layers;
    char layers_problem[512]; /* why layers has fewer images than were asked for, or none: "" otherwise */
};

/* Classifies the whole set over several connections. A request that is refused with 503 is sent again after
 * its Retry-After, at most a minute long; any other failure of a request ends the run. Then the layers are
 * timed for the first images that could be classified, so that the pass before is not held up. Draws its
 * progress on standard error when that is a terminal. Give result to client_eval_clear also after an error. 0
 * or a negative errno with a sentence; -EINVAL when a class of the set is none of the model's. */
int client_eval_run(const struct client_eval_arguments *arguments, struct client_data_set *set,
                    struct client_eval_result *result, struct convoy_failure *failure);

void client_eval_clear(struct client_eval_result *result);

/* The reports, to standard output. */
void client_eval_print_text(const struct client_eval_result *result);
void client_eval_print_json(const struct client_eval_result *result);
void client_eval_print_csv(const struct client_eval_result *result);

/* The command: argv[0] is its name. Returns the exit status. */
int client_eval_command(int argc, char **argv);

#endif
