/* The "data" of a tensor in JSON, straight into numbers: no object is made of each. Any thread. */
#ifndef CONVOY_SERVER_TENSOR_TEXT_H
#define CONVOY_SERVER_TENSOR_TEXT_H

#include "engine/base/error.h"
#include "server/http/multipart.h"
#include "server/inference/datatype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONVOY_TENSOR_RANK 8

struct convoy_tensor_shape {
    uint32_t rank; /* 1 to CONVOY_TENSOR_RANK */
    uint64_t dims[CONVOY_TENSOR_RANK];
    bool instances; /* of KServe's V1 protocol: sentences call the data so, and files are {"b64": "..."} */
};

/* Reads an array of numbers, flat or nested as shape says, into values: uint8_t for UINT8, float32 for every
 * other numeric type, room for all of shape's elements. A number is rounded to the nearest float32; one that
 * is too large for that, or out of an integer type's range, or no integer, is refused. NaN, Inf and Infinity,
 * with a minus or without, are float32. -EINVAL with a sentence that says which. */
int convoy_tensor_numbers(const char *text, size_t length, const struct convoy_tensor_shape *shape,
                          enum convoy_datatype type, void *values, struct convoy_error *error);

/* Reads an array of shape's strings, flat or nested, of base64 (base64.h), or of objects with such a string,
 * and decodes each in place: parts point into text. -EINVAL with a sentence. */
int convoy_tensor_files(char *text, size_t length, const struct convoy_tensor_shape *shape,
                        struct convoy_part *parts, struct convoy_error *error);

/* -EINVAL, and the sentence for data of another size than shape says. */
int convoy_tensor_wrong_count(const struct convoy_tensor_shape *shape, struct convoy_error *error);

/* The product of dims; UINT64_MAX where it would be more than that. */
uint64_t convoy_tensor_elements(const struct convoy_tensor_shape *shape);

#endif
