/* What `convoyd --check-config` says of a model that can be served: what becomes of a picture, what the
 * answers mean, and what is probably a mistake. */
#ifndef CONVOY_SERVER_CHECK_REPORT_H
#define CONVOY_SERVER_CHECK_REPORT_H

#include "server/models/model.h"

#include <stdint.h>

/* Prints indented lines to standard output. shape: as a worker reads the model; weight_bytes: of one
 * device. The model has a configuration. */
void convoy_check_report(const struct convoy_model_record *model, const struct convoy_model_shape *shape,
                         uint64_t weight_bytes);

#endif
