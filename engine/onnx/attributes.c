#include "engine/onnx/attributes.h"

#include "engine/onnx/constants.h"
#include "engine/onnx/emit.h"
#include "engine/onnx/fail.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

const Onnx__AttributeProto *onnx_attribute(const struct onnx_importer *importer, const char *name)
{
    for (size_t i = 0; i < importer->node->n_attribute; i++) {
        const Onnx__AttributeProto *attribute = importer->node->attribute[i];
        if (attribute->name != NULL && strcmp(attribute->name, name) == 0)
            return attribute;
    }
    return NULL;
}

/* The type is checked as the file states it. (Files of before IR version 4 may leave the type out.) */
static int check_type(struct onnx_importer *importer, const Onnx__AttributeProto *attribute,
                      Onnx__AttributeProto__AttributeType type, bool present)
{
    bool stated = attribute->has_type && attribute->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED;
    if ((stated && attribute->type != type) || !present)
        return onnx_fail(importer, -EINVAL, "attribute '%.40s' is not of the type that the operator asks for",
                         attribute->name);
    return 0;
}

int onnx_attribute_int(struct onnx_importer *importer, const char *name, int64_t absent, int64_t *value)
{
    const Onnx__AttributeProto *attribute = onnx_attribute(importer, name);
    *value = absent;
    if (attribute == NULL)
        return 0;
    *value = attribute->i;
    /* A writer may leave out a zero. */
    return check_type(importer, attribute, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT,
                      attribute->has_i || attribute->has_type);
}

int onnx_attribute_float(struct onnx_importer *importer, const char *name, float absent, float *value)
{
    const Onnx__AttributeProto *attribute = onnx_attribute(importer, name);
    *value = absent;
    if (attribute == NULL)
        return 0;
    *value = attribute->f;
    return check_type(importer, attribute, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT,
                      attribute->has_f || attribute->has_type);
}

/* protobuf-c ends bytes with no NUL: known words are all that a string attribute of ours can be. */
int onnx_attribute_string(struct onnx_importer *importer, const char *name, const char *absent,
                          const char **value)
{
    static const char *const words[] = {"NOTSET",  "SAME_UPPER", "SAME_LOWER", "VALID",  "constant",
                                        "reflect", "edge",       "wrap",       "none",   "tanh",
                                        "DCR",     "CRD",        "nearest",    "linear", "cubic"};
    const Onnx__AttributeProto *attribute = onnx_attribute(importer, name);
    *value = absent;
    if (attribute == NULL)
        return 0;
    int status =
        check_type(importer, attribute, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING, attribute->has_s != 0);
    if (status != 0)
        return status;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (attribute->s.len == strlen(words[i]) &&
            memcmp(attribute->s.data, words[i], attribute->s.len) == 0) {
            *value = words[i];
            return 0;
        }
    }
    return onnx_fail(importer, -EINVAL, "attribute '%s' has a value that the operator does not know", name);
}

int onnx_attribute_text(struct onnx_importer *importer, const char *name, char *text, size_t capacity)
{
    const Onnx__AttributeProto *attribute = onnx_attribute(importer, name);
    text[0] = '\0';
    if (attribute == NULL)
        return 0;
    int status =
        check_type(importer, attribute, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING, attribute->has_s != 0);
    if (status == 0 && attribute->s.len >= capacity)
        status =
            onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "attribute '%s' is longer than makes sense", name);
    if (status != 0)
        return status;
    if (attribute->s.len > 0)
        memcpy(text, attribute->s.data, attribute->s.len);
    text[attribute->s.len] = '\0';
    return 0;
}

int onnx_attribute_ints(struct onnx_importer *importer, const char *name, int64_t *values, int capacity,
                        int *count)
{
    const Onnx__AttributeProto *attribute = onnx_attribute(importer, name);
    *count = -1;
    if (attribute == NULL)
        return 0;
    int status = check_type(importer, attribute, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS, true);
    if (status != 0)
        return status;
    if (attribute->n_ints > (size_t)capacity)
        return onnx_fail(importer, -EINVAL, "attribute '%s' has %zu numbers where at most %d make sense",
                         name, attribute->n_ints, capacity);
    *count = (int)attribute->n_ints;
    for (int i = 0; i < *count; i++)
        values[i] = attribute->ints[i];
    return 0;
}

