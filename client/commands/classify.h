/* The arguments of `convoy classify`, apart from its doing so that they can be tested. */
#ifndef CONVOY_CLIENT_CLASSIFY_H
#define CONVOY_CLIENT_CLASSIFY_H

#include "client/commands/command.h"

struct client_classify_arguments {
    struct client_common common;
    long top;
    bool profile;
    char *const *files; /* into argv */
    size_t file_count;
    bool help;
};

/* argv[0] is the command's name. 0 or -EINVAL with a sentence. */
int client_classify_arguments(int argc, char **argv, struct client_classify_arguments *arguments,
                              struct convoy_failure *failure);

/* The command: argv[0] is its name. Returns the exit status. */
int client_classify_command(int argc, char **argv);

#endif
