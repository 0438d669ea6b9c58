/* The statistics that a server keeps of its models (GET /v2/models/stats, docs/http.md), and means derived
 * from them. Pure functions, any thread. */
#ifndef CONVOY_CLIENT_SERVER_STATS_H
#define CONVOY_CLIENT_SERVER_STATS_H

#include "client/lib/http.h"

/* A number of events and their total duration. Counts are integers from 0 to 2^64; a double represents them
 * exactly up to 2^53. */
struct client_duration {
    double count;
    double ns;
};

/* The batches of one size. */
struct client_batch_stats {
    double size; /* images in a batch, at least 1 */
    struct client_duration input, compute, output;
};

/* The statistics of a version of a model since the server's start. */
struct client_version_stats {
    const char *name;
    const char *version;
    double last_inference_ms;                      /* since the epoch, 0: never */
    double images, batches;                        /* computed */
    struct client_duration success, fail;          /* per request: answered 200, or otherwise */
    struct client_duration queue;                  /* per image */
    struct client_duration input, compute, output; /* per batch */
    const struct client_batch_stats *sizes;        /* in the server's order */
    size_t size_count;
};

/* Sorted by name, then version (as a number where it is one). Owns everything that it points to. */
struct client_server_stats {
    const struct client_version_stats *versions;
    size_t count;
};

/* Parses the answer. A wrong type, a missing member, or a number that is not a count is -EPROTO, with a
 * message that names the member; unknown members are ignored. Returns 0, -EREMOTEIO, -EPROTO or -ENOMEM. The
 * caller owns *stats, for client_server_stats_free; it is NULL after an error. */
int client_server_stats_read(const struct client_response *response, struct client_server_stats **stats,
                             struct convoy_failure *failure);

/* Accepts NULL. */
void client_server_stats_free(struct client_server_stats *stats);

/* Returns the mean in microseconds; NaN when the count is 0. */
double client_duration_mean_us(const struct client_duration *duration);

/* Returns the mean microseconds per request, failed ones included; NaN without requests. */
double client_version_request_us(const struct client_version_stats *version);

/* Returns the mean number of images in a batch; NaN without batches. */
double client_version_batch_size(const struct client_version_stats *version);

/* Returns the images per second while the device computes batches of this size one after the other; NaN when
 * the measured time is 0. */
double client_batch_rate(const struct client_batch_stats *batch);

#endif
