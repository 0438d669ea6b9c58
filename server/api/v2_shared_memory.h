/* The system shared memory extension of the Open Inference Protocol, as Triton's clients speak it: which
 * regions (server/inference/shared_memory.h) are registered is asked for and changed here. Handlers of
 * routes: server/http/route.h says what they return. */
#ifndef CONVOY_SERVER_V2_SHARED_MEMORY_H
#define CONVOY_SERVER_V2_SHARED_MEMORY_H

#include <stdbool.h>

struct convoy_request;

/* The client's address is a loopback address, and it is neither a browser's page (it sends no Origin) nor one
 * whom a proxy speaks for (no X-Forwarded-For, Forwarded, Via, X-Real-IP). An object is named in this
 * machine's namespace, and whoever registers one makes the daemon read and write it: only clients on this
 * machine may. A proxy on this machine that adds none of these headers makes all its clients look so. */
bool convoy_v2_client_is_local(const struct convoy_request *request);

/* GET .../status and GET .../region/{region}/status. */
bool convoy_v2_shared_memory_status(struct convoy_request *request);

/* POST .../region/{region}/register; the body is {"key": "/name", "offset": 0, "byte_size": n}, other members
 * are ignored. Local clients only. */
bool convoy_v2_shared_memory_register(struct convoy_request *request);

/* POST .../region/{region}/unregister and POST .../unregister, which is all. Local clients only. */
bool convoy_v2_shared_memory_unregister(struct convoy_request *request);

#endif
