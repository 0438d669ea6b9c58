/* The table of layers that `convoy classify --profile` and `convoy eval` print. */
#ifndef CONVOY_CLIENT_LAYER_TABLE_H
#define CONVOY_CLIENT_LAYER_TABLE_H

#include "client/lib/convoy.h"
#include "client/term/terminal.h"

/* Prints a line for each layer (time, share, name, kernel) and their sum on standard output. */
void client_layer_table_print(const struct client_terminal *terminal, const struct convoy_layer *layers,
                              size_t count);

#endif
