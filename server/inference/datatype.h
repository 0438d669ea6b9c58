/* The datatypes of tensors that clients send (Open Inference Protocol, "Tensor Data Types"), as far as their
 * values become float32 without loss. */
#ifndef CONVOY_SERVER_DATATYPE_H
#define CONVOY_SERVER_DATATYPE_H

#include "engine/base/error.h"
#include "engine/base/input_type.h"

#include <stdbool.h>
#include <stddef.h>

enum convoy_datatype {
    CONVOY_FP32,
    CONVOY_FP16,
    CONVOY_BF16,
    CONVOY_INT8,
    CONVOY_INT16,
    CONVOY_UINT16,
    CONVOY_UINT8, /* pixels: the model's configuration says what they mean to the network, which may read
                     uint8 itself */
    CONVOY_BYTES  /* image files */
};

/* -EINVAL for what the protocol does not know or what loses bits in float32, e.g. INT64; the sentence lists
 * what is taken. */
int convoy_datatype_parse(const char *name, enum convoy_datatype *type, struct convoy_error *error);

/* That of a tensor that is what the network declares. */
enum convoy_datatype convoy_datatype_of(enum convoy_input_type type);

const char *convoy_datatype_name(enum convoy_datatype type);

/* Of an element; 0 for BYTES, whose elements differ. */
size_t convoy_datatype_bytes(enum convoy_datatype type);

/* The least and greatest whole number of an integer type; false for the others. */
bool convoy_datatype_range(enum convoy_datatype type, double *least, double *most);

/* count little-endian elements of a numeric type, at any address, to float32. FP16 and BF16 keep infinities
 * and NaN. */
void convoy_datatype_to_float(enum convoy_datatype type, const void *bytes, size_t count, float *values);

#endif
