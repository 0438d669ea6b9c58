/* KServe's V1 protocol, besides what it shares with inference requests (oip_infer.h). See docs/http.md. */
#ifndef CONVOY_SERVER_V1_H
#define CONVOY_SERVER_V1_H

#include "engine/base/json_writer.h"
#include "server/http/request.h"
#include "server/inference/inference_request.h"

#include <stdbool.h>

/* GET /v1/models, a handler of routes (route.h). */
bool convoy_v1_models(struct convoy_request *request);

/* Appends {"predictions": [...]}: of each instance the network's output, nested as its shape says, or, where
 * there are several, an object of them by name. */
void convoy_v1_write(const struct convoy_inference_request *inference, struct convoy_json_writer *json);

#endif
