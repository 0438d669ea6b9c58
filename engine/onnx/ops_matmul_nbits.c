/* MatMulNBits of ONNX Runtime (domain com.microsoft; its ContribOperators.md): a product with a
 * constant matrix whose numbers have 2, 4 or 8 bits each. They are unpacked to floats while the model is
 * read, (number - zero point) * scale, and the product is a dense layer like any other. */
#include "engine/onnx/attributes.h"
#include "engine/onnx/constants.h"
#include "engine/onnx/emit.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/importer.h"
#include "engine/onnx/ops.h"
#include "engine/onnx/results.h"

#include <errno.h>
#include <inttypes.h>

#define SMALLEST_BLOCK 16

/* The matrix, [rows, columns], as it lies in the file: each row in blocks of block_size numbers, the last of
 * which may be filled up with numbers that do not count. A block's numbers fill whole bytes, the first in the
 * low bits. */
struct packed {
    int64_t rows, columns, bits, block_size;
    int64_t blocks;                      /* of a row */
    const struct onnx_int *numbers;      /* bytes: [rows, blocks, block_size * bits / 8] */
    const float *scales;                 /* of each block */
    const struct onnx_int *packed_zeros; /* bytes: each row's blocks' zero points, packed like the numbers */
    const float *zeros;                  /* or a float for each block; where both are NULL it is the middle */
};

static int64_t bytes_of(int64_t numbers, int64_t bits)
{
    return (numbers * bits + 7) / 8;
}

static int read_sizes(struct onnx_importer *importer, struct packed *matrix)
{
    int64_t prepacked;
    int status = onnx_attribute_int(importer, "K", 0, &matrix->columns);
    if (status == 0)
        status = onnx_attribute_int(importer, "N", 0, &matrix->rows);
    if (status == 0)
        status = onnx_attribute_int(importer, "bits", 4, &matrix->bits);
    if (status == 0)
        status = onnx_attribute_int(importer, "block_size", 0, &matrix->block_size);
    if (status == 0)
        status = onnx_attribute_int(importer, "weight_prepacked", 0, &prepacked);
    if (status != 0)
        return status;
    if (prepacked != 0)
        return onnx_refuse(importer, ONNX_EXPORT_PLAIN, "its weights are in the order of a certain GPU");
    if (matrix->bits != 2 && matrix->bits != 4 && matrix->bits != 8)
        return onnx_refuse(importer, ONNX_EXPORT_PLAIN,
                           "its weights have %" PRId64 " bits, convoyd reads 2, 4 and 8", matrix->bits);
    if (matrix->columns < 1 || matrix->columns > INT32_MAX || matrix->rows < 1 || matrix->rows > INT32_MAX)
        return onnx_fail(importer, -EINVAL,
                         "its K and N, %" PRId64 " and %" PRId64 ", are not the sizes of a matrix",
                         matrix->columns, matrix->rows);
    if (matrix->block_size < SMALLEST_BLOCK || matrix->block_size > INT32_MAX ||
        (matrix->block_size & (matrix->block_size - 1)) != 0)
        return onnx_fail(importer, -EINVAL,
                         "its block_size, %" PRId64 ", is not a power of two from %d to 2^30",
                         matrix->block_size, SMALLEST_BLOCK);
    matrix->blocks = (matrix->columns + matrix->block_size - 1) / matrix->block_size;
    return 0;
}

static int fail_at_shape(const struct onnx_importer *importer, const struct onnx_value *value,
                         const char *what, const struct convoy_shape *wanted)
{
    char found[160], right[160];
    convoy_shape_text(&value->shape, found, sizeof found);
    convoy_shape_text(wanted, right, sizeof right);
    return onnx_fail(importer, -EINVAL, "its %s are %s where K, N, bits and block_size ask for %s", what,
                     found, right);
}

/* Numbers for the blocks: [rows, count] or, in older files, [rows * count]. The weights, which have more
 * elements, have their shape already: the product does not overflow. */
