/* The steps of `convoy bench`: one load, a sweep, a comparison. */
#ifndef CONVOY_CLIENT_BENCH_COMMAND_H
#define CONVOY_CLIENT_BENCH_COMMAND_H

/* Runs the command; argv[0] is its name. Returns the exit status. */
int client_bench_command(int argc, char **argv);

#endif
