/* Parses answers as JSON and reads the errors in them. Their content is not trusted. Pure functions, any
 * thread. Part of libconvoy, but not of its interface. */
#ifndef CONVOY_CLIENT_JSON_H
#define CONVOY_CLIENT_JSON_H

#include <cjson/cJSON.h>

#include "client/lib/http.h"

/* Parses the whole answer as a JSON object, for any HTTP status. Returns 0 (the caller owns *document, for
 * cJSON_Delete) or -EPROTO. */
int client_json_parse(const struct client_response *response, cJSON **document,
                      struct convoy_failure *failure);

/* The same, but any status except 200 is an error: -EREMOTEIO (the server's message is in failure) or
 * -EPROTO.
 */
int client_json_parse_ok(const struct client_response *response, cJSON **document,
                         struct convoy_failure *failure);

/* The same for an answer that is a JSON array when its status is 200. */
int client_json_parse_list(const struct client_response *response, cJSON **document,
                           struct convoy_failure *failure);

/* Puts the error that a document with a status other than 200 contains into failure. Returns -EREMOTEIO; if
 * the document contains no error, -EPROTO with the sentence `without`. */
int client_json_error(const struct client_response *response, const cJSON *document, const char *without,
                      struct convoy_failure *failure);

/* Fills failure with "not a convoyd's answer" and `what` is wrong. Returns -EPROTO. */
int client_json_unexpected(const struct client_response *response, const char *what,
                           struct convoy_failure *failure);

/* Returns the string member of that name, which belongs to the document, or NULL. */
const char *client_json_text(const cJSON *object, const char *name);

/* Reads the member of that name; false when it is not a finite number of at least 0. */
bool client_json_number(const cJSON *object, const char *name, double *number);

#endif
