/* The OpenAPI description of all endpoints. */
#ifndef CONVOY_SERVER_OIP_OPENAPI_H
#define CONVOY_SERVER_OIP_OPENAPI_H

#include <stdbool.h>

struct convoy_request;

/* GET /v2/openapi.json: server/api/openapi.json, an OpenAPI 3.1 document of every route, embedded
 * in the program. A handler of a route: server/http/route.h says what it returns. */
bool convoy_oip_openapi(struct convoy_request *request);

#endif
