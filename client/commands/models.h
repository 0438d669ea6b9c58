/* `convoy models`: lists a server's models. */
#ifndef CONVOY_CLIENT_MODELS_H
#define CONVOY_CLIENT_MODELS_H

/* argv[0] is the command's name. Returns the exit status. */
int client_models_command(int argc, char **argv);

#endif
