/* What can be asked without an image: Open Inference Protocol metadata and health
 * (https://github.com/kserve/open-inference-protocol), the list of models, metrics. */
#ifndef CONVOY_SERVER_V2_H
#define CONVOY_SERVER_V2_H

#include "server/http/request.h"

#include <stdbool.h>

bool convoy_v2_server(struct convoy_request *request);
bool convoy_v2_live(struct convoy_request *request);
bool convoy_v2_ready(struct convoy_request *request);
bool convoy_v2_models(struct convoy_request *request);
bool convoy_v2_model(struct convoy_request *request);
bool convoy_v2_model_ready(struct convoy_request *request);
bool convoy_metrics_page(struct convoy_request *request);

#endif
