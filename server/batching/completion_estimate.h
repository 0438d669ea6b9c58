/* When a device would be done with an image, so that it goes where that is soonest.
 *
 * A worker (a worker's slots) knows what lies in its slots: each row was priced when it was reserved, at what
 * an image of its model costs on this device, and the prices are summed up until the slot is free again. Of
 * what runs, as much is done already as time has passed since the worker's last completion. A newcomer is
 * done after what is left and its own price.
 *
 * What an image costs is learnt from runs: the time from one completion to the next (or from the submission,
 * if that was later) divided by the images of the second. The sum over all runs is then the time in which the
 * device was busy, whatever streams and other models have to do with it, and devices that tell no times
 * (engine/backend.h) are measured all the same. Many images in a batch count for more than few, so a device
 * that had a few small batches is not taken for a slow one.
 *
 * A device that gets no images of a model cannot show that it became faster. So what it cost fades, over ten
 * seconds without a run, into what the model costs on all devices: at least that often it is tried.
 *
 * Times are microseconds. Plain data and arithmetic; the batcher's lock guards it. All zero is a model of
 * which, or a worker of whose work, nothing is known. */
#ifndef CONVOY_SERVER_COMPLETION_ESTIMATE_H
#define CONVOY_SERVER_COMPLETION_ESTIMATE_H

#include <stdbool.h>
#include <stdint.h>

/* What images of one model cost. */
struct convoy_image_cost {
    double busy_us, images; /* sums, older runs counting for less */
    uint64_t ran_us;        /* the last run's end */
};

/* What lies in a worker's slots. */
struct convoy_worker_load {
    double backlog_us; /* prices of all rows, also of those that run */
    double running_us; /* of those that run */
};

/* A run of so many images ended at now_us; took_us: as above. */
void convoy_image_cost_ran(struct convoy_image_cost *cost, uint32_t images, uint64_t took_us,
                           uint64_t now_us);

/* The price of an image here. everywhere: of the same model, from the runs of all workers. Without anything
 * known it is 1: then images count. */
double convoy_image_cost_us(const struct convoy_image_cost *here, const struct convoy_image_cost *everywhere,
                            uint64_t now_us);

/* How long from now until an image of this price is done. progress_us: when the worker's last run ended, or
 * its first began after a rest. */
double convoy_completion_estimate_us(const struct convoy_worker_load *load, uint64_t progress_us,
                                     uint64_t now_us, double price_us);

/* Is it as good as the least of all? Estimates are not that exact: within an eighth, or what a turn through
 * another process takes, other reasons choose. */
bool convoy_completion_as_good(double completion_us, double best_us);

#endif
