/* The table of routes: which function answers a request, by path and method.
 *
 * A row of the table is a path template and a method. In a template {model}, {version}, {region} and {file}
 * each stand for one segment that is not empty; of {model}:VERB the segment ends in the verb, whose colon may
 * be %3A. Paths are matched before percent-decoding, segment by segment, so an encoded slash never becomes a
 * separator. Any thread. */
#ifndef CONVOY_SERVER_ROUTE_H
#define CONVOY_SERVER_ROUTE_H

#include "server/config/role.h"

#include <stdbool.h>
#include <stddef.h>

/* Longer than any model name (128) and version (9 digits) in a repository, and than any name of a region of
 * shared memory (255): what does not fit is cut off, and names no model or region. */
#define CONVOY_PATH_MODEL_BYTES   136
#define CONVOY_PATH_VERSION_BYTES 24
#define CONVOY_PATH_REGION_BYTES  264
#define CONVOY_PATH_FILE_BYTES    32 /* longer than any name of a file of the page (server/web/files.h) */

enum convoy_method {
    CONVOY_GET,
    CONVOY_POST,
    CONVOY_GET_OR_POST, /* of a route, never of a request */
    CONVOY_OTHER_METHOD
};

struct convoy_request;

struct convoy_route {
    enum convoy_method method;
    const char *template;
    /* Called on the HTTP thread when the body is complete. Answers (response.h), or suspends the connection
     * (suspension.h) and is called again when it is resumed. False: memory is out, and the connection should
     * be closed. */
    bool (*handle)(struct convoy_request *request);
    bool takes_body;
    /* What a client needs to be let in; to change something by a route of both methods it needs admin. */
    enum convoy_role role;
};

struct convoy_path {
    char model[CONVOY_PATH_MODEL_BYTES];     /* decoded; "" where the template has none */
    char version[CONVOY_PATH_VERSION_BYTES]; /* the same */
    char region[CONVOY_PATH_REGION_BYTES];   /* the same */
    char file[CONVOY_PATH_FILE_BYTES];       /* the same */
};

/* The row of table (of count rows) whose template fits target, "/path?query" or the absolute form
 * "http://host/path?query"; NULL when none does. target may be NULL. */
const struct convoy_route *convoy_route_find(const struct convoy_route *table, size_t count,
                                             const char *target, struct convoy_path *path);

/* "GET" and "HEAD" (answered like GET, without the body) are CONVOY_GET. */
enum convoy_method convoy_method_of(const char *method);

/* True if the route takes requests of this method. */
bool convoy_route_takes(const struct convoy_route *route, enum convoy_method method);

/* The value of the Allow header for a route. */
const char *convoy_route_allow(const struct convoy_route *route);

#endif
