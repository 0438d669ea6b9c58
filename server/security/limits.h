/* Limits for each client: requests a second, images a second, requests at a time.
 *
 * A client has a token bucket for requests and one for images, each kept as one time: when the bucket will be
 * full again (the generic cell rate algorithm, ITU-T I.371, which is the leaky bucket without a timer). A
 * bucket that is full says nothing, so its place goes to another client.
 *
 * The number of images is known after the body is read. A request is therefore let in while the bucket of
 * images, which holds those of a second, has one, and may overdraw it: the client then waits until the debt
 * is paid, for an hour at most.
 *
 * The rates can change while clients are counted. After a change every bucket is full: a debt at another rate
 * would say nothing. Requests that are not answered count on.
 *
 * Memory: a table of 1,048,576 clients, 40 MiB, of which the kernel gives what is used; it does not grow. The
 * place of a client depends on a random number, and when all eight places where it could be are taken, the
 * client that is nearest to a full bucket is forgotten: it gets a full one. A client with a request that is
 * not answered keeps its place.
 *
 * Threads: any; one of 256 locks is held for some 50 ns. */
#ifndef CONVOY_SERVER_LIMITS_H
#define CONVOY_SERVER_LIMITS_H

#include "server/config/access_config.h"
#include "server/http/client_id.h"

#include <stdbool.h>
#include <stdint.h>

struct convoy_limits;

enum convoy_limit {
    CONVOY_LIMIT_NONE, /* none is exceeded */
    CONVOY_LIMIT_REQUESTS,
    CONVOY_LIMIT_IMAGES,
    CONVOY_LIMIT_CONCURRENT
};

/* True when config limits requests, images or concurrency. */
bool convoy_limits_wanted(const struct convoy_limit_config *config);

/* NULL when memory is out. config is copied. */
struct convoy_limits *convoy_limits_new(const struct convoy_limit_config *config);
/* Has other rates hold from now on; the same ones change nothing. Tickets stay as they are. */
void convoy_limits_change(struct convoy_limits *limits, const struct convoy_limit_config *config);
void convoy_limits_free(struct convoy_limits *limits); /* NULL is allowed */

/* Counts a request of the client at now_ns (convoy_now_ns()). CONVOY_LIMIT_NONE: it may go on, and ends with
 * convoy_limits_end(*ticket). Else it is not counted, and *retry_s is after how many seconds another one
 * would be let in. */
enum convoy_limit convoy_limits_begin(struct convoy_limits *limits, const struct convoy_client_id *client,
                                      uint64_t now_ns, uint64_t *ticket, int *retry_s);

/* The request that has the ticket brought so many images. */
void convoy_limits_charge(struct convoy_limits *limits, uint64_t ticket, uint32_t images, uint64_t now_ns);

/* The request is answered, or gave up; once for each ticket. */
void convoy_limits_end(struct convoy_limits *limits, uint64_t ticket);

#endif
