#include "server/inference/prediction.h"

#include <math.h>

/* True when a comes before b in the answer. While ranking, probability holds the raw score: scores that round
 * to the same probability still differ here. */
static bool before(const struct convoy_ranked_class *a, const struct convoy_ranked_class *b)
{
    if (isnan(a->probability) || isnan(b->probability)) {
        if (isnan(a->probability) != isnan(b->probability))
            return isnan(b->probability);
        return a->index < b->index;
    }
    if (a->probability != b->probability)
        return a->probability > b->probability;
    return a->index < b->index;
}

/* Sinks heap[at] in a heap whose root is the last in the answer. */
static void sink(struct convoy_ranked_class *heap, uint32_t count, uint32_t at)
{
    struct convoy_ranked_class moving = heap[at];

    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= count)
            break;
        if (child + 1 < count && before(&heap[child], &heap[child + 1]))
            child++;
        if (!before(&moving, &heap[child]))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

/* The top highest, in order: a heap of the best so far whose root is the one to give way, then a heap sort.
 */
static void rank(const float *scores, uint32_t count, uint32_t top, struct convoy_ranked_class *best)
{
    for (uint32_t i = 0; i < top; i++)
        best[i] = (struct convoy_ranked_class){.index = i, .probability = scores[i]};
    for (uint32_t i = top / 2; i-- > 0;)
        sink(best, top, i);
    for (uint32_t i = top; i < count; i++) {
        struct convoy_ranked_class next = {.index = i, .probability = scores[i]};
        if (before(&next, &best[0])) {
            best[0] = next;
            sink(best, top, 0);
        }
    }
    for (uint32_t left = top; left-- > 1;) {
        struct convoy_ranked_class last = best[0];
        best[0] = best[left];
        best[left] = last;
        sink(best, left, 0);
    }
}

static float softmax_term(float score, float greatest)
{
    if (isinf(greatest) && greatest > 0)
        return score == greatest ? 1.0f : isnan(score) ? score : 0.0f;
    /* Where even the greatest is -inf, all are alike. */
    if (isinf(greatest))
        return isnan(score) ? score : 1.0f;
    return expf(score - greatest);
}

static void apply_softmax(const float *scores, uint32_t count, uint32_t top, struct convoy_ranked_class *best)
{
    float greatest = best[0].probability;
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += (double)softmax_term(scores[i], greatest); /* NaN stays, as in a Softmax node */
    for (uint32_t i = 0; i < top; i++)
        best[i].probability = (float)(softmax_term(best[i].probability, greatest) / sum);
}

uint32_t convoy_predict(const float *scores, uint32_t count, const struct convoy_prediction_rule *rule,
                        struct convoy_ranked_class *best)
{
    uint32_t top = rule->top < count ? rule->top : count;
    if (top == 0)
        return 0;
    rank(scores, count, top, best);
    if (rule->activation == CONVOY_ACTIVATION_SOFTMAX)
        apply_softmax(scores, count, top, best);
    else if (rule->activation == CONVOY_ACTIVATION_SIGMOID)
        for (uint32_t i = 0; i < top; i++)
            best[i].probability = (float)(1.0 / (1.0 + exp(-(double)best[i].probability)));
    if (rule->threshold > 0) /* they fall, and what is not a number comes last */
        while (top > 0 && !(best[top - 1].probability >= (float)rule->threshold))
            top--;
    return top;
}
