/* Attention (opset 23) without a cache: softmax(scale Q K^T + mask) V, for each head (Vaswani et al.,
 * Attention Is All You Need, 2017). */
#include "engine/onnx/attributes.h"
#include "engine/onnx/constants.h"
#include "engine/onnx/emit.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/importer.h"
#include "engine/onnx/ops.h"
#include "engine/onnx/results.h"
#include "engine/onnx/shapes.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Input `index` as N x heads x length x d; of three dimensions it is N x length x (heads d). */
static int heads_of(struct onnx_importer *importer, int index, const char *attribute, int *tensor)
{
    static const int perm[4] = {0, 2, 1, 3};
    int64_t heads;
    int status = onnx_need_tensor(importer, index, tensor);
    if (status == 0)
        status = onnx_attribute_int(importer, attribute, 0, &heads);
    if (status != 0)
        return status;
    struct convoy_shape shape = importer->graph->tensors[*tensor].shape;
    if (shape.batch_axis > 0 || shape.rank < 3 || shape.rank > 4)
        return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "its input %d is not N x heads x length x size",
                           index);
    if (shape.rank == 4)
        return 0;
    if (heads < 1 || shape.dims[2] % heads != 0)
        return onnx_fail(importer, -EINVAL, "its %s does not divide its input %d", attribute, index);
    shape.rank = 4;
    shape.dims[3] = shape.dims[2] / heads;
    shape.dims[2] = heads;
    status = onnx_emit_reshape(importer, *tensor, &shape, tensor);
    return status == 0 ? onnx_emit_transpose(importer, *tensor, perm, tensor) : status;
}

/* Repeats each head of keys or values for as many heads of queries as share it. */
static int share_heads(struct onnx_importer *importer, int64_t heads, int *tensor)
{
    struct convoy_shape shape = importer->graph->tensors[*tensor].shape;
    int64_t own = shape.dims[1];
    if (own == heads)
        return 0;
    if (heads % own != 0)
        return onnx_fail(importer, -EINVAL, "its %" PRId64 " heads of keys do not divide its %" PRId64, own,
                         heads);
    struct convoy_shape apart = {.rank = 5,
                                 .batch_axis = shape.batch_axis,
                                 .dims = {shape.dims[0], own, 1, shape.dims[2], shape.dims[3]}};
    int status = onnx_emit_reshape(importer, *tensor, &apart, tensor);
    apart.dims[2] = heads / own;
    if (status == 0)
        status = onnx_emit_expanded(importer, *tensor, &apart, tensor);
    shape.dims[1] = heads;
    return status == 0 ? onnx_emit_reshape(importer, *tensor, &shape, tensor) : status;
}

/* What is added to the scores so that no query sees what comes behind it. */
static int causal_mask(struct onnx_importer *importer, int64_t queries, int64_t keys, int *tensor)
{
    struct convoy_shape shape = {.rank = 2, .batch_axis = -1, .dims = {queries, keys}};
    void *data;
    int status = onnx_allocate(importer, &shape, false, &data);
    if (status != 0)
        return status;
    for (int64_t q = 0; q < queries; q++)
        for (int64_t k = 0; k < keys; k++)
            ((float *)data)[q * keys + k] = k > q ? -INFINITY : 0;
    return onnx_emit_constant(importer, "mask", &shape, data, tensor);
}

/* A constant mask as what is added to the scores: truth values (ints) become 0 and -infinity. */
static int additive_mask(struct onnx_importer *importer, int *tensor)
{
    const struct onnx_value *mask = importer->inputs[3];
    void *data;
    if (mask->kind == ONNX_ACTIVATION)
        return onnx_refuse(importer, ONNX_CUT, "its mask depends on the model's input");
    *tensor = mask->tensor;
    if (mask->kind == ONNX_FLOATS)
        return 0;
    int status = onnx_allocate(importer, &mask->shape, false, &data);
    if (status != 0)
        return status;
    int64_t elements = convoy_shape_elements(&mask->shape);
    for (int64_t i = 0; i < elements; i++)
        ((float *)data)[i] = mask->ints[i].fixed != 0 ? 0 : -INFINITY;
    return onnx_emit_constant(importer, "mask", &mask->shape, data, tensor);
}

/* A row whose keys are all masked has no softmax. */
static int check_rows(struct onnx_importer *importer, int mask, int64_t queries, int64_t keys, bool causal)
{
    const struct convoy_shape *shape = &importer->graph->tensors[mask].shape;
    const float *data = importer->graph->tensors[mask].data;
    int64_t columns = shape->rank > 0 ? shape->dims[shape->rank - 1] : 1;
    int64_t rows = shape->rank > 1 ? shape->dims[shape->rank - 2] : 1;
    if (data == NULL || (columns != 1 && columns != keys) || (rows != 1 && rows != queries))
        return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "its mask is not of queries and keys");
    int64_t matrices = convoy_shape_elements(shape) / (rows * columns);
    for (int64_t i = 0; i < matrices * queries; i++) {
        int64_t query = i % queries, row = i / queries * rows + (rows > 1 ? query : 0);
        bool any = false;
        for (int64_t k = 0; k < keys && !any && !(causal && k > query); k++)
            any = data[row * columns + (columns > 1 ? k : 0)] > -INFINITY;
        if (!any)
            return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "its mask leaves a query without any key");
    }
    return 0;
}

