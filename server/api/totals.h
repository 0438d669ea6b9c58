/* GET /totals: what the daemon does, over all models, for pages that draw curves (server/web). On the HTTP
 * thread of the request. */
#ifndef CONVOY_SERVER_TOTALS_H
#define CONVOY_SERVER_TOTALS_H

#include <stdbool.h>

struct convoy_request;

bool convoy_totals_page(struct convoy_request *request);

#endif
