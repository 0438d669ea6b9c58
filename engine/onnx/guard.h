/* A check of a protobuf file's bytes before protobuf-c unpacks them. protobuf-c has no bound on nesting (some
 * thousand nested graphs in 50 KB overflow its stack) and allocates far more bytes than the file has. */
#ifndef CONVOY_ENGINE_ONNX_GUARD_H
#define CONVOY_ENGINE_ONNX_GUARD_H

#include "engine/base/error.h"

#include <stddef.h>
#include <stdint.h>

#define ONNX_MAX_NESTING 64
#define ONNX_MAX_FIELDS  (4 * 1024 * 1024) /* protobuf-c keeps up to some 100 bytes for each */

enum onnx_message { ONNX_MODEL, ONNX_TENSOR }; /* what the whole file is */

/* Returns 0, or -EINVAL with a sentence (without the file's name) for: nesting deeper than ONNX_MAX_NESTING,
 * lengths and numbers past the end, numbers of more than 64 bits, groups and unknown wire types, field number
 * 0, a message twice where the schema has it once, more than ONNX_MAX_FIELDS fields. onnx.proto says which
 * fields are messages. Reads data once, front to back; allocates nothing; any thread. */
int onnx_guard(const uint8_t *data, size_t size, enum onnx_message message, struct convoy_error *error);

#endif
