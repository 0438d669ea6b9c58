/* The JSON that /classify answers with. */
#ifndef CONVOY_SERVER_CLASSIFY_ANSWER_H
#define CONVOY_SERVER_CLASSIFY_ANSWER_H

#include "engine/base/json_writer.h"
#include "server/inference/class_map.h"
#include "server/inference/inference_request.h"

/* The status of the answer: 200 if any image was classified, else that of the first image. */
int convoy_classify_status(const struct convoy_inference_request *inference);

/* How many bytes it takes for each image, about. */
uint64_t convoy_classify_row_bytes(const struct convoy_prediction_rule *rule,
                                   const struct convoy_model_shape *shape);

/* Appends the answer. map: of the request's only picture; NULL: none was asked for. total_us: since the
 * body's last byte. */
void convoy_classify_write(const struct convoy_inference_request *inference,
                           const struct convoy_class_map_picture *map, uint64_t total_us,
                           struct convoy_json_writer *json);

#endif
