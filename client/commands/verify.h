/* `convoy verify`: whether a server answers as recorded beside the model. */
#ifndef CONVOY_CLIENT_VERIFY_H
#define CONVOY_CLIENT_VERIFY_H

#include "client/commands/command.h"

struct client_verify_arguments {
    struct client_common common; /* model: the operand, or --model */
    const char *models;          /* --models: the folder of the models, where their records are */
    double tolerance;            /* --tolerance, below 0: the record's */
    bool help;
};

/* argv[0] is the command's name. Returns 0, or -EINVAL with a sentence. */
int client_verify_arguments(int argc, char **argv, struct client_verify_arguments *arguments,
                            struct convoy_failure *failure);

/* Runs the command; argv[0] is its name. Returns the exit status. */
int client_verify_command(int argc, char **argv);

#endif
