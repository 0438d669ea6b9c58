/* How long a model's images take, learnt from what finishes, to estimate how long a new request would wait.
 *
 * While decoded images wait, the device is never idle: the time from one batch's end to the next, divided by
 * the images of the second, is then what an image costs, whatever streams, devices, batches and other models
 * add to it. The decode pool estimates what decoding costs (decode_pool.h). The mean is over about the last
 * second, and at least some ten batches. While no images wait, all that is learnt is that an image costs no
 * more than its batch took, so that an old mean does not refuse requests that could be served.
 *
 * Until two batches have ended so, a guess stands in for the mean: what a row took when the model was loaded.
 * It is too much where batches are cheaper by the image, so the first batch that ends with nothing waiting
 * behind it ends it.
 *
 * Plain data and arithmetic; the batcher's lock guards it. All zero: nothing is known. */
#ifndef CONVOY_SERVER_SERVICE_TIME_H
#define CONVOY_SERVER_SERVICE_TIME_H

#include <stdbool.h>
#include <stdint.h>

struct convoy_service_time {
    double busy_us, images, batches; /* sums, older ones counting for less */
    uint64_t since_us;               /* the last batch's end, if images waited then; else 0 */
    double guess_us;                 /* of an image, while images is 0; 0: none */
};

/* A batch of images finished at now_us, ran_us after the worker was given it. waiting: other images of the
 * model still wait. */
void convoy_service_time_finished(struct convoy_service_time *service, uint64_t now_us, uint32_t images,
                                  uint64_t ran_us, bool waiting);

/* The time until the next batch ends must not be counted: a worker was replaced, or this process was stopped.
 */
void convoy_service_time_interrupted(struct convoy_service_time *service);

/* An image is guessed to cost image_us, or what was guessed before if that is less. 0: no guess. */
void convoy_service_time_guess(struct convoy_service_time *service, double image_us);

/* How long the device needs for `images` images, in microseconds; 0 while nothing is known, but a guess. */
uint64_t convoy_service_time_run_us(const struct convoy_service_time *service, uint64_t images);

/* What an image costs, in microseconds, or is guessed to, and how many images a batch has; 0 while nothing is
 * known. */
double convoy_service_time_image_us(const struct convoy_service_time *service);
double convoy_service_time_company(const struct convoy_service_time *service);

/* Estimates from image_us and company when the last of `images` (those that wait or run already, and the new
 * ones) will be answered, in microseconds from now; 0 while nothing is known. */
uint64_t convoy_service_time_wait_us(double image_us, double company, uint64_t images);

/* The part of the time until the deadline that a request may spend waiting by an estimate. The remainder
 * covers what the estimate does not know: other processes on the same cores, a worker that is replaced. */
uint64_t convoy_service_time_spendable_us(uint64_t deadline_us, uint64_t now_us);

#endif