static int check_form(struct onnx_importer *importer)
{
    static const char *const known[] = {
        "scale",   "is_causal",         "q_num_heads",          "kv_num_heads",
        "softcap", "softmax_precision", "qk_matmul_output_mode"};
    int64_t mode;
    float softcap;
    for (size_t i = 0; i < importer->node->n_attribute; i++) {
        const char *name = importer->node->attribute[i]->name;
        bool is_known = false;
        for (size_t k = 0; name != NULL && k < sizeof known / sizeof known[0]; k++)
            is_known |= strcmp(name, known[k]) == 0;
        if (!is_known)
            return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "its attribute '%.40s' is not supported",
                               name != NULL ? name : "");
    }
    int status = onnx_attribute_float(importer, "softcap", 0, &softcap);
    if (status == 0)
        status = onnx_attribute_int(importer, "qk_matmul_output_mode", 0, &mode);
    if (status != 0)
        return status;
    if (softcap != 0)
        return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE, "its softcap is not supported");
    for (int i = 4; i < importer->input_count; i++)
        if (importer->inputs[i] != NULL)
            return onnx_refuse(importer, ONNX_EXPORT_OTHERWISE,
                               "it has a cache of keys and values, which is not supported");
    return 0;
}

static int emit_scores(struct onnx_importer *importer, int q, int k, int *scores)
{
    const struct convoy_shape queries = importer->graph->tensors[q].shape;
    const struct convoy_shape keys = importer->graph->tensors[k].shape;
    int64_t causal;
    int mask = -1;
    float scale;
    int status = onnx_attribute_float(importer, "scale", 1 / sqrtf((float)queries.dims[3]), &scale);
    if (status == 0)
        status = onnx_attribute_int(importer, "is_causal", 0, &causal);
    if (status == 0)
        status = onnx_emit_turned(importer, k, &k);
    if (status == 0)
        status = onnx_emit_matmul(importer, q, k, scores);
    if (status == 0)
        status = onnx_emit_with_scalar(importer, CONVOY_MUL, *scores, (double)scale, scores);
    if (status == 0 && causal != 0) {
        status = causal_mask(importer, queries.dims[2], keys.dims[2], &mask);
        if (status == 0)
            status = onnx_emit_binary(importer, CONVOY_ADD, *scores, mask, scores);
    }
    if (status == 0 && importer->input_count > 3 && importer->inputs[3] != NULL) {
        status = additive_mask(importer, &mask);
        if (status == 0)
            status = check_rows(importer, mask, queries.dims[2], keys.dims[2], causal != 0);
        if (status == 0)
            status = onnx_emit_binary(importer, CONVOY_ADD, *scores, mask, scores);
    }
    return status;
}

static int read_attention(struct onnx_importer *importer)
{
    static const int perm[4] = {0, 2, 1, 3};
    int q, k, v, result;
    int status = check_form(importer);
    if (status == 0)
        status = heads_of(importer, 0, "q_num_heads", &q);
    if (status == 0)
        status = heads_of(importer, 1, "kv_num_heads", &k);
    if (status == 0)
        status = heads_of(importer, 2, "kv_num_heads", &v);
    if (status != 0)
        return status;
    bool flat = importer->inputs[0]->shape.rank == 3;
    int64_t heads = importer->graph->tensors[q].shape.dims[1];
    status = share_heads(importer, heads, &k);
    if (status == 0)
        status = share_heads(importer, heads, &v);
    if (status == 0)
        status = emit_scores(importer, q, k, &result);
    if (status == 0)
        status = onnx_emit_softmax(importer, result, 3, 4, false, &result);
    if (status == 0)
        status = onnx_emit_matmul(importer, result, v, &result);
    if (status == 0 && flat) {
        status = onnx_emit_transpose(importer, result, perm, &result);
        if (status != 0)
            return status;
        struct convoy_shape shape = importer->graph->tensors[result].shape;
        shape.rank = 3;
        shape.dims[2] *= shape.dims[3];
        status = onnx_emit_reshape(importer, result, &shape, &result);
    }
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

const struct onnx_operator onnx_attention_operators[] = {
    {"Attention", 3, 6, read_attention, ONNX_FILE_ORDER},
    {NULL, 0, 0, NULL, ONNX_ANY_ORDER},
};
