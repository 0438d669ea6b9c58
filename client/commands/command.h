/* Shared by all commands of `convoy`: exit statuses and the parsing of arguments. */
#ifndef CONVOY_CLIENT_COMMAND_H
#define CONVOY_CLIENT_COMMAND_H

#include <getopt.h>

#include "client/lib/convoy.h"

enum client_exit {
    CLIENT_EXIT_OK = 0,
    CLIENT_EXIT_IMAGE = 1,     /* an image or file failed; the others were processed */
    CLIENT_EXIT_USAGE = 2,     /* the command line is wrong; nothing was sent */
    CLIENT_EXIT_NO_SERVER = 3, /* no server answers at the URL */
    CLIENT_EXIT_SERVER = 4,    /* the server answered with an error, or it is not a convoyd */
};

/* Options of every command. */
struct client_common {
    const char *url;     /* --url, else $CONVOY_URL, else http://127.0.0.1:8080 */
    const char *model;   /* --model, NULL for the server's default */
    const char *version; /* --version, NULL for the highest */
    bool json;           /* --json */
};

/* Options that secure https:// (client_http_secure); client_arguments() takes them over. */
enum { CLIENT_CACERT = 1000, CLIENT_CERT, CLIENT_KEY, CLIENT_INSECURE };

/* The lines of these options in a command's help. */
#define CLIENT_TLS_HELP                                                                                      \
    "  --cacert FILE    https: the authorities to trust, in place of the system's\n"                         \
    "  --cert FILE      https: this client's certificate\n"                                                  \
    "  --key FILE       https: its key, where it is not in the same file\n"                                  \
    "  --insecure       https: trust any server, for tests\n"

/* The long options of struct client_common, for the option table of a command. */
#define CLIENT_COMMON_OPTIONS                                                                                \
    {"url", required_argument, NULL, 'u'}, {"json", no_argument, NULL, 'j'},                                 \
        {"cacert", required_argument, NULL, CLIENT_CACERT}, {"cert", required_argument, NULL, CLIENT_CERT},  \
        {"key", required_argument, NULL, CLIENT_KEY}, {"insecure", no_argument, NULL, CLIENT_INSECURE},      \
    {                                                                                                        \
        "help", no_argument, NULL, 'h'                                                                       \
    }
#define CLIENT_MODEL_OPTIONS                                                                                 \
    {"model", required_argument, NULL, 'm'},                                                                 \
    {                                                                                                        \
        "version", required_argument, NULL, 'v'                                                              \
    }

/* Called by client_arguments for each option that is not a common one. Returns 0, or -EINVAL with a message.
 */
typedef int client_take_option(int letter, const char *value, void *context, struct convoy_failure *failure);

/* Parses the arguments after the command's name, argv[0]: common options into common, the command's own
 * through take. options ends with a zeroed entry. Returns the index of the first operand in argv (getopt
 * moves operands to the end), 0 for --help, or -EINVAL with a message. Not thread-safe. */
int client_arguments(int argc, char **argv, const struct option *options, struct client_common *common,
                     client_take_option *take, void *context, struct convoy_failure *failure);

/* Parses an integer from least to most; name is the option's, for the message. Returns 0 or -EINVAL. */
int client_read_whole(const char *name, const char *text, long least, long most, long *value,
                      struct convoy_failure *failure);

/* Parses a decimal number from least to most. Returns 0 or -EINVAL. */
int client_read_decimal(const char *name, const char *text, double least, double most, double *value,
                        struct convoy_failure *failure);

/* Checks that name can be a path segment; the server checks whether the model exists. Returns 0 or -EINVAL.
 */
int client_check_model_name(const char *name, struct convoy_failure *failure);

/* Takes the argument at `first`, if there is one, as the model's name in place of --model. -EINVAL where both
 * name one, or where there are more arguments. */
int client_take_model(int argc, char **argv, int first, struct client_common *common,
                      struct convoy_failure *failure);

/* Prints failure on standard error, with advice where there is some, and returns the exit status for code. */
int client_report(const char *command, int code, const struct convoy_failure *failure);

#endif
