/* The answer to an inference request whose samples are done. */
#ifndef CONVOY_SERVER_OIP_INFER_ANSWER_H
#define CONVOY_SERVER_OIP_INFER_ANSWER_H

#include "engine/base/json_writer.h"
#include "server/inference/inference_request.h"
#include "server/inference/tensor_request.h"

#include <stddef.h>
#include <stdint.h>

/* How many numbers the JSON will have: the cost of writing it is in proportion. */
uint64_t convoy_oip_infer_numbers(const struct convoy_tensor_request *tensors,
                                  const struct convoy_inference_request *inference);

/* How many bytes the answer takes for each row, about. */
uint64_t convoy_oip_infer_row_bytes(const struct convoy_tensor_request *tensors,
                                    const struct convoy_model_shape *shape);

/* Appends the JSON and, behind it, the outputs that were wanted in binary; writes those that were wanted in
 * shared memory there. *json_length: of the JSON, where something lies behind it, else 0. Errors are -ENOMEM
 * and those of convoy_shared_memory_write(). */
int convoy_oip_infer_write(const struct convoy_tensor_request *tensors,
                           const struct convoy_inference_request *inference, struct convoy_json_writer *json,
                           size_t *json_length, struct convoy_error *error);

#endif
