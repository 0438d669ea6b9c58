/* Decodes a TensorProto: weights, constants, and the inputs and outputs of conformance cases. */
#ifndef CONVOY_ENGINE_ONNX_TENSOR_H
#define CONVOY_ENGINE_ONNX_TENSOR_H

#include "engine/graph/graph.h"

/* Values are either floats (from float, double, float16, bfloat16) or ints (from every integer type and
 * bool); the other pointer is NULL. Both are NULL for a tensor of 0 elements, where is_int64 still tells. */
struct convoy_onnx_tensor {
    struct convoy_shape shape; /* batch_axis -1 */
    bool is_int64;
    int32_t data_type; /* TensorProto.DataType as it stands in the file, e.g. 1 for float */
    float *floats;
    int64_t *ints;
};

/* Reads a file that holds one TensorProto (test_data_set_0/input_0.pb). On success *tensor is the caller's to
 * free. Returns 0, -ENOENT, -EINVAL (damaged), -ENOTSUP (strings, complex numbers, sequences), -EIO or
 * -ENOMEM. Any thread. */
int convoy_onnx_read_tensor_pb(const char *path, struct convoy_onnx_tensor *tensor,
                               struct convoy_error *error);

/* Frees what a tensor holds, not the struct; accepts one that is all zero. */
void convoy_onnx_tensor_free(struct convoy_onnx_tensor *tensor);

struct Onnx__TensorProto; /* the generated parser's */

/* Decodes one unpacked tensor; external data is looked for in folder (NULL: refused). Float32 raw data is
 * taken out of proto instead of being copied, so that a tensor is decoded once at most. Same errors; the
 * sentence names the tensor. */
int onnx_decode_tensor(struct Onnx__TensorProto *proto, const char *folder, struct convoy_onnx_tensor *tensor,
                       struct convoy_error *error);

/* "float16" for TensorProto.DataType 10, and so on; "an unknown type" for what onnx.proto does not know. */
const char *onnx_type_name(int32_t type);

#endif
