/* How models share a device: by weight, in device time, however many images each has waiting.
 *
 * Start-time fair queueing (Goyal, Vin, Cheng: Start-time Fair Queueing, SIGCOMM 1996). Every model has a
 * clock that runs by the device time that it gets, divided by its weight; of those that wait the one whose
 * clock is behind goes next. A model that comes back from a rest starts at the time of the others: what it
 * did not use is not saved up. What a run costs is known when it is over, so it is charged with what the
 * model's images cost so far and corrected then.
 *
 * Times are microseconds. The owner's lock. */
#ifndef CONVOY_SERVER_FAIR_QUEUE_H
#define CONVOY_SERVER_FAIR_QUEUE_H

#include <stdint.h>

struct convoy_fair_queue {
    double used_us; /* the clock */
    double row_us;  /* what an image costs, of late; 0: nothing known */
};

/* The model rested, and now something of it waits. now_us: the virtual time, which is the clock of the model
 * that was last let go. */
void convoy_fair_queue_enter(struct convoy_fair_queue *fair, double now_us);

/* It is let go with so many images; returns what it was charged, before weight. */
double convoy_fair_queue_charge(struct convoy_fair_queue *fair, uint32_t weight, uint32_t images,
                                double *now_us);

/* Its run took took_us of the device (0: not known, the charge stays; < 0: it did not run, the charge goes).
 */
void convoy_fair_queue_settle(struct convoy_fair_queue *fair, uint32_t weight, uint32_t images,
                              double charged_us, double took_us);

#endif
