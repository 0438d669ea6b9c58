/* The access log: a line for each answer, or for some of them (log.access). It goes where all lines go
 * (engine/base/log.h), at level info; an answer that it leaves out shows at level debug. One of status 500 is
 * a warning, also when the log is off, then at most one a second. No field holds what a client made up but
 * its request id, of which request_id.h bounds the characters. A key is never shown, its name is. */
#ifndef CONVOY_SERVER_ACCESS_LOG_H
#define CONVOY_SERVER_ACCESS_LOG_H

#include "server/config/config.h"

#include <stdint.h>

struct MHD_Connection;
struct convoy_request;

/* An answer. */
struct convoy_access {
    struct MHD_Connection *mhd;           /* NULL: not known */
    const struct convoy_request *request; /* NULL: it was answered before it was one */
    int status;
    uint64_t sent; /* bytes of the answer's body */
};

/* Which answers get a line, from now on. Any time, any thread. */
void convoy_access_log_configure(enum convoy_access_log which);

/* On the connection's HTTP thread, which it never keeps waiting for the reader of the log: a line for which
 * there is no room is lost. With CONVOY_ACCESS_SAMPLED one answer a second of each class of status (2xx, 4xx,
 * 5xx) is written. A line's `unwritten` counts those of its class that were left out or lost since. */
void convoy_access_log(const struct convoy_access *access);

#endif
