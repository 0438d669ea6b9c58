/* `convoy load` and `convoy unload`: what is asked for, apart from the asking. */
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

/* The path to which verb ("load" or "unload") is sent for the model, to be freed; NULL when memory is out. */
char *client_load_path(const char *model, const char *verb);

/* 0 when the answer says that it was done; -EREMOTEIO (the server's sentence is in failure) or -EPROTO. */
int client_load_read(const struct client_response *response, struct convoy_failure *failure);

/* The commands: argv[0] is its name. Returns the exit status. */
int client_load_command(int argc, char **argv);
int client_unload_command(int argc, char **argv);

#endif
