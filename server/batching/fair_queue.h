/* How models share a device: by weight, in device time, however many images each has waiting.
 *
 * Start-time fair queueing (Goyal, Vin, Cheng: Start-time Fair Queueing, SIGCOMM 1996). Every model has a
 * clock that advances by the device time that the model gets, divided by its weight; of the models with
 * images waiting, the one whose clock is behind goes next. A model that was idle starts at the others' time:
 * unused time is not saved up. The cost of a run is known when it is over, so a run is first charged with
 * what the model's images cost so far, and corrected afterwards.
 *
 * Times are microseconds. Plain data and arithmetic; the batcher's lock guards it. */
#ifndef CONVOY_SERVER_FAIR_QUEUE_H
#define CONVOY_SERVER_FAIR_QUEUE_H

#include <stdint.h>

/* One model's place in the queue. All zero: a model that has not run yet. */
struct convoy_fair_queue {
    double used_us; /* the clock */
    double row_us;  /* what an image cost lately; 0: not known */
};

/* The model was idle and has images waiting now. now_us: the virtual time, which is the clock of the model
 * that was submitted last. */
void convoy_fair_queue_enter(struct convoy_fair_queue *fair, double now_us);

/* A batch of so many images is submitted. Advances *now_us, the virtual time, to the model's clock. Returns
 * what the model was charged, before weight. */
double convoy_fair_queue_charge(struct convoy_fair_queue *fair, uint32_t weight, uint32_t images,
                                double *now_us);

/* The batch ended and took took_us of the device. 0: not known, the charge stays; negative: it did not run,
 * the charge is taken back. charged_us: what convoy_fair_queue_charge() returned for it. */
void convoy_fair_queue_settle(struct convoy_fair_queue *fair, uint32_t weight, uint32_t images,
                              double charged_us, double took_us);

#endif
