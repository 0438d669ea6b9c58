/* An instance of libmicrohttpd for each HTTP thread, and what it calls for a connection and its requests, on
 * that thread: the way of a request from its first line to the end of its answer. */
#ifndef CONVOY_SERVER_HTTP_LIBRARY_H
#define CONVOY_SERVER_HTTP_LIBRARY_H

#include "engine/base/error.h"
#include "server/http/http_thread.h"

/* See convoy_http_open_library. The instance has no threads: the caller drives it. */
int convoy_http_library_open(struct convoy_http_thread *thread, struct convoy_error *error);

#endif
