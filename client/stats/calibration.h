/* Whether a model is right as often as it claims: answers by the probability that it gave them (a reliability
 * diagram), and the expected calibration error. Use a calibration from one thread at a time. */
#ifndef CONVOY_CLIENT_CALIBRATION_H
#define CONVOY_CLIENT_CALIBRATION_H

#include <stdbool.h>
#include <stddef.h>

#define CLIENT_CALIBRATION_BINS 10

/* Answers whose probability lies above the lower and up to the upper bound of a tenth (0 belongs to the
 * first). */
struct client_calibration_bin {
    size_t count, right;
    double sum; /* of the probabilities */
};

/* Zeroed, it is empty. */
struct client_calibration {
    struct client_calibration_bin bins[CLIENT_CALIBRATION_BINS];
    size_t without; /* answers whose probability is no number from 0 to 1: they are in no bin */
};

/* Counts an answer of that probability. */
void client_calibration_count(struct client_calibration *calibration, double probability, bool right);

/* Returns the number of answers in bins. */
size_t client_calibration_total(const struct client_calibration *calibration);

/* Returns the expected calibration error: the mean over all answers of the distance between the share of
 * right ones and the mean probability of their bin (M. P. Naeini, G. F. Cooper, M. Hauskrecht, Obtaining Well
 * Calibrated Probabilities Using Bayesian Binning, 2015). NaN without answers. */
double client_calibration_error(const struct client_calibration *calibration);

#endif
