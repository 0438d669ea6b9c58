/* What a convoyd says of itself at one moment, put together from its metrics, and what happened between two
 * such moments. Pure functions, any thread. */
#ifndef CONVOY_CLIENT_SNAPSHOT_H
#define CONVOY_CLIENT_SNAPSHOT_H

#include "client/stats/exposition.h"
#include "client/stats/histogram.h"

enum convoy_top_stage {
    CONVOY_TOP_REQUEST,
    CONVOY_TOP_DECODE,
    CONVOY_TOP_QUEUE,
    CONVOY_TOP_INPUT,
    CONVOY_TOP_COMPUTE,
    CONVOY_TOP_OUTPUT,
    CONVOY_TOP_STAGES
};

extern const char *const convoy_top_stage_names[CONVOY_TOP_STAGES];

#define CONVOY_TOP_STATUSES 600
#define CONVOY_TOP_MODELS                                                                                    \
    2048 /* a convoyd serves 1,024 versions; models and devices past these are left out */
#define CONVOY_TOP_DEVICES  256
#define CONVOY_TOP_VERSIONS 16 /* of a model, and kinds of memory and reasons of restarts of a device */

/* A number with a name: a version and whether it is ready, a kind of memory and its bytes, a reason and how
 * often it was one. */
struct convoy_named {
    const char *name;
    double value;
};

struct convoy_named_list {
    struct convoy_named entries[CONVOY_TOP_VERSIONS];
    size_t count;
};

struct convoy_top_model {
    const char *name;
    struct convoy_named_list versions; /* value 1: ready */
    double requests; /* answers to requests for classification or inference, of any status */
    double failed;   /* those of them whose status is not 200 */
    double images, batches, retried, queue;
    struct convoy_histogram stages[CONVOY_TOP_STAGES]; /* seconds */
    struct convoy_histogram sizes;                     /* images in a batch */
};

struct convoy_top_device {
    const char *name;
    bool known, up; /* known: the server says whether its worker is up */
    double batches;
    struct convoy_named_list restarts, memory;
};

/* Strings belong to the exposition, which must live as long. Counts are totals, or what happened in between.
 */
struct convoy_snapshot {
    const char *version;                  /* of the daemon, "" when it does not say */
    double statuses[CONVOY_TOP_STATUSES]; /* answers by status, to requests for classification or inference */
    double slots;                         /* in use; NaN when not known yet */
    struct convoy_top_model *models;      /* by name */
    size_t model_count;
    struct convoy_top_device *devices; /* by name */
    size_t device_count;
};

/* Puts snapshot together. It is for convoy_snapshot_clear also after an error. 0, -EPROTO when the text has
 * no metric of a convoyd, or -ENOMEM. */
int convoy_snapshot_read(const struct convoy_exposition *exposition, struct convoy_snapshot *snapshot,
                         struct convoy_failure *failure);

/* Whether another process answers in later than in earlier: a count fell or is gone. */
bool convoy_snapshot_restarted(const struct convoy_snapshot *earlier, const struct convoy_snapshot *later);

/* Turns the counts of later into what happened since earlier, which must not have been another process's;
 * what is no count (queue, slots, memory, restarts, retried, ready, up) stays what it is. Nothing becomes
 * less than 0. */
void convoy_snapshot_subtract(const struct convoy_snapshot *earlier, struct convoy_snapshot *later);

/* Requests and those not answered 200, over all models and none. */
void convoy_snapshot_requests(const struct convoy_snapshot *snapshot, double *requests, double *failed);

double convoy_snapshot_images(const struct convoy_snapshot *snapshot);

void convoy_snapshot_clear(struct convoy_snapshot *snapshot);

#endif
