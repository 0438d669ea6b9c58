/* Admission: whether a valid request gets a place in the queue of its model. */
#ifndef CONVOY_SERVER_ADMISSION_H
#define CONVOY_SERVER_ADMISSION_H

#include "server/http/request.h"
#include "server/inference/inference_request.h"

#include <stddef.h>
#include <stdint.h>

/* Admits count samples of view's model; what view holds is taken over, also on failure. row_bytes: what the
 * answer to one takes, about; for all of them and their outputs memory is set aside until the answer is out.
 * They are to be answered by deadline_us. NULL with request->refusal set, and *retry_after (seconds) where
 * another try makes sense at a time that is known; NULL without a refusal when memory is out. On the HTTP
 * thread. */
struct convoy_inference_request *convoy_admit(struct convoy_request *request,
                                              const struct convoy_pipeline *pipeline,
                                              struct convoy_model_view *view, size_t count,
                                              uint64_t row_bytes, enum convoy_priority priority,
                                              uint64_t deadline_us, int *retry_after);

#endif
