/* A confusion matrix: counts by true class and answered class. Use a score from one thread at a time. */
#ifndef CONVOY_CLIENT_SCORE_H
#define CONVOY_CLIENT_SCORE_H

#include "client/lib/convoy.h"

struct client_score {
    char **labels; /* the model's, by index */
    size_t classes;
    size_t *confusion; /* confusion[truth * classes + answer] */
};

/* Initializes score with the classes of a model, taken from a result that lists all of them. Call
 * client_score_clear also after an error. Returns 0, -EPROTO when the indices are not 0 to one less than the
 * number of predictions, -ENOMEM. */
int client_score_open(struct client_score *score, const struct convoy_result *every_class,
                      struct convoy_failure *failure);

/* Returns the index of a class: of the label that equals name, else the number that name is; -1 when neither
 * exists. */
long client_score_class(const struct client_score *score, const char *name);

/* Counts an image of class truth that was classified as answer. Returns false, and counts nothing, when
 * either is out of range. */
bool client_score_count(struct client_score *score, long truth, long answer);

/* Reads how many images of class truth (-1: of all classes) were counted, and how many of them were right. */
void client_score_sum(const struct client_score *score, long truth, size_t *right, size_t *total);

struct client_confusion {
    size_t truth, answer; /* classes that differ */
    size_t count;         /* how often */
};

/* Replaces *confusion by the one that comes next when they are sorted by falling count, then by class; a
 * zeroed one by the first. Returns false when there is none. */
bool client_score_next_confusion(const struct client_score *score, struct client_confusion *confusion);

/* Returns the standard error of a share right / total of independent trials: sqrt(p (1 - p) / total), the
 * binomial distribution's normal approximation (0 at 0 % and 100 %, where it says nothing). NaN when total is
 * 0. */
double client_score_error(size_t right, size_t total);

void client_score_clear(struct client_score *score);

#endif
