/* The index of the model repository extension of the Open Inference Protocol, as Triton speaks it:
 * https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_model_repository.md
 *
 * Loading and unloading by request is not served: models are those found at start. */
#ifndef CONVOY_SERVER_V2_REPOSITORY_H
#define CONVOY_SERVER_V2_REPOSITORY_H

#include "server/request.h"

#include <stdbool.h>

/* The body is empty or {"ready": true} for those that are READY alone; other members are passed over. */
bool convoy_v2_repository_index(struct convoy_request *request);

#endif
