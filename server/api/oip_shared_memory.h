/* The system shared memory extension of the Open Inference Protocol, as Triton's clients speak it: which
 * regions (server/inference/shared_memory.h) are registered is asked for and changed here. Handlers of
 * routes: server/http/route.h says what they return. */
#ifndef CONVOY_SERVER_OIP_SHARED_MEMORY_H
#define CONVOY_SERVER_OIP_SHARED_MEMORY_H

#include <stdbool.h>

struct convoy_request;

/* "Local clients only" below: server/http/local_client.h. A region's object is named in this machine's
 * namespace, and its registration makes the daemon read and write it, so only clients on this machine may. */

/* GET .../status and GET .../region/{region}/status. */
bool convoy_oip_shared_memory_status(struct convoy_request *request);

/* POST .../region/{region}/register; the body is {"key": "/name", "offset": 0, "byte_size": n}, other members
 * are ignored. Local clients only. */
bool convoy_oip_shared_memory_register(struct convoy_request *request);

/* POST .../region/{region}/unregister and POST .../unregister, which is all. Local clients only. */
bool convoy_oip_shared_memory_unregister(struct convoy_request *request);

#endif