int onnx_input_ints(struct onnx_importer *importer, int index, int64_t *values, int capacity, int *count)
{
    *count = -1;
    if (index >= importer->input_count || importer->inputs[index] == NULL)
        return 0;
    const struct onnx_value *value = importer->inputs[index];
    if (value->kind != ONNX_INTS)
        return onnx_refuse(importer, ONNX_CUT, "its input %d, '%.80s', is not made of constant integers",
                           index, value->name);
    int64_t elements = convoy_shape_elements(&value->shape);
    if (value->shape.rank > 1 || elements > capacity)
        return onnx_fail(importer, -EINVAL, "its input %d, '%.80s', has more numbers than make sense", index,
                         value->name);
    *count = (int)elements;
    for (int i = 0; i < *count; i++) {
        if (value->ints[i].batch != 0 && importer->batch != 1)
            return onnx_refuse(importer, ONNX_BATCH_OF_ONE,
                               "its input %d, '%.80s', depends on the batch size", index, value->name);
        values[i] = value->ints[i].fixed + value->ints[i].batch;
    }
    return 0;
}

int onnx_input_scalar(struct onnx_importer *importer, int index, double absent, double *value)
{
    *value = absent;
    if (index >= importer->input_count || importer->inputs[index] == NULL)
        return 0;
    const struct onnx_value *input = importer->inputs[index];
    if (input->kind == ONNX_ACTIVATION || convoy_shape_elements(&input->shape) != 1)
        return onnx_refuse(importer, ONNX_CUT, "its input %d, '%.80s', is not one constant number", index,
                           input->name);
    if (input->kind == ONNX_INTS && input->ints[0].batch != 0 && importer->batch != 1)
        return onnx_refuse(importer, ONNX_BATCH_OF_ONE, "its input %d, '%.80s', depends on the batch size",
                           index, input->name);
    *value = input->kind == ONNX_INTS ? (double)(input->ints[0].fixed + input->ints[0].batch)
                                      : onnx_floats(importer, input)[0];
    return 0;
}

int onnx_ints_of_either_form(struct onnx_importer *importer, int64_t since, int index, const char *attribute,
                             int64_t *values, int capacity, int *count)
{
    if (importer->opset >= since)
        return onnx_input_ints(importer, index, values, capacity, count);
    return onnx_attribute_ints(importer, attribute, values, capacity, count);
}

bool onnx_is_given(const struct onnx_importer *importer, int index)
{
    return index < importer->input_count && importer->inputs[index] != NULL;
}

int onnx_need_input(struct onnx_importer *importer, int index, const struct onnx_value **value)
{
    *value = index < importer->input_count ? importer->inputs[index] : NULL;
    return *value != NULL ? 0 : onnx_fail(importer, -EINVAL, "its input %d is missing", index);
}

static int ints_as_floats(struct onnx_importer *importer, const struct onnx_value *value, int *tensor)
{
    void *data;
    int64_t elements = convoy_shape_elements(&value->shape);
    if (elements == 0)
        return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "its input '%.80s' is an empty tensor",
                           value->name);
    for (int64_t i = 0; i < elements; i++)
        if (value->ints[i].image != 0)
            return onnx_refuse(importer, ONNX_BATCH_OF_ONE, "its input '%.80s' counts the images of a batch",
                               value->name);
        else if (value->ints[i].batch != 0 && importer->batch != 1)
            return onnx_refuse(importer, ONNX_BATCH_OF_ONE, "it computes with the batch size, '%.80s'",
                               value->name);
    int status = onnx_allocate(importer, &value->shape, false, &data);
    if (status != 0)
        return status;
    for (int64_t i = 0; i < elements; i++)
        ((float *)data)[i] = (float)(value->ints[i].fixed + value->ints[i].batch);
    struct convoy_shape shape = value->shape;
    shape.batch_axis = -1;
    status = onnx_emit_constant(importer, value->name, &shape, data, tensor);
    if (status == 0 && value->shape.batch_axis >= 0)
        status = onnx_emit_for_each_image(importer, *tensor, &value->shape, tensor);
    return status;
}

