/* `convoy health`: whether a server is ready, or lives, as an exit status. */
#ifndef CONVOY_CLIENT_HEALTH_H
#define CONVOY_CLIENT_HEALTH_H

/* argv[0] is the command's name. Returns an exit status of enum client_exit. */
int client_health_command(int argc, char **argv);

#endif
