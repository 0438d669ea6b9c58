/* The state of a convoyd at one time, collected from its metrics, and the difference between two such states.
 * Pure functions, any thread. */
#ifndef CONVOY_CLIENT_SNAPSHOT_H
#define CONVOY_CLIENT_SNAPSHOT_H

#include "client/stats/exposition.h"
#include "client/stats/histogram.h"

enum client_snapshot_stage {
    CLIENT_SNAPSHOT_REQUEST,
    CLIENT_SNAPSHOT_DECODE,
    CLIENT_SNAPSHOT_QUEUE,
    CLIENT_SNAPSHOT_INPUT,
    CLIENT_SNAPSHOT_COMPUTE,
    CLIENT_SNAPSHOT_OUTPUT,
    CLIENT_SNAPSHOT_STAGES
};

extern const char *const client_snapshot_stage_names[CLIENT_SNAPSHOT_STAGES];

#define CLIENT_SNAPSHOT_STATUSES 600
/* A convoyd serves at most 1,024 versions. Models and devices beyond these limits are left out. */
#define CLIENT_SNAPSHOT_MODELS  2048
#define CLIENT_SNAPSHOT_DEVICES 256
/* Versions of a model, kinds of memory of a device, reasons of its restarts, values of its health. */
#define CLIENT_SNAPSHOT_VERSIONS 16

/* A named number: a version and whether it is ready, a kind of memory and its bytes, a reason of restarts and
 * its count. */
struct client_named {
    const char *name;
    double value;
};

struct client_named_list {
    struct client_named entries[CLIENT_SNAPSHOT_VERSIONS];
    size_t count;
};

struct client_snapshot_model {
    const char *name;
    struct client_named_list versions; /* value 1: ready */
    double requests;                   /* answers of any status to classification and inference requests */
    double failed;                     /* of those, the answers with a status other than 200 */
    double images, batches, retried, queue;
    struct client_histogram stages[CLIENT_SNAPSHOT_STAGES]; /* seconds */
    struct client_histogram sizes;                          /* images in a batch */
};

struct client_snapshot_device {
    const char *name;
    bool known, up; /* known: the metrics say whether its worker is up */
    double batches;
    struct client_named_list restarts, memory;
    /* What its driver says of it; empty where that is not known. health: "temperature_celsius",
     * "power_watts", "power_limit_watts", "xid_errors", "last_xid". throttled: reasons that hold now. */
    struct client_named_list utilization, used_memory, ecc, throttled, health;
};

/* Strings point into the exposition, which must outlive the snapshot. Counts are totals or, after
 * client_snapshot_subtract, differences. */
struct client_snapshot {
    const char *version;                       /* of the daemon; "" when unknown */
    double statuses[CLIENT_SNAPSHOT_STATUSES]; /* inference and classification answers */
    double slots;                              /* in use; NaN when not known yet */
    struct client_snapshot_model *models;      /* by name */
    size_t model_count;
    struct client_snapshot_device *devices; /* by name */
    size_t device_count;
};

/* Collects a snapshot. Call client_snapshot_clear also after an error. Returns 0, -EPROTO when the text
 * contains no metric of a convoyd, or -ENOMEM. */
int client_snapshot_read(const struct client_exposition *exposition, struct client_snapshot *snapshot,
                         struct convoy_failure *failure);

/* Returns whether the server was restarted between the two: a count decreased or is missing. */
bool client_snapshot_restarted(const struct client_snapshot *earlier, const struct client_snapshot *later);

/* Subtracts the counts of earlier, a snapshot of the same process, from those of later. Values that are not
 * counts (queue, slots, memory, health, restarts, retried, ready, up) stay unchanged. No result is below 0.
 */
void client_snapshot_subtract(const struct client_snapshot *earlier, struct client_snapshot *later);

/* Sums requests, and those not answered 200, including requests that named no known model. */
void client_snapshot_requests(const struct client_snapshot *snapshot, double *requests, double *failed);

double client_snapshot_images(const struct client_snapshot *snapshot);

void client_snapshot_clear(struct client_snapshot *snapshot);

#endif
