/* The calls of Triton's CUDA shared memory extension, answered as by a Triton that was built without GPUs:
 * NVIDIA's examples begin by giving up all regions of both kinds, whichever they use. */
#ifndef CONVOY_SERVER_OIP_CUDA_SHARED_MEMORY_H
#define CONVOY_SERVER_OIP_CUDA_SHARED_MEMORY_H

#include "server/http/request.h"

#include <stdbool.h>

/* Handlers of routes (route.h). */
bool convoy_oip_cuda_shared_memory_status(struct convoy_request *request);     /* [], of a region 404 */
bool convoy_oip_cuda_shared_memory_register(struct convoy_request *request);   /* 400 */
bool convoy_oip_cuda_shared_memory_unregister(struct convoy_request *request); /* {}: there is none */

#endif
