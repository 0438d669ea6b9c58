/* Inference with tensors: POST /v2/models/NAME[/versions/V]/infer and /v1/models/NAME:predict. See
 * docs/http.md. */
#ifndef CONVOY_SERVER_OIP_INFER_H
#define CONVOY_SERVER_OIP_INFER_H

#include "server/http/request.h"

#include <stdbool.h>

/* Handlers of routes (route.h). */
bool convoy_oip_infer(struct convoy_request *request);
bool convoy_v1_predict(struct convoy_request *request);

struct convoy_oip_infer;
void convoy_oip_infer_drop(struct convoy_oip_infer *infer); /* with its request; NULL is allowed */

#endif
