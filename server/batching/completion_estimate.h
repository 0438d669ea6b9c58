/* When a device would be done with an image: an image goes to the device that would finish it first.
 *
 * Each row is priced when it is reserved, at what an image of its model costs on this device, and the prices
 * of a worker's rows are summed up until their slot is free again. Of what runs, as much counts as done as
 * time has passed since the worker's last completion. A new image is done after what is left and its own
 * price.
 *
 * What an image costs is learnt from runs: the time from one completion to the next (or from the submission,
 * if that was later) divided by the images of the second. The sum over all runs is then the time in which the
 * device was busy, whatever streams and other models add to it, and devices that report no times
 * (engine/backend.h) are measured as well. Many images in a batch count for more than few, so a few small
 * batches do not make a device look slow.
 *
 * A device that gets no images of a model cannot show that it became faster. So over ten seconds without a
 * run its cost fades into what the model costs on all devices: at least that often the device is tried.
 *
 * Times are microseconds. Plain data and arithmetic; the batcher's lock guards it. All zero: nothing is
 * known. */
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

/* Counts a run of so many images that ended at now_us. took_us: since the completion before it, see above. */
void convoy_image_cost_ran(struct convoy_image_cost *cost, uint32_t images, uint64_t took_us,
                           uint64_t now_us);

/* The price of an image on this device. everywhere: the same model's cost from the runs of all workers. 1
 * while nothing is known: then images are counted. */
double convoy_image_cost_us(const struct convoy_image_cost *here, const struct convoy_image_cost *everywhere,
                            uint64_t now_us);

/* How long from now until an image of this price is done. progress_us: when the worker's last run ended, or
 * its first one after idleness began. */
double convoy_completion_estimate_us(const struct convoy_worker_load *load, uint64_t progress_us,
                                     uint64_t now_us, double price_us);

/* True when completion_us is as good as the least of all: estimates are not exact, so within an eighth, or
 * the time of a turn through another process, other reasons choose. */
bool convoy_completion_as_good(double completion_us, double best_us);

#endif
