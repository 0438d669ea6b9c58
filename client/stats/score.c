#include "client/stats/score.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/failure.h"

int client_score_open(struct client_score *score, const struct convoy_result *every_class,
                      struct convoy_failure *failure)
{
    size_t classes = every_class->prediction_count;
    memset(score, 0, sizeof *score);
    score->labels = calloc(classes, sizeof *score->labels);
    score->confusion = calloc(classes * classes, sizeof *score->confusion);
    if (!score->labels || !score->confusion)
        return client_fail_with(failure, -ENOMEM, "memory is out");
    score->classes = classes;
    for (size_t i = 0; i < classes; i++) {
        long index = every_class->predictions[i].index;
        if (index < 0 || (size_t)index >= classes || score->labels[index])
            return client_fail_with(failure, -EPROTO,
                                    "the server lists %zu classes, but one has the index %ld: models of more "
                                    "than 1000 classes cannot be evaluated",
                                    classes, index);
        score->labels[index] = strdup(every_class->predictions[i].label);
        if (!score->labels[index])
            return client_fail_with(failure, -ENOMEM, "memory is out");
    }
    return 0;
}

long client_score_class(const struct client_score *score, const char *name)
{
    char *end;
    for (size_t i = 0; i < score->classes; i++) {
        if (strcmp(score->labels[i], name) == 0)
            return (long)i;
    }
    unsigned long number = strtoul(name, &end, 10);
    return *name >= '0' && *name <= '9' && !*end && number < score->classes ? (long)number : -1;
}

bool client_score_count(struct client_score *score, long truth, long answer)
{
    if (truth < 0 || answer < 0 || (size_t)truth >= score->classes || (size_t)answer >= score->classes)
        return false;
    score->confusion[(size_t)truth * score->classes + (size_t)answer]++;
    return true;
}

void client_score_sum(const struct client_score *score, long truth, size_t *right, size_t *total)
{
    *right = *total = 0;
    for (size_t row = 0; row < score->classes; row++) {
        if (truth >= 0 && row != (size_t)truth)
            continue;
        *right += score->confusion[row * score->classes + row];
        for (size_t column = 0; column < score->classes; column++)
            *total += score->confusion[row * score->classes + column];
    }
}

bool client_score_next_confusion(const struct client_score *score, struct client_confusion *confusion)
{
    size_t bound = confusion->count ? confusion->count : SIZE_MAX;
    size_t bound_cell = confusion->truth * score->classes + confusion->answer;
    *confusion = (struct client_confusion){0};
    for (size_t cell = 0; cell < score->classes * score->classes; cell++) {
        size_t count = score->confusion[cell], truth = cell / score->classes, answer = cell % score->classes;
        bool listed_before = count > bound || (count == bound && cell <= bound_cell);
        if (truth != answer && !listed_before && count > confusion->count)
            *confusion = (struct client_confusion){truth, answer, count};
    }
    return confusion->count > 0;
}

double client_score_error(size_t right, size_t total)
{
    if (total == 0)
        return NAN;
    double share = (double)right / (double)total;
    return sqrt(share * (1 - share) / (double)total);
}

void client_score_clear(struct client_score *score)
{
    for (size_t i = 0; i < score->classes; i++)
        free(score->labels[i]);
    free(score->labels);
    free(score->confusion);
    memset(score, 0, sizeof *score);
}
