/* The statistics that a server keeps of its models (GET /v2/models/stats, docs/http.md), and the means that
 * follow from them. Pure functions, any thread. */
#ifndef CONVOY_CLIENT_SERVER_STATS_H
#define CONVOY_CLIENT_SERVER_STATS_H

#include "client/lib/http.h"

/* How often something happened and how long it took in all. Counts are whole, from 0 to 2^64; a double holds
 * them exactly up to 2^53. */
struct client_duration {
    double count;
    double ns;
};

/* The batches of one size. */
struct client_batch_stats {
    double size; /* images in such a batch, at least 1 */
    struct client_duration input, compute, output;
};

/* A version of a model, since its server's start. */
struct client_version_stats {
    const char *name;
    const char *version;
    double last_inference_ms;                      /* since the epoch, 0: never */
    double images, batches;                        /* that went through the network */
    struct client_duration success, fail;          /* for each request: answered 200, or otherwise */
    struct client_duration queue;                  /* for each image */
    struct client_duration input, compute, output; /* for each batch */
    const struct client_batch_stats *sizes;        /* as the server lists them */
    size_t size_count;
};

/* By name, then version (as a number where it is one). Everything that it points to is freed with it. */
struct client_server_stats {
    const struct client_version_stats *versions;
    size_t count;
};

/* Reads the answer. A wrong type, a missing member, or a number that is no count is -EPROTO, and the sentence
 * names the member; members that are not known are passed over. 0, -EREMOTEIO, -EPROTO or -ENOMEM; *stats is
 * for client_server_stats_free, and NULL after an error. */
int client_server_stats_read(const struct client_response *response, struct client_server_stats **stats,
                             struct convoy_failure *failure);

/* NULL is fine. */
void client_server_stats_free(struct client_server_stats *stats);

/* Microseconds each time; NaN when it never happened. */
double client_duration_mean_us(const struct client_duration *duration);

/* Microseconds for each request, whatever its answer; NaN without requests. */
double client_version_request_us(const struct client_version_stats *version);

/* Images in a batch; NaN without batches. */
double client_version_batch_size(const struct client_version_stats *version);

/* Images a second while the device computes batches of this size, one after the other; NaN where that took no
 * time that the server could measure. */
double client_batch_rate(const struct client_batch_stats *batch);

#endif