static int check_list(const struct onnx_importer *importer, const struct onnx_value *value, const char *what,
                      int64_t rows, int64_t count)
{
    const struct convoy_shape table = {.rank = 2, .batch_axis = -1, .dims = {rows, count}};
    const struct convoy_shape list = {.rank = 1, .batch_axis = -1, .dims = {rows * count}};
    return convoy_same_shape(&value->shape, &table) || convoy_same_shape(&value->shape, &list)
               ? 0
               : fail_at_shape(importer, value, what, &table);
}

/* Is the value what a file has as uint8? The type of what a node has computed may not be known. */
static bool holds_bytes(const struct onnx_value *value)
{
    int64_t elements = convoy_shape_elements(&value->shape);
    bool bytes = value->type == ONNX__TENSOR_PROTO__DATA_TYPE__UINT8 || value->type == 0;
    for (int64_t i = 0; i < elements && bytes; i++) {
        const struct onnx_int *number = &value->ints[i];
        bytes = number->fixed >= 0 && number->fixed <= UINT8_MAX && number->batch == 0 && number->image == 0;
    }
    return bytes;
}

static int find_numbers(struct onnx_importer *importer, struct packed *matrix)
{
    const struct convoy_shape wanted = {
        .rank = 3,
        .batch_axis = -1,
        .dims = {matrix->rows, matrix->blocks, bytes_of(matrix->block_size, matrix->bits)}};
    const struct onnx_value *value;
    int status = onnx_need_input(importer, 1, &value);
    if (status != 0)
        return status;
    if (value->kind == ONNX_ACTIVATION)
        return onnx_refuse(importer, ONNX_CUT, "its weights are not constants");
    if (!convoy_same_shape(&value->shape, &wanted))
        return fail_at_shape(importer, value, "weights", &wanted);
    if (value->kind != ONNX_INTS || !holds_bytes(value))
        return onnx_refuse(importer, ONNX_EXPORT_PLAIN, "its weights are not packed in uint8");
    matrix->numbers = value->ints;
    return 0;
}

static int find_zeros(struct onnx_importer *importer, struct packed *matrix)
{
    if (!onnx_is_given(importer, 3))
        return 0;
    const struct onnx_value *value = importer->inputs[3];
    if (value->kind == ONNX_ACTIVATION)
        return onnx_refuse(importer, ONNX_CUT, "its zero points are not constants");
    bool packed = value->kind == ONNX_INTS;
    int status = check_list(importer, value, "zero points", matrix->rows,
                            packed ? bytes_of(matrix->blocks, matrix->bits) : matrix->blocks);
    if (status != 0)
        return status;
    if (packed && !holds_bytes(value))
        return onnx_refuse(importer, ONNX_EXPORT_PLAIN, "its zero points are neither floats nor uint8");
    if (packed)
        matrix->packed_zeros = value->ints;
    else
        matrix->zeros = onnx_floats(importer, value);
    return 0;
}

/* g_idx, which is deprecated, says which block's scale each column has. Files name the block that the column
 * lies in, which changes nothing by the definition; but ONNX Runtime 1.32 answers otherwise with it where
 * zero points are packed, and for 2 bits, and does not take it for 8: these are refused. */
static int check_groups(struct onnx_importer *importer, const struct packed *matrix)
{
    if (!onnx_is_given(importer, 4))
        return 0;
    const struct onnx_value *value = importer->inputs[4];
    bool plain = value->kind == ONNX_INTS && value->shape.rank == 1 &&
                 (value->shape.dims[0] == matrix->columns ||
                  value->shape.dims[0] == matrix->blocks * matrix->block_size);
    for (int64_t i = 0; plain && i < value->shape.dims[0]; i++)
        plain = value->ints[i].fixed == i / matrix->block_size && value->ints[i].batch == 0 &&
                value->ints[i].image == 0;
    if (!plain)
        return onnx_refuse(importer, ONNX_EXPORT_PLAIN,
                           "its g_idx takes columns out of their blocks, which is not supported");
    if (matrix->bits != 4 || matrix->packed_zeros != NULL)
        return onnx_refuse(importer, ONNX_EXPORT_PLAIN,
                           "it has a g_idx beside packed zero points, or not 4 bits, which is not supported");
    return 0;
}