int onnx_need_tensor(struct onnx_importer *importer, int index, int *tensor)
{
    const struct onnx_value *value;
    int status = onnx_need_input(importer, index, &value);
    if (status != 0 || value == NULL)
        return status;
    *tensor = value->tensor;
    return value->kind == ONNX_INTS ? ints_as_floats(importer, value, tensor) : 0;
}

int onnx_need_floats(struct onnx_importer *importer, int index, const char *what,
                     const struct onnx_value **value)
{
    *value = index < importer->input_count ? importer->inputs[index] : NULL;
    if (*value == NULL)
        return onnx_fail(importer, -EINVAL, "its input %d, the %s, is missing", index, what);
    if ((*value)->kind != ONNX_FLOATS)
        return onnx_refuse(importer, ONNX_CUT, "its %s, '%.80s', is not a constant of floating-point numbers",
                           what, (*value)->name);
    return 0;
}

const float *onnx_floats(const struct onnx_importer *importer, const struct onnx_value *value)
{
    return importer->graph->tensors[value->tensor].data;
}

int onnx_settle_axis(struct onnx_importer *importer, int64_t axis, int limit, int *settled)
{
    if (axis < -(int64_t)limit || axis >= limit)
        return onnx_fail(importer, -EINVAL, "axis %" PRId64 " is outside a tensor of %d dimensions", axis,
                         limit);
    *settled = (int)(axis < 0 ? axis + limit : axis);
    return 0;
}

int onnx_need_constant(struct onnx_importer *importer, int index, const struct onnx_value **value)
{
    int status = onnx_need_input(importer, index, value);
    if (status == 0 && *value != NULL && (*value)->kind == ONNX_ACTIVATION)
        return onnx_refuse(importer, ONNX_CUT,
                           "it works on what depends on the model's input, which is not supported");
    return status;
}

const uint8_t *onnx_bytes(const struct onnx_importer *importer, const struct onnx_value *value, size_t *size)
{
    *size = value->kind == ONNX_INTS ? sizeof(struct onnx_int) : sizeof(float);
    return value->kind == ONNX_INTS ? (const void *)value->ints : (const void *)onnx_floats(importer, value);
}

int onnx_input_shape(struct onnx_importer *importer, int index, struct convoy_shape *shape)
{
    const struct onnx_value *value;
    int status = onnx_need_input(importer, index, &value);
    if (status != 0 || value == NULL)
        return status;
    if (value->kind != ONNX_INTS || value->shape.rank > 1 ||
        convoy_shape_elements(&value->shape) > CONVOY_MAX_RANK)
        return onnx_refuse(importer, ONNX_CUT, "its shape is not a list of up to %d known integers",
                           CONVOY_MAX_RANK);
    *shape = (struct convoy_shape){.rank = (int)convoy_shape_elements(&value->shape), .batch_axis = -1};
    for (int axis = 0; axis < shape->rank; axis++) {
        struct onnx_int dim = value->ints[axis];
        if (dim.batch != 0 && (dim.fixed != 0 || dim.batch < 0 || shape->batch_axis >= 0))
            return onnx_refuse(importer, ONNX_BATCH_OF_ONE,
                               "the batch size enters the shape that it asks for in a way that cannot be "
                               "followed");
        if (dim.batch != 0)
            shape->batch_axis = axis;
        shape->dims[axis] = dim.batch != 0 ? dim.batch : dim.fixed;
        if (shape->dims[axis] < 0)
            return onnx_fail(importer, -EINVAL, "it asks for a dimension of %" PRId64, shape->dims[axis]);
    }
    return 0;
}
