#include "engine/onnx/guard.h"

#include <errno.h>
#include <stdbool.h>

/* The messages of onnx.proto, as far as they nest. The first two are enum onnx_message. */
enum {
    MODEL = ONNX_MODEL,
    TENSOR = ONNX_TENSOR,
    LEAF, /* no messages inside */
    GRAPH,
    NODE,
    ATTRIBUTE,
    SPARSE_TENSOR,
    VALUE_INFO,
    TYPE,
    TYPE_TENSOR,   /* TypeProto.Tensor and .SparseTensor */
    TYPE_SEQUENCE, /* and .Optional */
    TYPE_MAP,
    SHAPE,
    ANNOTATION,
    TRAINING,
    FUNCTION,
    MESSAGES
};

/* One field that holds a message. */
struct field {
    uint8_t number, message;
    bool repeated;
};

#define MAX_MESSAGE_FIELDS 8 /* and a zero at the end; numbers below 32, for the mask of those seen */

/* Also the fields that later versions of onnx.proto added (metadata_props of nodes, graphs, tensors and
 * functions): to this protobuf-c they are unknown bytes, and are walked as what they are. */
static const struct field schema[MESSAGES][MAX_MESSAGE_FIELDS + 1] = {
    [MODEL] =
        {{7, GRAPH, false}, {8, LEAF, true}, {14, LEAF, true}, {20, TRAINING, true}, {25, FUNCTION, true}},
    [TENSOR] = {{3, LEAF, false}, {13, LEAF, true}, {16, LEAF, true}},
    [GRAPH] = {{1, NODE, true},
               {5, TENSOR, true},
               {11, VALUE_INFO, true},
               {12, VALUE_INFO, true},
               {13, VALUE_INFO, true},
               {14, ANNOTATION, true},
               {15, SPARSE_TENSOR, true},
               {16, LEAF, true}},
    [NODE] = {{5, ATTRIBUTE, true}, {9, LEAF, true}},
    [ATTRIBUTE] = {{5, TENSOR, false},
                   {6, GRAPH, false},
                   {10, TENSOR, true},
                   {11, GRAPH, true},
                   {14, TYPE, false},
                   {15, TYPE, true},
                   {22, SPARSE_TENSOR, false},
                   {23, SPARSE_TENSOR, true}},
    [SPARSE_TENSOR] = {{1, TENSOR, false}, {2, TENSOR, false}},
    [VALUE_INFO] = {{2, TYPE, false}, {4, LEAF, true}},
    [TYPE] = {{1, TYPE_TENSOR, false},
              {4, TYPE_SEQUENCE, false},
              {5, TYPE_MAP, false},
              {8, TYPE_TENSOR, false},
              {9, TYPE_SEQUENCE, false}},
    [TYPE_TENSOR] = {{2, SHAPE, false}},
    [TYPE_SEQUENCE] = {{1, TYPE, false}},
    [TYPE_MAP] = {{2, TYPE, false}},
    [SHAPE] = {{1, LEAF, true}},
    [ANNOTATION] = {{2, LEAF, true}},
    [TRAINING] = {{1, GRAPH, false}, {2, GRAPH, false}, {3, LEAF, true}, {4, LEAF, true}},
    [FUNCTION] =
        {{7, NODE, true}, {9, LEAF, true}, {11, ATTRIBUTE, true}, {12, VALUE_INFO, true}, {14, LEAF, true}},
};

struct walk {
    const uint8_t *data;
    size_t at;
    size_t fields;
    struct convoy_error *error;
};

static int damaged(struct walk *walk, const char *what)
{
    return convoy_fail(walk->error, -EINVAL, "the file is damaged: %s at byte %zu", what, walk->at);
}

static int read_varint(struct walk *walk, size_t end, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (walk->at >= end)
            return damaged(walk, "a number runs past the end of its message");
        uint8_t byte = walk->data[walk->at++];
        if (shift == 63 && byte > 1)
            break;
        *value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80)
            return 0;
    }
    return damaged(walk, "a number has more than 64 bits");
}

static const struct field *find_field(int message, uint64_t number)
{
    for (const struct field *field = schema[message]; field->number != 0; field++)
        if (field->number == number)
            return field;
    return NULL;
}

static int skip(struct walk *walk, size_t end, size_t bytes)
{
    if (bytes > end - walk->at)
        return damaged(walk, "a length points past the end");
    walk->at += bytes;
    return 0;
}

/* Depth is bounded by ONNX_MAX_NESTING, so this recursion is. */
// NOLINTNEXTLINE(misc-no-recursion)
static int walk_message(struct walk *walk, size_t end, int message, int depth)
{
    uint32_t seen = 0;
    if (depth > ONNX_MAX_NESTING)
        return convoy_fail(walk->error, -EINVAL,
                           "the file nests messages deeper than %d, which no model needs", ONNX_MAX_NESTING);
    while (walk->at < end) {
        uint64_t key = 0, length = 0;
        if (++walk->fields > ONNX_MAX_FIELDS)
            return convoy_fail(walk->error, -EINVAL, "the file has more than %d fields, which no model needs",
                               ONNX_MAX_FIELDS);
        int status = read_varint(walk, end, &key);
        if (status != 0)
            return status;
        uint64_t number = key >> 3;
        if (number == 0 || number > (1U << 29) - 1)
            return damaged(walk, "a field has an impossible number");
        switch (key & 7) {
        case 0:
            status = read_varint(walk, end, &length);
            break;
        case 1:
            status = skip(walk, end, 8);
            break;
        case 5:
            status = skip(walk, end, 4);
            break;
        case 2: {
            status = read_varint(walk, end, &length);
            if (status != 0)
                break;
            const struct field *field = find_field(message, number);
            if (field == NULL) {
                status = skip(walk, end, length);
                break;
            }
            if (length > end - walk->at)
                return damaged(walk, "a length points past the end");
            /* protobuf-c would merge the two, which no writer asks for. */
            if (!field->repeated && (seen & (1U << number)) != 0)
                return damaged(walk, "a message that belongs there once comes twice");
            seen |= 1U << number;
            status = walk_message(walk, walk->at + length, field->message, depth + 1);
            break;
        }
        default:
            return damaged(walk, "a field has a wire type that protobuf files do not use");
        }
        if (status != 0)
            return status;
    }
    return 0;
}

int onnx_guard(const uint8_t *data, size_t size, enum onnx_message message, struct convoy_error *error)
{
    struct walk walk = {.data = data, .error = error};
    return walk_message(&walk, size, (int)message, 1);
}
