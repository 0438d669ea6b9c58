/* ?explain=cam and ?class= of /classify: where in the picture the network found a class. On the request's
 * HTTP thread. */
#ifndef CONVOY_SERVER_API_EXPLAIN_H
#define CONVOY_SERVER_API_EXPLAIN_H

#include "engine/base/json_writer.h"
#include "server/http/request.h"
#include "server/inference/class_map.h"

/* What the query asks for, as struct convoy_slot's map. False with refusal set. */
bool convoy_explain_read(struct convoy_request *request, uint32_t *map);

/* May a request of so many pictures have such a map of view's model? False with refusal set. */
bool convoy_explain_check(struct convoy_request *request, const struct convoy_model_view *view, size_t count,
                          uint32_t map);

/* Counts the request among those that are under way (class_map_quota.h). False with refusal set. */
bool convoy_explain_take(struct convoy_request *request, uint32_t map);

/* Writes the key "explanation" and its value into the result of the request's picture. */
void convoy_explain_write(const struct convoy_inference_request *inference,
                          const struct convoy_class_map_picture *picture, struct convoy_json_writer *json);

/* True when the client wants the map alone, as image/png. */
bool convoy_explain_wants_png(const struct convoy_request *request);
/* Answers with it. False when memory is out. */
bool convoy_explain_send(struct convoy_request *request, const struct convoy_class_map_picture *picture);

#endif
