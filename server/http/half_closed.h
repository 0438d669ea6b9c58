/* The answer to a client that has closed its sending side and waits (http.half_close). libmicrohttpd 0.9.75
 * closes such a connection when it sees the end of the stream after it resumed. So the answer is made while
 * the connection is suspended, and written to the socket past the library; the connection is resumed when all
 * of it is sent, and closes.
 *
 * On the connection's HTTP thread. */
#ifndef CONVOY_SERVER_HALF_CLOSED_H
#define CONVOY_SERVER_HALF_CLOSED_H

#include "engine/base/list.h"

#include <stdbool.h>
#include <stddef.h>

struct MHD_Response;
struct convoy_request;

struct convoy_unsent {
    struct convoy_list link; /* in convoy_http_thread.senders, unless all is sent at once */
    struct convoy_request *request;
    size_t length, sent;
    char bytes[]; /* the header and the body */
};

/* True when http.half_close is set and the client of this suspended connection has closed its sending side,
 * but has not reset the connection. */
bool convoy_half_closed(const struct convoy_request *request);

/* Makes request->unsent of the response's headers and the body. False when memory is out. */
bool convoy_half_closed_answer(struct convoy_request *request, int status, struct MHD_Response *response,
                               const char *body, size_t length);

/* Sends what the socket takes now, without waiting. True when all is sent, or the client is gone. */
bool convoy_half_closed_send(struct convoy_unsent *unsent);

#endif
