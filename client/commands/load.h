/* `convoy load` and `convoy unload`. */
#ifndef CONVOY_CLIENT_LOAD_H
#define CONVOY_CLIENT_LOAD_H

#include "client/commands/command.h"
#include "client/lib/http.h"

struct client_load_arguments {
    struct client_common common; /* model: the operand */
    long timeout_s;              /* --timeout */
    bool help;
};

/* argv[0] is the command's name, "load" or "unload". 0 or -EINVAL with a sentence. */
int client_load_arguments(int argc, char **argv, struct client_load_arguments *arguments,
                          struct convoy_failure *failure);

/* Returns the request path of verb ("load" or "unload") for the model; the caller frees it. NULL when out of
 * memory. */
char *client_load_path(const char *model, const char *verb);

/* Reads the answer. Returns 0 on success, -EREMOTEIO (the server's message is in failure) or -EPROTO. */
int client_load_read(const struct client_response *response, struct convoy_failure *failure);

/* Run the command that argv[0] names. Return the exit status. */
int client_load_command(int argc, char **argv);
int client_unload_command(int argc, char **argv);

#endif
