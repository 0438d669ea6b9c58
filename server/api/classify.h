/* POST /classify and /v2/models/NAME[/versions/V]/classify: from the request to its images and back to an
 * answer. */
#ifndef CONVOY_SERVER_CLASSIFY_H
#define CONVOY_SERVER_CLASSIFY_H

#include "server/http/request.h"

#include <stdbool.h>

/* A handler of routes (route.h). */
bool convoy_classify(struct convoy_request *request);

#endif
