/* Which clients are on this machine. */
#ifndef CONVOY_SERVER_LOCAL_CLIENT_H
#define CONVOY_SERVER_LOCAL_CLIENT_H

#include <stdbool.h>

struct convoy_request;

/* The client's address is a loopback address, and the client is neither a web page in a browser (it sends no
 * Origin) nor behind a proxy (no X-Forwarded-For, Forwarded, Via, X-Real-IP). Endpoints that make the daemon
 * read, write or log on a client's behalf answer only such clients. A proxy on this machine that adds none of
 * these headers makes all its clients look local. On the request's HTTP thread, or while it is suspended. */
bool convoy_client_is_local(const struct convoy_request *request);

#endif
