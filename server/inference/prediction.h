/* From a network's scores to the classes that are shown. */
#ifndef CONVOY_SERVER_PREDICTION_H
#define CONVOY_SERVER_PREDICTION_H

#include <stdbool.h>
#include <stdint.h>

#define CONVOY_TOP_MAX 1000

struct convoy_ranked_class {
    uint32_t index;
    float probability;
};

/* Writes the min(top, count) highest of scores into best (room for that many, top at most CONVOY_TOP_MAX) by
 * falling score, equal ones by rising index; returns how many. A score that is not a number ranks below every
 * other. Any thread; no allocation; O(count log top).
 *
 * softmax: probability i is exp(x_i - m) / sum_j exp(x_j - m), m the greatest score, so that nothing
 * overflows (Goodfellow, Bengio, Courville: Deep Learning, 4.1). Scores of +inf share the whole; scores that
 * are not numbers stay so and do not count. Without it the score itself is shown. */
uint32_t convoy_predict(const float *scores, uint32_t count, uint32_t top, bool softmax,
                        struct convoy_ranked_class *best);

#endif
