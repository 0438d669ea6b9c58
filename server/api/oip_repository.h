/* The model repository extension of the Open Inference Protocol, as Triton speaks it:
 * https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_model_repository.md
 *
 * Loading and unloading by request is served with "model_control": "explicit"; otherwise they are answered
 * with 400 and how to change that. */
#ifndef CONVOY_SERVER_OIP_REPOSITORY_H
#define CONVOY_SERVER_OIP_REPOSITORY_H

#include "server/http/request.h"

#include <stdbool.h>

/* The body is empty or {"ready": true} for those that are READY alone; other members are passed over. */
bool convoy_oip_repository_index(struct convoy_request *request);

/* Looks through the folder and loads what the model's version_policy takes; answers when all of that is READY
 * (200, an empty object), or could not be loaded (400). Loading again is how changed files are taken over.
 * "parameters" that would replace the configuration or bring files are refused with 400. */
bool convoy_oip_repository_load(struct convoy_request *request);

/* Answers when no request is bound to the model any more from now on; those that are get their answers.
 * Unloading what is not loaded is no error. */
bool convoy_oip_repository_unload(struct convoy_request *request);

#endif
