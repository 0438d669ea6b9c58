/* Triton's trace extension: which requests are traced (trace.h) is asked for and changed here. Handlers of
 * routes: route.h says what they return. */
#ifndef CONVOY_SERVER_OIP_TRACE_H
#define CONVOY_SERVER_OIP_TRACE_H

#include <stdbool.h>

struct convoy_request;

/* GET and POST /v2/trace/setting and /v2/models/{model}/trace/setting. A POST's body is an object of
 * trace_level
 * (["TIMESTAMPS"] or ["OFF"]), trace_rate and trace_count, as numbers or as text; null takes a setting back.
 */
bool convoy_oip_trace_setting(struct convoy_request *request);

#endif
