/* What the commands of `convoy` share: exit statuses and reading their arguments. */
#ifndef CONVOY_CLIENT_COMMAND_H
#define CONVOY_CLIENT_COMMAND_H

#include <getopt.h>

#include "client/lib/convoy.h"

enum client_exit {
    CLIENT_EXIT_OK = 0,
    CLIENT_EXIT_IMAGE = 1,     /* some image or file failed; the others were dealt with */
    CLIENT_EXIT_USAGE = 2,     /* the command line is wrong; nothing was sent */
    CLIENT_EXIT_NO_SERVER = 3, /* nobody answers at the URL */
    CLIENT_EXIT_SERVER = 4,    /* the server answered with an error, or not as a convoyd does */
};

/* What every command takes. */
struct client_common {
    const char *url;     /* --url, else $CONVOY_URL, else http://127.0.0.1:8080 */
    const char *model;   /* --model, NULL for the server's default */
    const char *version; /* --version, NULL for the highest */
    bool json;           /* --json */
};

/* The long options of struct client_common, for a command's own table. */
#define CLIENT_COMMON_OPTIONS                                                                                \
    {"url", required_argument, NULL, 'u'}, {"json", no_argument, NULL, 'j'},                                 \
    {                                                                                                        \
        "help", no_argument, NULL, 'h'                                                                       \
    }
#define CLIENT_MODEL_OPTIONS                                                                                 \
    {"model", required_argument, NULL, 'm'},                                                                 \
    {                                                                                                        \
        "version", required_argument, NULL, 'v'                                                              \
    }

/* Called by client_arguments for each option that is none of the common ones: 0 or -EINVAL with a sentence.
 */
typedef int client_take_option(int letter, const char *value, void *context, struct convoy_failure *failure);

/* Reads the arguments after the command's name (argv[0] is that name) into common and, through take, the
 * command's own. options ends with a zeroed entry. Gives the index of the first operand in argv (getopt moves
 * operands to the end), or 0 when --help was asked for, or -EINVAL with a sentence. One thread. */
int client_arguments(int argc, char **argv, const struct option *options, struct client_common *common,
                     client_take_option *take, void *context, struct convoy_failure *failure);

/* Reads a whole number from least to most; name is the option's, for the sentence. 0 or -EINVAL. */
int client_read_whole(const char *name, const char *text, long least, long most, long *value,
                      struct convoy_failure *failure);

/* Reads a decimal number from least to most. 0 or -EINVAL. */
int client_read_decimal(const char *name, const char *text, double least, double most, double *value,
                        struct convoy_failure *failure);

/* Refuses what cannot be a part of a path: 0 or -EINVAL. Whether there is such a model the server knows. */
int client_check_model_name(const char *name, struct convoy_failure *failure);

/* Says failure on standard error, with what helps against it, and gives the exit status for code. */
int client_report(const char *command, int code, const struct convoy_failure *failure);

#endif
