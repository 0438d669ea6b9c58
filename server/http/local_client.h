/* Which clients are on this machine. */
#ifndef CONVOY_SERVER_LOCAL_CLIENT_H
#define CONVOY_SERVER_LOCAL_CLIENT_H

#include <stdbool.h>

struct convoy_request;

/* The connection's peer has a loopback address or a Unix socket, and is no trusted proxy
 * (http.trusted_proxies), whatever its PROXY header says, and no header says that a proxy stands between
 * (X-Forwarded-For, Forwarded, Via, X-Real-IP). The functions here are called on the request's HTTP thread,
 * or while it is suspended. */
bool convoy_client_is_direct(const struct convoy_request *request);

/* The same, and the client is no web page in a browser (it sends no Origin). Endpoints that make the daemon
 * read, write or log on a client's behalf answer only such clients. A proxy on this machine that adds none of
 * these headers makes all its clients look local. */
bool convoy_client_is_local(const struct convoy_request *request);

#endif
