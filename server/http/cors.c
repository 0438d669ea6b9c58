#include "server/http/cors.h"

#include <microhttpd.h>
#include <stddef.h>
#include <string.h>

/* Seconds for which a browser remembers a preflight's answer. */
#define REMEMBERED "600"

const char *convoy_cors_allowed(char *const *origins, const char *origin)
{
    for (; origin != NULL && origins != NULL && *origins != NULL; origins++)
        if (strcmp(*origins, "*") == 0 || strcmp(*origins, origin) == 0)
            return *origins;
    return NULL;
}

bool convoy_cors_is_preflight(char *const *origins, const char *method, const char *origin,
                              const char *wanted)
{
    return strcmp(method, MHD_HTTP_METHOD_OPTIONS) == 0 && wanted != NULL &&
           convoy_cors_allowed(origins, origin) != NULL;
}

static bool add(struct MHD_Response *response, const char *name, const char *value)
{
    return MHD_add_response_header(response, name, value) == MHD_YES;
}

static bool add_of_preflight(struct MHD_Response *response, const char *methods)
{
    return add(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_METHODS, methods) &&
           add(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_HEADERS,
               "Authorization, Content-Type, Content-Encoding, Inference-Header-Content-Length, "
               "X-Request-Id, traceparent") &&
           add(response, MHD_HTTP_HEADER_ACCESS_CONTROL_MAX_AGE, REMEMBERED);
}

bool convoy_cors_add_headers(char *const *origins, const char *origin, const char *methods,
                             struct MHD_Response *response)
{
    if (origins == NULL || origins[0] == NULL)
        return true;
    bool every = strcmp(origins[0], "*") == 0;
    /* What a cache keeps for one origin is of no use to another, nor to a request without one. */
    if (!every && !add(response, MHD_HTTP_HEADER_VARY, "Origin"))
        return false;
    const char *allowed = convoy_cors_allowed(origins, origin);
    if (allowed == NULL)
        return true;
    if (!add(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_ORIGIN, allowed) ||
        !add(response, MHD_HTTP_HEADER_ACCESS_CONTROL_EXPOSE_HEADERS,
             "Inference-Header-Content-Length, Retry-After, X-Request-Id, traceparent"))
        return false;
    /* Client certificates are such credentials. Never for every origin (Fetch Standard, 3.2.5). */
    if (!every && !add(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_CREDENTIALS, "true"))
        return false;
    return methods == NULL || add_of_preflight(response, methods);
}
