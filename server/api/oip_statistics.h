/* The statistics extension of the Open Inference Protocol, as Triton speaks it:
 * https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_statistics.md
 *
 * success and fail count what convoyd_request_seconds counts, queue images as convoyd_queue_seconds does,
 * compute_input, compute_infer and compute_output batches as convoyd_{input,compute,output}_seconds do; over
 * the versions of a name the sums are those of /metrics. cache_hit and cache_miss count lookups in the
 * response cache: 0 where it is off.
 */
#ifndef CONVOY_SERVER_OIP_STATISTICS_H
#define CONVOY_SERVER_OIP_STATISTICS_H

#include "server/http/request.h"

#include <stdbool.h>

/* Every version of every model that is READY. */
bool convoy_oip_statistics(struct convoy_request *request);

/* The version of the path (or of ?version=), or every one of the model that is READY; refused like the
 * model's other pages when there is no such one or none is READY. */
bool convoy_oip_model_statistics(struct convoy_request *request);

#endif
