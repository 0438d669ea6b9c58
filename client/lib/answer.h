/* Reads what the server said. Nothing in it is trusted: wrong types, missing members, numbers out of range
 * and counts that do not fit are errors, never crashes. Pure functions, any thread. */
#ifndef CONVOY_CLIENT_ANSWER_H
#define CONVOY_CLIENT_ANSWER_H

#include "client/lib/http.h"

/* The answer to a request of images images. 0, -EREMOTEIO (the server's error is in failure), -EPROTO (this
 * is no convoyd's answer) or -ENOMEM. */
int client_answer_read(const struct client_response *response, size_t images, struct convoy_answer **answer,
                       struct convoy_failure *failure);

/* The answer to GET /v2/models, sorted; errors as above. */
int client_models_read(const struct client_response *response, struct convoy_models **models,
                       struct convoy_failure *failure);

/* The answer to POST /v2/repository/index, sorted; errors as above. */
int client_index_read(const struct client_response *response, struct convoy_models **models,
                      struct convoy_failure *failure);

/* Free what the functions above gave; NULL is fine. */
void client_answer_discard(struct convoy_answer *answer);
void client_models_discard(struct convoy_models *models);

#endif
