/* What the daemon answers to: the table of routes, and the end of a request. */
#ifndef CONVOY_SERVER_ROUTES_H
#define CONVOY_SERVER_ROUTES_H

#include "server/http/route.h"

#include <stddef.h>

extern const struct convoy_route convoy_routes[];
extern const size_t convoy_route_count;
/* The last of them are the page's: without web.enabled they are left out. */
extern const size_t convoy_page_route_count;

/* Those of them that health_listen answers: health and metrics. */
extern const struct convoy_route convoy_health_routes[];
extern const size_t convoy_health_route_count;

/* convoy_http_options.release: frees what the endpoints keep of a request (call.h). */
void convoy_routes_release(struct convoy_request *request);

#endif
