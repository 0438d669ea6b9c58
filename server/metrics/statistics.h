/* How often and how long a version of a model ran, since the daemon started: what the statistics extension of
 * the Open Inference Protocol asks for (oip_statistics.h), where /metrics knows names only.
 *
 * Only server/models/model.c counts here: convoy_model_answered() and its neighbours count in this and in
 * /metrics together, so that both agree.
 *
 * Threads: any thread may count and read at any time; relaxed atomics, no lock, no allocation; requests are
 * counted in parts by thread, and summed when they are read. A count and
 * its time are read one after the other: a time may be ahead by what is counted meanwhile. */
#ifndef CONVOY_SERVER_STATISTICS_H
#define CONVOY_SERVER_STATISTICS_H

#include <stdbool.h>
#include <stdint.h>

struct convoy_statistics;

/* Device times of a batch, in microseconds; or their sums over batches. */
struct convoy_batch_times {
    uint64_t input_us, compute_us, output_us;
};

/* max_batch: the most images that a batch has. Returns NULL when memory is out; the functions below accept
 * NULL, count nothing and read 0. Reference-counted: the caller holds the result until
 * convoy_statistics_release(); the last release frees. */
struct convoy_statistics *convoy_statistics_new(uint32_t max_batch);
void convoy_statistics_release(struct convoy_statistics *statistics); /* NULL is allowed */
/* Adds a hold: one more release is due. Returns statistics. */
struct convoy_statistics *convoy_statistics_hold(struct convoy_statistics *statistics);

/* A request was answered, well or not, us after its last byte. */
void convoy_statistics_answered(struct convoy_statistics *statistics, bool well, uint64_t us);
/* So many images waited before their run, us microseconds together. */
void convoy_statistics_waited(struct convoy_statistics *statistics, uint64_t us, uint32_t images);
/* A batch of rows images, 1 to max_batch, finished well. */
void convoy_statistics_ran(struct convoy_statistics *statistics, uint32_t rows,
                           const struct convoy_batch_times *times);

/* The lookup of an image in the response cache took ns nanoseconds; so did the insertion of one that was
 * missed. In nanoseconds, because most take less than a microsecond. */
void convoy_statistics_looked_up(struct convoy_statistics *statistics, bool hit, uint64_t ns);
void convoy_statistics_inserted(struct convoy_statistics *statistics, uint64_t ns);

/* A number of events and their time together. */
struct convoy_duration {
    uint64_t count, us;
};

struct convoy_lookups {
    uint64_t count, ns;
};

struct convoy_statistics_counts {
    uint64_t last_run_ms;                 /* when a batch last finished, since the epoch; 0: never */
    struct convoy_duration success, fail; /* requests */
    struct convoy_duration queue;         /* images */
    struct convoy_lookups hit, miss;      /* images */
};
void convoy_statistics_counts(const struct convoy_statistics *statistics,
                              struct convoy_statistics_counts *counts);

/* The most rows that are counted: max_batch. */
uint32_t convoy_statistics_max_batch(const struct convoy_statistics *statistics);

/* How many batches of rows images there were, and the sums of their times. Batches are counted by size alone:
 * totals are the sums over all sizes, so they always agree. */
uint64_t convoy_statistics_batches(const struct convoy_statistics *statistics, uint32_t rows,
                                   struct convoy_batch_times *sums);

#endif
