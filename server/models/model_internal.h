/* Labels and views, which the registry makes and model.c ends. */
#ifndef CONVOY_SERVER_MODEL_INTERNAL_H
#define CONVOY_SERVER_MODEL_INTERNAL_H

#include "server/models/model.h"

struct convoy_labels {
    atomic_uint holders;
    struct convoy_label_list list;
};

/* Takes the list over; NULL when memory is out. */
struct convoy_labels *convoy_labels_new(struct convoy_label_list *list);
void convoy_labels_release(struct convoy_labels *labels); /* NULL is allowed */
/* Logs a warning when a READY model has another number of labels than of classes. On the control loop, which
 * alone changes both, and not under the registry's lock: a log line may take its time. */
void convoy_labels_compare(const struct convoy_model_record *model);

/* Fills in a view, which holds the model and its labels. Under the registry's lock. */
void convoy_model_view_fill(struct convoy_model_record *model, struct convoy_model_view *view);

#endif
