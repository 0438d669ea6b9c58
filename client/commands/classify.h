/* `convoy classify`: sends files to a server and prints their classes. */
#ifndef CONVOY_CLIENT_CLASSIFY_H
#define CONVOY_CLIENT_CLASSIFY_H

#include "client/commands/command.h"

struct client_classify_arguments {
    struct client_common common;
    long top;
    double threshold; /* below 0: none is left out; 0: not given */
    bool profile;
    const char *explain; /* into argv: the file for the class activation map; NULL: there is none */
    char *const *files;  /* into argv */
    size_t file_count;
    bool help;
};

/* Parses the arguments; argv[0] is the command's name. Returns 0, or -EINVAL with a message. */
int client_classify_arguments(int argc, char **argv, struct client_classify_arguments *arguments,
                              struct convoy_failure *failure);

/* Runs the command; argv[0] is its name. Returns the exit status. */
int client_classify_command(int argc, char **argv);

#endif
