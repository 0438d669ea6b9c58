/* Where the numbers of a report are from. */
#ifndef CONVOY_CLIENT_ORIGIN_H
#define CONVOY_CLIENT_ORIGIN_H

#include <stddef.h>

/* Writes "NAME VERSION" of the server, which it is asked for; "" when it does not tell. */
void client_origin_server(const char *url, char *text, size_t bytes);

/* Writes the arithmetic that the server computes a model in ("fp16"); "" when it does not tell. */
void client_origin_precision(const char *url, const char *model, const char *version, char *text,
                             size_t bytes);

/* Writes the URL without a user's name and password. */
void client_origin_url(const char *url, char *text, size_t bytes);

/* Writes the time now, local, with its distance from UTC; "" when there is none. */
void client_origin_date(char *text, size_t bytes);

/* Writes what this machine is: processor, how many of them, system. No name of a host, as reports are handed
 * on. */
void client_origin_machine(char *text, size_t bytes);

#endif
