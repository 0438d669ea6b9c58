/* The page at /, for people with a browser: its document and the files that it refers to, by relative URLs
 * alone. The page asks the endpoints like any other client, with the key that its user gives it. docs/web.md
 * explains it. Called on the HTTP thread of the request. */
#ifndef CONVOY_SERVER_WEB_PAGE_H
#define CONVOY_SERVER_WEB_PAGE_H

#include <stdbool.h>

struct convoy_request;

/* GET / */
bool convoy_web_page(struct convoy_request *request);
/* GET /web/{file}: 404 for a name that is no file of the page. */
bool convoy_web_file(struct convoy_request *request);

/* True if the value of If-None-Match (RFC 9110, 13.1.2) names the entity tag "DIGEST", or any: the client has
 * the file. A tag may be weak. Pure. */
bool convoy_web_has(const char *if_none_match, const char *digest);

#endif
