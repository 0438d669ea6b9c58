#include "engine/onnx/tensor.h"

#include "engine/onnx/file.h"
#include "engine/onnx/guard.h"

#include <onnx/onnx.pb-c.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "raw tensor data is little-endian and is used as it lies"
#endif

/* IEEE 754 binary16 to binary32: exact. */
static float from_half(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = (half >> 10) & 0x1F, fraction = half & 0x3FF;
    uint32_t bits;
    if (exponent == 0x1F) {
        bits = sign | 0x7F800000 | (fraction << 13);
    } else if (exponent != 0) {
        bits = sign | ((exponent + 112) << 23) | (fraction << 13);
    } else {
        float value = (float)fraction * 0x1p-24F;
        memcpy(&bits, &value, sizeof bits);
        bits |= sign;
    }
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float from_bfloat(uint16_t bfloat)
{
    uint32_t bits = (uint32_t)bfloat << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

const char *onnx_type_name(int32_t type)
{
    static const char *const names[] = {
        "undefined", "float32", "uint8",  "int8",   "uint16", "int16",     "int32",      "int64",   "string",
        "bool",      "float16", "double", "uint32", "uint64", "complex64", "complex128", "bfloat16"};
    return type >= 0 && (size_t)type < sizeof names / sizeof names[0] ? names[type] : "an unknown type";
}

/* Bytes of an element in raw_data; 0 for types that are not supported. */
static size_t element_bytes(int32_t type)
{
    switch (type) {
    case ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE:
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT64:
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT64:
        return 8;
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT:
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT32:
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT32:
        return 4;
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16:
    case ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16:
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT16:
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT16:
        return 2;
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT8:
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT8:
    case ONNX__TENSOR_PROTO__DATA_TYPE__BOOL:
        return 1;
    default:
        return 0;
    }
}

static bool is_float_type(int32_t type)
{
    return type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT || type == ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE ||
           type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16 || type == ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16;
}

static float raw_float(const uint8_t *bytes, int32_t type)
{
    uint16_t half;
    double wide;
    float value;
    switch (type) {
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16:
        memcpy(&half, bytes, sizeof half);
        return from_half(half);
    case ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16:
        memcpy(&half, bytes, sizeof half);
        return from_bfloat(half);
    case ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE:
        memcpy(&wide, bytes, sizeof wide);
        return (float)wide;
    default:
        memcpy(&value, bytes, sizeof value);
        return value;
    }
}

/* uint64 values above INT64_MAX wrap to negative ones, which every user of an integer here refuses. */
static int64_t raw_int(const uint8_t *bytes, int32_t type)
{
    uint64_t bits = 0;
    size_t size = element_bytes(type);
    memcpy(&bits, bytes, size);
    switch (type) {
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT8:
        return (int8_t)bits;
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT16:
        return (int16_t)bits;
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT32:
        return (int32_t)bits;
    default:
        return (int64_t)bits;
    }
}

static int64_t typed_int(const Onnx__TensorProto *proto, size_t i)
{
    switch (proto->data_type) {
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT64:
        return proto->int64_data[i];
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT32:
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT64:
        return (int64_t)proto->uint64_data[i];
    default:
        return proto->int32_data[i];
    }
}

static float typed_float(const Onnx__TensorProto *proto, size_t i)
{
    switch (proto->data_type) {
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT:
        return proto->float_data[i];
    case ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE:
        return (float)proto->double_data[i];
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16:
        return from_half((uint16_t)proto->int32_data[i]);
    default:
        return from_bfloat((uint16_t)proto->int32_data[i]);
    }
}

static size_t typed_count(const Onnx__TensorProto *proto)
{
    switch (proto->data_type) {
    case ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT:
        return proto->n_float_data;
    case ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE:
        return proto->n_double_data;
    case ONNX__TENSOR_PROTO__DATA_TYPE__INT64:
        return proto->n_int64_data;
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT32:
    case ONNX__TENSOR_PROTO__DATA_TYPE__UINT64:
        return proto->n_uint64_data;
    default:
        return proto->n_int32_data;
    }
}

static const char *name_of(const Onnx__TensorProto *proto)
{
    return proto->name != NULL && proto->name[0] != '\0' ? proto->name : "(unnamed)";
}

static int read_shape(const Onnx__TensorProto *proto, struct convoy_shape *shape, struct convoy_error *error)
{
    *shape = (struct convoy_shape){.batch_axis = -1};
    if (proto->n_dims > CONVOY_MAX_RANK)
        return convoy_fail(error, -EINVAL, "tensor '%.80s' has %zu dimensions, more than %d", name_of(proto),
                           proto->n_dims, CONVOY_MAX_RANK);
    shape->rank = (int)proto->n_dims;
    int64_t elements = 1; /* a dimension of zero counts as one: it must not hide what others multiply to */
    for (int axis = 0; axis < shape->rank; axis++) {
        shape->dims[axis] = proto->dims[axis];
        if (proto->dims[axis] < 0)
            return convoy_fail(error, -EINVAL, "tensor '%.80s' has a negative dimension, %" PRId64,
                               name_of(proto), proto->dims[axis]);
        if (__builtin_mul_overflow(elements, proto->dims[axis] > 0 ? proto->dims[axis] : 1, &elements) ||
            elements > INT32_MAX)
            return convoy_fail(error, -EINVAL, "tensor '%.80s' has more than 2^31-1 elements",
                               name_of(proto));
    }
    return 0;
}

struct source {
    const char *location;
    uint64_t offset, length;
    bool has_length;
};

static bool parse_number(const char *text, uint64_t *number)
{
    char *end;
    errno = 0;
    *number = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0;
}

static int read_source(const Onnx__TensorProto *proto, struct source *source, struct convoy_error *error)
{
    *source = (struct source){0};
    for (size_t i = 0; i < proto->n_external_data; i++) {
        const Onnx__StringStringEntryProto *entry = proto->external_data[i];
        if (entry->key == NULL || entry->value == NULL)
            continue;
        bool good = true;
        if (strcmp(entry->key, "location") == 0) {
            source->location = entry->value;
        } else if (strcmp(entry->key, "offset") == 0) {
            good = parse_number(entry->value, &source->offset);
        } else if (strcmp(entry->key, "length") == 0) {
            good = parse_number(entry->value, &source->length);
            source->has_length = true;
        }
        if (!good)
            return convoy_fail(error, -EINVAL,
                               "tensor '%.80s' has external data with the %s '%.40s', no number",
                               name_of(proto), entry->key, entry->value);
    }
    if (source->location == NULL)
        return convoy_fail(error, -EINVAL, "tensor '%.80s' has external data without a location",
                           name_of(proto));
    return 0;
}

/* The tensor's raw bytes, malloc'ed, wherever they lie: *raw is the caller's. Inline bytes are taken from
 * proto. */
static int take_raw(Onnx__TensorProto *proto, const char *folder, uint64_t needed, void **raw,
                    struct convoy_error *error)
{
    uint64_t found = proto->raw_data.len;
    if (proto->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL) {
        struct source source;
        int status = read_source(proto, &source, error);
        if (status != 0)
            return status;
        if (folder == NULL)
            return convoy_fail(error, -ENOTSUP, "tensor '%.80s' has external data, which cannot be used here",
                               name_of(proto));
        found = source.has_length ? source.length : needed;
        if (found == needed) {
            status = onnx_read_external(folder, source.location, source.offset, needed, raw, error);
            return status == 0 ? 0 : convoy_fail_in(error, status, "tensor '%.80s'", name_of(proto));
        }
    }
    if (found != needed)
        return convoy_fail(error, -EINVAL,
                           "tensor '%.80s' has %" PRIu64 " bytes of data where its shape asks for %" PRIu64,
                           name_of(proto), found, needed);
    *raw = proto->raw_data.data;
    proto->raw_data = (ProtobufCBinaryData){0};
    return 0;
}

static int decode_raw(Onnx__TensorProto *proto, const char *folder, size_t elements,
                      struct convoy_onnx_tensor *tensor, struct convoy_error *error)
{
    size_t size = element_bytes(proto->data_type);
    void *raw = NULL;
    int status = take_raw(proto, folder, (uint64_t)elements * size, &raw, error);
    if (status != 0 || elements == 0) {
        free(raw);
        return status;
    }
    if (proto->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT) {
        tensor->floats = raw;
        return 0;
    }
    void *values = calloc(elements, tensor->is_int64 ? sizeof(int64_t) : sizeof(float));
    if (values == NULL) {
        free(raw);
        return convoy_fail(error, -ENOMEM, "out of memory for tensor '%.80s'", name_of(proto));
    }
    tensor->ints = tensor->is_int64 ? values : NULL;
    tensor->floats = tensor->is_int64 ? NULL : values;
    const uint8_t *bytes = raw;
    for (size_t i = 0; i < elements; i++, bytes += size) {
        if (tensor->is_int64)
            tensor->ints[i] = raw_int(bytes, proto->data_type);
        else
            tensor->floats[i] = raw_float(bytes, proto->data_type);
    }
    free(raw);
    return 0;
}

static int decode_typed(const Onnx__TensorProto *proto, size_t elements, struct convoy_onnx_tensor *tensor,
                        struct convoy_error *error)
{
    if (typed_count(proto) != elements)
        return convoy_fail(error, -EINVAL, "tensor '%.80s' has %zu values where its shape asks for %zu",
                           name_of(proto), typed_count(proto), elements);
    if (elements == 0)
        return 0;
    void *values = calloc(elements, tensor->is_int64 ? sizeof(int64_t) : sizeof(float));
    if (values == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for tensor '%.80s'", name_of(proto));
    tensor->ints = tensor->is_int64 ? values : NULL;
    tensor->floats = tensor->is_int64 ? NULL : values;
    for (size_t i = 0; i < elements; i++) {
        if (tensor->is_int64)
            tensor->ints[i] = typed_int(proto, i);
        else
            tensor->floats[i] = typed_float(proto, i);
    }
    return 0;
}

int onnx_decode_tensor(Onnx__TensorProto *proto, const char *folder, struct convoy_onnx_tensor *tensor,
                       struct convoy_error *error)
{
    *tensor = (struct convoy_onnx_tensor){.data_type = proto->data_type};
    tensor->is_int64 = !is_float_type(proto->data_type);
    int status = read_shape(proto, &tensor->shape, error);
    if (status != 0)
        return status;
    if (element_bytes(proto->data_type) == 0 || proto->segment != NULL)
        return convoy_fail(error, -ENOTSUP,
                           "tensor '%.80s' is of type %s or in segments, which convoyd does not read; to "
                           "serve the model, export it with constants of another type, e.g. float32",
                           name_of(proto), onnx_type_name(proto->data_type));
    size_t elements = (size_t)convoy_shape_elements(&tensor->shape);
    if (proto->has_raw_data || proto->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
        return decode_raw(proto, folder, elements, tensor, error);
    return decode_typed(proto, elements, tensor, error);
}

void convoy_onnx_tensor_free(struct convoy_onnx_tensor *tensor)
{
    free(tensor->floats);
    free(tensor->ints);
    tensor->floats = NULL;
    tensor->ints = NULL;
}

int convoy_onnx_read_tensor_pb(const char *path, struct convoy_onnx_tensor *tensor,
                               struct convoy_error *error)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    int status = onnx_read_file(path, &bytes, &size, error);
    if (status != 0)
        return status;
    Onnx__TensorProto *proto = NULL;
    status = onnx_guard(bytes, size, ONNX_TENSOR, error);
    if (status == 0) {
        proto = onnx__tensor_proto__unpack(NULL, size, bytes);
        status = proto == NULL ? convoy_fail(error, -EINVAL, "the file is damaged: it is no TensorProto")
                               : onnx_decode_tensor(proto, NULL, tensor, error);
    }
    free(bytes);
    if (proto != NULL)
        onnx__tensor_proto__free_unpacked(proto, NULL);
    return status == 0 ? 0 : convoy_fail_in(error, status, "%.200s", path);
}
