/* The model configuration extension of the Open Inference Protocol, as Triton speaks it:
 * https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_model_configuration.md
 *
 * The members are those of Triton's ModelConfig (model_config.proto) that say something true of convoyd. */
#ifndef CONVOY_SERVER_OIP_CONFIG_H
#define CONVOY_SERVER_OIP_CONFIG_H

#include "server/http/request.h"

#include <stdbool.h>

bool convoy_oip_config(struct convoy_request *request);

#endif
