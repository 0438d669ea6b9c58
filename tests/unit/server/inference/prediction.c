/* Softmax and the best classes. */
#include "server/inference/prediction.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#define NEAR(a, b) (fabs((double)(a) - (double)(b)) < 1e-6)

Test(prediction, softmax_of_three)
{
    static const float scores[] = {1, 3, 2};
    struct convoy_ranked_class best[3];

    cr_assert_eq(
        convoy_predict(scores, 3, &(struct convoy_prediction_rule){3, CONVOY_ACTIVATION_SOFTMAX, 0}, best),
        3);
    cr_assert_eq(best[0].index, 1);
    cr_assert_eq(best[1].index, 2);
    cr_assert_eq(best[2].index, 0);
    /* e^2, e^1 and 1 over their sum */
    double sum = exp(2) + exp(1) + 1;
    cr_assert(NEAR(best[0].probability, exp(2) / sum));
    cr_assert(NEAR(best[1].probability, exp(1) / sum));
    cr_assert(NEAR(best[2].probability, 1 / sum));
}

Test(prediction, without_softmax_scores_stay)
{
    static const float scores[] = {0.25f, 0.5f, 0.25f};
    struct convoy_ranked_class best[2];

    cr_assert_eq(
        convoy_predict(scores, 3, &(struct convoy_prediction_rule){2, CONVOY_ACTIVATION_NONE, 0}, best), 2);
    cr_assert_eq(best[0].index, 1);
    cr_assert_float_eq(best[0].probability, 0.5f, 0);
    cr_assert_eq(best[1].index, 0, "of equal ones the lower index comes first");
    cr_assert_float_eq(best[1].probability, 0.25f, 0);
}

Test(prediction, top_is_capped_at_the_classes)
{
    static const float scores[] = {1, 2};
    struct convoy_ranked_class best[2];

    cr_assert_eq(
        convoy_predict(scores, 2, &(struct convoy_prediction_rule){1000, CONVOY_ACTIVATION_SOFTMAX, 0}, best),
        2);
    cr_assert_eq(
        convoy_predict(scores, 0, &(struct convoy_prediction_rule){5, CONVOY_ACTIVATION_SOFTMAX, 0}, best),
        0);
}

Test(prediction, great_scores_do_not_overflow)
{
    static const float scores[] = {1e30f, -1e30f, 1e30f, 3e38f};
    struct convoy_ranked_class best[4];

    convoy_predict(scores, 4, &(struct convoy_prediction_rule){4, CONVOY_ACTIVATION_SOFTMAX, 0}, best);
    cr_assert_eq(best[0].index, 3);
    cr_assert(NEAR(best[0].probability, 1));
    cr_assert(NEAR(best[1].probability, 0));
    cr_assert_eq(best[1].index, 0);
    cr_assert_eq(best[2].index, 2);
}

Test(prediction, infinite_scores_share_the_whole)
{
    static const float scores[] = {INFINITY, 0, INFINITY, -INFINITY};
    static const float lowest[] = {-INFINITY, -INFINITY};
    struct convoy_ranked_class best[4];

    convoy_predict(scores, 4, &(struct convoy_prediction_rule){4, CONVOY_ACTIVATION_SOFTMAX, 0}, best);
    cr_assert_eq(best[0].index, 0);
    cr_assert_eq(best[1].index, 2);
    cr_assert(NEAR(best[0].probability, 0.5));
    cr_assert(NEAR(best[1].probability, 0.5));
    cr_assert(NEAR(best[3].probability, 0));
    convoy_predict(lowest, 2, &(struct convoy_prediction_rule){2, CONVOY_ACTIVATION_SOFTMAX, 0}, best);
    cr_assert(NEAR(best[0].probability, 0.5));
}

