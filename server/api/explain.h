/* ?explain=cam and ?class= of /classify: where in the picture the network found a class. On the request's
 * HTTP thread. */
#ifndef CONVOY_SERVER_API_EXPLAIN_H
#define CONVOY_SERVER_API_EXPLAIN_H

#include "engine/base/json_writer.h"
#include "server/http/request.h"
#include "server/inference/inference_request.h"

/* What the query asks for, as struct convoy_slot's map. False with refusal set. */
bool convoy_explain_read(struct convoy_request *request, uint32_t *map);

/* May a request of so many pictures have such a map of view's model? False with refusal set. */
bool convoy_explain_check(struct convoy_request *request, const struct convoy_model_view *view, size_t count,
                          uint32_t map);

/* Counts the request among those that are under way (class_map.h). False with refusal set. */
bool convoy_explain_take(struct convoy_request *request, uint32_t map);

/* Writes the key "explanation" and its value into the result of sample i, which was computed. */
void convoy_explain_write(const struct convoy_inference_request *inference, uint32_t i,
                          struct convoy_json_writer *json);

/* True when the client wants the map alone, as image/png. */
bool convoy_explain_wants_png(const struct convoy_request *request);
/* Answers with it. */
bool convoy_explain_answer(struct convoy_request *request, const struct convoy_inference_request *inference);

#endif
