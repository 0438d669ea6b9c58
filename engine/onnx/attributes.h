/* Attributes and inputs of the node that is being read, checked and converted. `absent` is the value for a
 * missing one. */
#ifndef CONVOY_ENGINE_ONNX_ATTRIBUTES_H
#define CONVOY_ENGINE_ONNX_ATTRIBUTES_H

#include "engine/onnx/importer.h"

/* NULL if the node has no such attribute. */
const Onnx__AttributeProto *onnx_attribute(const struct onnx_importer *importer, const char *name);
int onnx_attribute_int(struct onnx_importer *importer, const char *name, int64_t absent, int64_t *value);
int onnx_attribute_float(struct onnx_importer *importer, const char *name, float absent, float *value);
/* One of the words that operators know, or an error; *value is a literal. */
int onnx_attribute_string(struct onnx_importer *importer, const char *name, const char *absent,
                          const char **value);
/* Any text, up to capacity - 1 characters, copied; "" where the attribute is absent. */
int onnx_attribute_text(struct onnx_importer *importer, const char *name, char *text, size_t capacity);
/* *count is -1 where the attribute is absent; else values[0 .. *count) is filled; more than capacity is
 * refused. */
int onnx_attribute_ints(struct onnx_importer *importer, const char *name, int64_t *values, int capacity,
                        int *count);

/* Input `index` as numbers that do not depend on the batch (with a batch of 1 in the file they are what they
 * are for one image). *count is -1 where the input is left out. */
int onnx_input_ints(struct onnx_importer *importer, int index, int64_t *values, int capacity, int *count);
/* Input `index` as a shape; one of its dimensions may be a multiple of the batch. */
int onnx_input_shape(struct onnx_importer *importer, int index, struct convoy_shape *shape);
/* Input `index` as one number; absent where it is left out. Takes floats and ints. */
int onnx_input_scalar(struct onnx_importer *importer, int index, double absent, double *value);
/* Ints from input `index`, or from the attribute where the opset is older than `since`. */
int onnx_ints_of_either_form(struct onnx_importer *importer, int64_t since, int index, const char *attribute,
                             int64_t *values, int capacity, int *count);
/* Has the node input `index`? Optional ones may be left out. */
bool onnx_is_given(const struct onnx_importer *importer, int index);
/* Input `index`; an error unless it is there. */
int onnx_need_input(struct onnx_importer *importer, int index, const struct onnx_value **value);
/* *tensor is input `index` as a tensor of the graph: an activation, or a constant, which is made one of
 * floats where it is one of integers. */
int onnx_need_tensor(struct onnx_importer *importer, int index, int *tensor);
/* Input `index`; an error unless it is there and is a constant of floats. `what` names it in the sentence. */
int onnx_need_floats(struct onnx_importer *importer, int index, const char *what,
                     const struct onnx_value **value);
/* The values of a constant of floats; they belong to the graph. */
const float *onnx_floats(const struct onnx_importer *importer, const struct onnx_value *value);
/* Input `index`; an error unless it is there and is a constant. */
int onnx_need_constant(struct onnx_importer *importer, int index, const struct onnx_value **value);
/* The elements of a constant, each of *size bytes (struct onnx_int, or float). */
const uint8_t *onnx_bytes(const struct onnx_importer *importer, const struct onnx_value *value, size_t *size);
/* Converts an axis that may be negative (counted from the end) to one in [0, limit), or refuses it. */
int onnx_settle_axis(struct onnx_importer *importer, int64_t axis, int limit, int *settled);

#endif