Test(prediction, what_is_no_number_ranks_last)
{
    static const float scores[] = {NAN, 1, NAN, 2, -INFINITY};
    struct convoy_ranked_class best[5];

    cr_assert_eq(
        convoy_predict(scores, 5, &(struct convoy_prediction_rule){5, CONVOY_ACTIVATION_SOFTMAX, 0}, best),
        5);
    cr_assert_eq(best[0].index, 3);
    cr_assert_eq(best[1].index, 1);
    cr_assert_eq(best[2].index, 4);
    cr_assert_eq(best[3].index, 0);
    cr_assert_eq(best[4].index, 2);
    for (int i = 0; i < 5; i++) /* as in a Softmax node */
        cr_assert(isnan(best[i].probability));
    /* Also of those that are not asked for. */
    cr_assert_eq(
        convoy_predict(scores, 5, &(struct convoy_prediction_rule){1, CONVOY_ACTIVATION_SOFTMAX, 0}, best),
        1);
    cr_assert(best[0].index == 3 && isnan(best[0].probability));
    cr_assert_eq(
        convoy_predict(scores, 1, &(struct convoy_prediction_rule){1, CONVOY_ACTIVATION_SOFTMAX, 0}, best),
        1);
    cr_assert(isnan(best[0].probability));
}

static const float *sorted_scores;

static int by_score_then_index(const void *a, const void *b)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;

    if (sorted_scores[i] != sorted_scores[j])
        return sorted_scores[i] > sorted_scores[j] ? -1 : 1;
    return i < j ? -1 : 1;
}

Test(prediction, equals_a_full_sort)
{
    enum { CLASSES = 1003 };
    static float scores[CLASSES];
    static uint32_t order[CLASSES];
    static const uint32_t tops[] = {1, 2, 3, 5, 64, 999, 1000};
    static struct convoy_ranked_class best[CONVOY_TOP_MAX];

    srand(7);
    for (uint32_t i = 0; i < CLASSES; i++) {
        scores[i] = (float)(rand() % 200); /* many equal ones */
        order[i] = i;
    }
    sorted_scores = scores;
    qsort(order, CLASSES, sizeof order[0], by_score_then_index);
    for (size_t t = 0; t < sizeof tops / sizeof tops[0]; t++) {
        cr_assert_eq(convoy_predict(scores, CLASSES,
                                    &(struct convoy_prediction_rule){tops[t], CONVOY_ACTIVATION_SOFTMAX, 0},
                                    best),
                     tops[t]);
        for (uint32_t i = 0; i < tops[t]; i++)
            cr_assert_eq(best[i].index, order[i], "top %u, place %u", tops[t], i);
    }
}

Test(prediction, sigmoid_is_of_each_score_alone)
{
    const float scores[] = {0, 2, -2, 1000, -1000, NAN, INFINITY, -INFINITY};
    struct convoy_ranked_class best[8];
    const struct convoy_prediction_rule rule = {8, CONVOY_ACTIVATION_SIGMOID, 0};
    cr_assert_eq(convoy_predict(scores, 8, &rule, best), 8);
    static const uint32_t order[] = {6, 3, 1, 0, 2, 4, 7, 5};
    static const double wanted[] = {1, 1, 0.880797, 0.5, 0.119203, 0, 0};
    for (int i = 0; i < 8; i++)
        cr_expect_eq(best[i].index, order[i], "%d: %u", i, best[i].index);
    for (int i = 0; i < 7; i++)
        cr_expect_float_eq(best[i].probability, wanted[i], 1e-6, "%d: %f", i, (double)best[i].probability);
    cr_expect(isnan(best[7].probability));
}

Test(prediction, what_is_below_the_threshold_is_left_out)
{
    const float scores[] = {0.5f, NAN, 0.7f, 0.2f, 0.5f};
    struct convoy_ranked_class best[5];
    struct convoy_prediction_rule rule = {5, CONVOY_ACTIVATION_NONE, 0.5};
    cr_assert_eq(convoy_predict(scores, 5, &rule, best), 3);
    cr_expect(best[0].index == 2 && best[1].index == 0 && best[2].index == 4);
    rule.top = 2;
    cr_assert_eq(convoy_predict(scores, 5, &rule, best), 2);
    rule = (struct convoy_prediction_rule){5, CONVOY_ACTIVATION_NONE, 0.71};
    cr_assert_eq(convoy_predict(scores, 5, &rule, best), 0);
    rule.threshold = 0;
    cr_assert_eq(convoy_predict(scores, 5, &rule, best), 5);
}
