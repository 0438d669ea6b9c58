#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>

#include "client/stats/score.h"

Test(client_score, counts_by_class)
{
    struct client_score score;
    struct convoy_failure failure;
    struct convoy_prediction all[] = {{"dog", 1, 0.5}, {"cat", 0, 0.4}, {"0", 2, 0.1}};
    struct convoy_result result = {all, 3, NULL, 200};
    size_t right, total;
    cr_assert_eq(client_score_open(&score, &result, &failure), 0);
    cr_assert_eq(client_score_class(&score, "dog"), 1);
    cr_assert_eq(client_score_class(&score, "0"), 2);
    cr_assert_eq(client_score_class(&score, "1"), 1);
    cr_assert_eq(client_score_class(&score, "3"), -1);
    cr_assert_eq(client_score_class(&score, "-1"), -1);
    cr_assert_eq(client_score_class(&score, "1x"), -1);
    cr_assert_eq(client_score_class(&score, ""), -1);
    cr_assert(client_score_count(&score, 0, 0) && client_score_count(&score, 0, 1) &&
              client_score_count(&score, 1, 1));
    cr_assert(!client_score_count(&score, 3, 0) && !client_score_count(&score, 0, 3) &&
              !client_score_count(&score, -1, 0));
    cr_assert_eq(score.confusion[1], 1);
    client_score_sum(&score, -1, &right, &total);
    cr_assert(right == 2 && total == 3);
    client_score_sum(&score, 0, &right, &total);
    cr_assert(right == 1 && total == 2);
    client_score_clear(&score);
    all[0].index = 0;
    cr_assert_eq(client_score_open(&score, &result, &failure), -EPROTO);
    client_score_clear(&score);
    all[0].index = 3;
    cr_assert_eq(client_score_open(&score, &result, &failure), -EPROTO);
    client_score_clear(&score);
}

Test(client_score, confusions_by_count)
{
    char *labels[] = {"a", "b", "c"};
    size_t counts[] = {9, 2, 0, 5, 9, 2, 0, 2, 9};
    const struct client_score score = {labels, 3, counts};
    static const struct client_confusion wanted[] = {{1, 0, 5}, {0, 1, 2}, {1, 2, 2}, {2, 1, 2}};
    struct client_confusion confusion = {0};
    for (size_t i = 0; i < 4; i++) {
        cr_assert(client_score_next_confusion(&score, &confusion));
        cr_expect(confusion.truth == wanted[i].truth && confusion.answer == wanted[i].answer &&
                      confusion.count == wanted[i].count,
                  "%zu: %zu %zu %zu", i, confusion.truth, confusion.answer, confusion.count);
    }
    cr_expect(!client_score_next_confusion(&score, &confusion));
}

Test(client_score, the_error_of_a_share)
{
    cr_assert_float_eq(client_score_error(80, 100), 0.04, 1e-12);
    cr_assert_float_eq(client_score_error(50, 100), 0.05, 1e-12);
    cr_assert_eq(client_score_error(100, 100), 0);
    cr_assert_eq(client_score_error(0, 5), 0);
    cr_assert(isnan(client_score_error(0, 0)));
}