static int find_bias(struct onnx_importer *importer, const struct packed *matrix, int *bias)
{
    const struct onnx_value *value;
    *bias = -1;
    if (!onnx_is_given(importer, 5))
        return 0;
    int status = onnx_need_floats(importer, 5, "bias", &value);
    if (status != 0)
        return status;
    if (value->shape.rank != 1 || value->shape.dims[0] != matrix->rows)
        return onnx_fail(importer, -EINVAL,
                         "its bias does not have one number for each of its %" PRId64 " outputs",
                         matrix->rows);
    *bias = value->tensor;
    return 0;
}

/* Number i of those that begin with the first byte. */
static float number_at(const struct onnx_int *bytes, int64_t i, int64_t bits)
{
    int64_t byte = bytes[i * bits / 8].fixed;
    return (float)(byte >> (i * bits % 8) & ((1 << bits) - 1));
}

static float zero_of(const struct packed *matrix, int64_t row, int64_t block)
{
    if (matrix->packed_zeros != NULL)
        return number_at(matrix->packed_zeros + row * bytes_of(matrix->blocks, matrix->bits), block,
                         matrix->bits);
    return matrix->zeros != NULL ? matrix->zeros[row * matrix->blocks + block]
                                 : (float)(1 << (matrix->bits - 1));
}

static int emit_unpacked(struct onnx_importer *importer, const struct packed *matrix, int *tensor)
{
    const struct convoy_shape shape = {.rank = 2, .batch_axis = -1, .dims = {matrix->rows, matrix->columns}};
    void *data;
    int status = onnx_allocate(importer, &shape, false, &data);
    if (status != 0)
        return status;
    float *to = data;
    int64_t bytes = matrix->blocks * bytes_of(matrix->block_size, matrix->bits);
    for (int64_t row = 0; row < matrix->rows; row++)
        for (int64_t block = 0; block < matrix->blocks; block++) {
            float scale = matrix->scales[row * matrix->blocks + block], zero = zero_of(matrix, row, block);
            int64_t first = block * matrix->block_size, end = first + matrix->block_size;
            for (int64_t i = first; i < end && i < matrix->columns; i++)
                *to++ = (number_at(matrix->numbers + row * bytes, i, matrix->bits) - zero) * scale;
        }
    return onnx_emit_constant(importer, importer->inputs[1]->name, &shape, data, tensor);
}

static int read_matmul_nbits(struct onnx_importer *importer)
{
    struct packed matrix = {0};
    const struct onnx_value *scales;
    int x, weight, bias, result;
    int status = onnx_need_tensor(importer, 0, &x);
    if (status == 0)
        status = read_sizes(importer, &matrix);
    if (status == 0)
        status = find_numbers(importer, &matrix);
    if (status == 0)
        status = onnx_need_floats(importer, 2, "scales", &scales);
    if (status == 0)
        status = check_list(importer, scales, "scales", matrix.rows, matrix.blocks);
    if (status == 0)
        status = find_zeros(importer, &matrix);
    if (status == 0)
        status = check_groups(importer, &matrix);
    if (status == 0)
        status = find_bias(importer, &matrix, &bias);
    if (status != 0)
        return status;
    const struct convoy_shape *in = &importer->graph->tensors[x].shape;
    bool is_batch = in->batch_axis >= 0 && in->batch_axis == in->rank - 1; /* refused below */
    if (!is_batch && (in->rank < 1 || in->dims[in->rank - 1] != matrix.columns))
        return onnx_fail(importer, -EINVAL, "its input does not have K, %" PRId64 ", numbers in a row",
                         matrix.columns);
    matrix.scales = onnx_floats(importer, scales);
    status = emit_unpacked(importer, &matrix, &weight);
    if (status == 0)
        status = onnx_emit_rows_by_matrix(importer, x, weight, bias, &result);
    return status == 0 ? onnx_set_tensor(importer, result) : status;
}

const struct onnx_operator onnx_microsoft_operators[] = {
    {"MatMulNBits", 3, 6, read_matmul_nbits, ONNX_ANY_ORDER},
    {NULL, 0, 0, NULL, ONNX_ANY_ORDER},
};
