/* Parses the server's answers. Their content is not trusted: wrong types, missing members, numbers out of
 * range and counts that do not match are errors. Pure functions, any thread. */
#ifndef CONVOY_CLIENT_ANSWER_H
#define CONVOY_CLIENT_ANSWER_H

#include "client/lib/http.h"

/* Parses the answer to a classification of `images` images. Returns 0, -EREMOTEIO (the server's error is in
 * failure), -EPROTO (the answer is not a convoyd's) or -ENOMEM. The caller owns *answer, for
 * client_answer_discard. */
int client_answer_read(const struct client_response *response, size_t images, struct convoy_answer **answer,
                       struct convoy_failure *failure);

/* Parses and sorts the answer to GET /v2/models; errors as above. The caller owns *models, for
 * client_models_discard. */
int client_models_read(const struct client_response *response, struct convoy_models **models,
                       struct convoy_failure *failure);

/* The same for the answer to POST /v2/repository/index. */
int client_index_read(const struct client_response *response, struct convoy_models **models,
                      struct convoy_failure *failure);

/* Free what the functions above returned. Accept NULL. */
void client_answer_discard(struct convoy_answer *answer);
void client_models_discard(struct convoy_models *models);

#endif
