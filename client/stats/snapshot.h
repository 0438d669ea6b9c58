/* What a convoyd says of itself at one moment, put together from its metrics, and what happened between two
 * such moments. Pure functions, any thread. */
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
#define CLIENT_SNAPSHOT_MODELS                                                                               \
    2048 /* a convoyd serves 1,024 versions; models and devices past these are left out */
#define CLIENT_SNAPSHOT_DEVICES 256
#define CLIENT_SNAPSHOT_VERSIONS                                                                             \
    16 /* of a model, and kinds of memory and reasons of restarts of a device                                \
        */

/* A number with a name: a version and whether it is ready, a kind of memory and its bytes, a reason and how
 * often it was one. */
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
    double requests; /* answers to requests for classification or inference, of any status */
    double failed;   /* those of them whose status is not 200 */
    double images, batches, retried, queue;
    struct client_histogram stages[CLIENT_SNAPSHOT_STAGES]; /* seconds */
    struct client_histogram sizes;                          /* images in a batch */
};

struct client_snapshot_device {
    const char *name;
    bool known, up; /* known: the server says whether its worker is up */
    double batches;
    struct client_named_list restarts, memory;
};

/* Strings belong to the exposition, which must live as long. Counts are totals, or what happened in between.
 */
struct client_snapshot {
    const char *version;                       /* of the daemon, "" when it does not say */
    double statuses[CLIENT_SNAPSHOT_STATUSES]; /* answers by status, to requests for classification or
                                                  inference */
    double slots;                              /* in use; NaN when not known yet */
    struct client_snapshot_model *models;      /* by name */
    size_t model_count;
    struct client_snapshot_device *devices; /* by name */
    size_t device_count;
};

/* Puts snapshot together. It is for client_snapshot_clear also after an error. 0, -EPROTO when the text has
 * no metric of a convoyd, or -ENOMEM. */
int client_snapshot_read(const struct client_exposition *exposition, struct client_snapshot *snapshot,
                         struct convoy_failure *failure);

/* Whether another process answers in later than in earlier: a count fell or is gone. */
bool client_snapshot_restarted(const struct client_snapshot *earlier, const struct client_snapshot *later);

/* Turns the counts of later into what happened since earlier, which must not have been another process's;
 * what is no count (queue, slots, memory, restarts, retried, ready, up) stays what it is. Nothing becomes
 * less than 0. */
void client_snapshot_subtract(const struct client_snapshot *earlier, struct client_snapshot *later);

/* Requests and those not answered 200, over all models and none. */
void client_snapshot_requests(const struct client_snapshot *snapshot, double *requests, double *failed);

double client_snapshot_images(const struct client_snapshot *snapshot);

void client_snapshot_clear(struct client_snapshot *snapshot);

#endif
