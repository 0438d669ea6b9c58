/* What can be asked without an image: metadata and health of the Open Inference Protocol (OIP)
 * (https://github.com/kserve/open-inference-protocol), the list of models, metrics. */
#ifndef CONVOY_SERVER_OIP_H
#define CONVOY_SERVER_OIP_H

#include "server/http/request.h"

#include <stdbool.h>

bool convoy_oip_server(struct convoy_request *request);
bool convoy_oip_live(struct convoy_request *request);
bool convoy_oip_ready(struct convoy_request *request);
bool convoy_oip_models(struct convoy_request *request);
bool convoy_oip_model(struct convoy_request *request);
bool convoy_oip_model_ready(struct convoy_request *request);
bool convoy_metrics_page(struct convoy_request *request);

#endif
