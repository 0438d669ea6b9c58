/* `convoy models`: lists a server's models. */
#ifndef CONVOY_CLIENT_MODELS_H
#define CONVOY_CLIENT_MODELS_H

/* Runs the command; argv[0] is its name. Returns the exit status. */
int client_models_command(int argc, char **argv);

#endif
