/* From a network's scores to the classes that are shown. */
#ifndef CONVOY_SERVER_PREDICTION_H
#define CONVOY_SERVER_PREDICTION_H

#include "server/config/model_config.h"

#include <stdint.h>

#define CONVOY_TOP_MAX 1000

struct convoy_ranked_class {
    uint32_t index;
    float probability;
};

struct convoy_prediction_rule {
    uint32_t top; /* classes at most, up to CONVOY_TOP_MAX */
    enum convoy_output_activation activation;
    double threshold; /* classes of a lower probability are left out */
};

/* Writes the min(top, count) highest of scores into best (room for that many, top at most CONVOY_TOP_MAX) by
 * falling score, equal ones by rising index; returns how many. A score that is not a number ranks below every
 * other. Of these, those below the threshold are left out. Any thread; no allocation; O(count log top).
 *
 * Softmax: probability i is exp(x_i - m) / sum_j exp(x_j - m), m the greatest score, so that nothing
 * overflows (Goodfellow, Bengio, Courville: Deep Learning, 4.1). Scores of +inf share the whole. With a
 * score that is not a number no probability is one, as in ONNX Runtime. Sigmoid: 1 / (1 + exp(-x_i)). None:
 * the score itself. */
uint32_t convoy_predict(const float *scores, uint32_t count, const struct convoy_prediction_rule *rule,
                        struct convoy_ranked_class *best);

#endif
