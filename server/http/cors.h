/* Pages of other sites that may read answers (http.cors_origins): the headers of the Fetch Standard, 3.2, and
 * preflights. It lets no client in: keys and roles are asked for as always, and what a loopback client may
 * change, no page of another site may.
 *
 * origins: the list of http.cors_origins, or NULL, which is none. origin: the header Origin, NULL without
 * one. Any thread. */
#ifndef CONVOY_SERVER_CORS_H
#define CONVOY_SERVER_CORS_H

#include <stdbool.h>

struct MHD_Response;

/* What Access-Control-Allow-Origin says: the origin itself, "*", or NULL, which is no header. */
const char *convoy_cors_allowed(char *const *origins, const char *origin);

/* The browser asks whether a page may send a request: OPTIONS with Access-Control-Request-Method (wanted,
 * NULL without it), from a page of an origin that is allowed. Such a request carries no key. */
bool convoy_cors_is_preflight(char *const *origins, const char *method, const char *origin,
                              const char *wanted);

/* Adds the headers of an answer; none where there are no origins. methods: what a preflight's answer allows;
 * NULL: it is the answer to something else. False when memory is out. */
bool convoy_cors_add_headers(char *const *origins, const char *origin, const char *methods,
                             struct MHD_Response *response);

#endif
