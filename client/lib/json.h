/* An answer that should be a JSON object, and the errors that answers bring. Nothing in it is trusted. Pure
 * functions, any thread. Part of libconvoy, but not of its interface. */
#ifndef CONVOY_CLIENT_JSON_H
#define CONVOY_CLIENT_JSON_H

#include <cjson/cJSON.h>

#include "client/lib/http.h"

/* Reads the whole answer as a JSON object, whatever its status. 0 (*document is for cJSON_Delete) or -EPROTO.
 */
int client_json_parse(const struct client_response *response, cJSON **document,
                      struct convoy_failure *failure);

/* The same where any status but 200 is an error: -EREMOTEIO (the server's sentence is in failure) or -EPROTO.
 */
int client_json_parse_ok(const struct client_response *response, cJSON **document,
                         struct convoy_failure *failure);

/* The same where an answer of status 200 is a JSON array. */
int client_json_parse_list(const struct client_response *response, cJSON **document,
                           struct convoy_failure *failure);

/* The error that a document of another status than 200 carries: -EREMOTEIO, or -EPROTO with without, what is
 * wrong with the answer, when it has none. */
int client_json_error(const struct client_response *response, const cJSON *document, const char *without,
                      struct convoy_failure *failure);

/* Says that this is no convoyd's answer, and what is wrong with it; gives -EPROTO. */
int client_json_unexpected(const struct client_response *response, const char *what,
                           struct convoy_failure *failure);

/* The string of that name, or NULL; it belongs to the document. */
const char *client_json_text(const cJSON *object, const char *name);

/* The finite number of at least 0 of that name, or false. */
bool client_json_number(const cJSON *object, const char *name, double *number);

#endif
