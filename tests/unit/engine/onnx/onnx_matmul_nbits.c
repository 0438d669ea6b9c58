/* MatMulNBits: dense layers whose weights have 2, 4 or 8 bits. What is packed here bit by bit must come out
 * as (number - zero point) * scale. */
#include "tests/unit/engine/onnx/onnx_builder.h"

#define UINT8_TYPE ONNX__TENSOR_PROTO__DATA_TYPE__UINT8
#define MOST       4096 /* numbers of a matrix here */

enum zeros { MIDDLE, PACKED, OF_A_TYPE };

/* What is packed, and how. */
struct form {
    int bits, rows, columns, block;
    enum zeros zeros;
    bool lists; /* scales and zero points in one dimension, as older files have them */
};

static int blocks_of(const struct form *form)
{
    return (form->columns + form->block - 1) / form->block;
}

/* Numbers that differ from their neighbours in each direction. */
static int number(const struct form *form, int row, int column)
{
    return (row * 7 + column * 5 + column / 4 + 3) % (1 << form->bits);
}

static int zero(const struct form *form, int row, int block)
{
    return form->zeros == MIDDLE ? 1 << (form->bits - 1) : (row * 3 + block + 1) % (1 << form->bits);
}

static float scale(int row, int block)
{
    return 0.25F * (float)(1 + row) + 0.5F * (float)block;
}

static void put(uint8_t *bytes, int bits, int place, int value)
{
    for (int bit = 0; bit < bits; bit++) {
        int at = place * bits + bit;
        bytes[at / 8] = (uint8_t)(bytes[at / 8] | ((value >> bit & 1) << at % 8));
    }
}

static void add_bytes(struct builder *b, const char *name, int rank, const int64_t *dims,
                      const uint8_t *bytes)
{
    size_t size = 1;
    for (int i = 0; i < rank; i++)
        size *= (size_t)dims[i];
    builder_raw(b, builder_add_initializer(b, builder_tensor(b, name, UINT8_TYPE, rank, dims)), bytes, size);
}

/* What fills up a row's last block, and must not count, is all ones. */
static void add_matrix(struct builder *b, const char *name, const struct form *form)
{
    uint8_t bytes[MOST] = {0};
    int blocks = blocks_of(form), padded = blocks * form->block;
    for (int row = 0; row < form->rows; row++)
        for (int i = 0; i < padded; i++)
            put(bytes, form->bits, row * padded + i,
                i < form->columns ? number(form, row, i) : (1 << form->bits) - 1);
    add_bytes(b, name, DIMS(form->rows, blocks, form->block * form->bits / 8), bytes);
}

static void add_scales(struct builder *b, const struct form *form)
{
    float scales[MOST], zeros[MOST];
    uint8_t packed[MOST] = {0};
    int blocks = blocks_of(form), row_bytes = (blocks * form->bits + 7) / 8, rank = form->lists ? 1 : 2;
    for (int row = 0; row < form->rows; row++)
        for (int block = 0; block < blocks; block++) {
            scales[row * blocks + block] = scale(row, block);
            zeros[row * blocks + block] = (float)zero(form, row, block) + 0.5F;
            put(packed + row * row_bytes, form->bits, block, zero(form, row, block));
        }
    const int64_t list[1] = {form->rows * blocks}, table[2] = {form->rows, blocks};
    const int64_t bytes_list[1] = {form->rows * row_bytes}, bytes_table[2] = {form->rows, row_bytes};
    builder_floats(b, "scales", rank, form->lists ? list : table, scales);
    if (form->zeros == OF_A_TYPE)
        builder_floats(b, "zeros", rank, form->lists ? list : table, zeros);
    else if (form->zeros == PACKED)
        add_bytes(b, "zeros", rank, form->lists ? bytes_list : bytes_table, packed);
}

static Onnx__NodeProto *add_node(struct builder *b, const struct form *form, const char *inputs,
                                 const char *outputs)
{
    Onnx__NodeProto *node = builder_node(b, "MatMulNBits", inputs, outputs);
    node->domain = (char *)"com.microsoft";
    builder_int(b, node, "K", form->columns);
    builder_int(b, node, "N", form->rows);
    builder_int(b, node, "bits", form->bits);
    builder_int(b, node, "block_size", form->block);
    builder_int(b, node, "accuracy_level", 4);
    return node;
}

/* A model of one such node on x [N, 2, columns], whose output is y. */
static struct builder *begin(const struct form *form, const char *inputs)
{
    struct builder *b = builder_new(17);
    builder_input(b, "x", DIMS(-1, 2, form->columns));
    builder_output(b, "y");
    add_matrix(b, "w", form);
    add_scales(b, form);
    add_node(b, form, inputs, "y");
    return b;
}

static void expect_weights(const struct builder *b, const struct convoy_node *dense, const struct form *form)
{
    const struct convoy_tensor *tensor = &b->loaded->tensors[dense->inputs[1]];
    cr_assert(tensor->data != NULL && tensor->shape.dims[0] == form->rows &&
              tensor->shape.dims[1] == form->columns);
    for (int row = 0; row < form->rows; row++)
        for (int i = 0; i < form->columns; i++) {
            int block = i / form->block;
            float off = (float)zero(form, row, block) + (form->zeros == OF_A_TYPE ? 0.5F : 0);
            float expected = ((float)number(form, row, i) - off) * scale(row, block);
            float found = tensor->data[row * form->columns + i];
            cr_assert(found == expected, "%d bits, zeros %d: [%d,%d] is %g instead of %g", form->bits,
                      (int)form->zeros, row, i, (double)found, (double)expected);
        }
}

static const struct convoy_node *dense_of(const struct convoy_graph *graph)
{
    const struct convoy_node *dense = NULL;
    for (int i = 0; i < graph->node_count; i++)
        if (graph->nodes[i].op == CONVOY_OP_DENSE) {
            cr_assert(dense == NULL, "two dense layers");
            dense = &graph->nodes[i];
        }
    cr_assert(dense != NULL);
    return dense;
}

/* Written down byte for byte: the first number is in the low bits. */
Test(onnx_matmul_nbits, low_bits_come_first)
{
    static const uint8_t bytes[8] = {0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE};
    const struct form form = {.bits = 4, .rows = 1, .columns = 16, .block = 16};
    struct builder *b = builder_new(17);
    builder_input(b, "x", DIMS(-1, 16));
    builder_output(b, "y");
    add_bytes(b, "w", DIMS(1, 1, 8), bytes);
    builder_floats(b, "scales", DIMS(1), FLOATS(0.5));
    add_node(b, &form, "x,w,scales", "y");
    const struct convoy_node *dense = single(b, CONVOY_OP_DENSE, "[N,1]");
    cr_expect(dense->input_count == 2);
    expect_floats(b->loaded->tensors[dense->inputs[1]].data, 16,
                  FLOATS(-4, -3.5, -3, -2.5, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5));
    builder_free(b);
}

/* Whole and broken last blocks, one block, an odd number of them. */
Test(onnx_matmul_nbits, weights_are_unpacked)
{
    static const int columns[] = {16, 64, 65, 80, 83};
    static const int blocks[] = {16, 32, 128};
    for (int bits = 2; bits <= 8; bits *= 2)
        for (int zeros = MIDDLE; zeros <= OF_A_TYPE; zeros++)
            for (int i = 0; i < 5; i++)
                for (int k = 0; k < 3; k++) {
                    const struct form form = {.bits = bits,
                                              .rows = 3,
                                              .columns = columns[i],
                                              .block = blocks[k],
                                              .zeros = (enum zeros)zeros,
                                              .lists = (i + k) % 2 == 0};
                    struct builder *b = begin(&form, zeros == MIDDLE ? "x,w,scales" : "x,w,scales,zeros");
                    expect_output(b, "[N,2,3]");
                    expect_sound(b->loaded);
                    expect_weights(b, dense_of(b->loaded), &form);
                    builder_free(b);
                }
}

Test(onnx_matmul_nbits, four_bits_are_the_default)
{
    const struct form form = {.bits = 4, .rows = 2, .columns = 32, .block = 16};
    struct builder *b = begin(&form, "x,w,scales");
    b->nodes[0]->attribute[2]->name = (char *)"other"; /* bits */
    expect_output(b, "[N,2,2]");
    expect_weights(b, dense_of(b->loaded), &form);
    builder_free(b);
}

Test(onnx_matmul_nbits, scales_in_float16)
{
    static const uint16_t halves[4] = {0x3400, 0x3A00, 0x3800, 0x3C00}; /* 0.25, 0.75, 0.5, 1 */
    const struct form form = {.bits = 4, .rows = 2, .columns = 32, .block = 16};
    struct builder *b = begin(&form, "x,w,scales");
    b->initializers[1]->data_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16;
    builder_raw(b, b->initializers[1], halves, sizeof halves);
    expect_output(b, "[N,2,2]");
    expect_weights(b, dense_of(b->loaded), &form);
    builder_free(b);
}

Test(onnx_matmul_nbits, a_bias_is_the_layers)
{
    const struct form form = {.bits = 4, .rows = 3, .columns = 40, .block = 16};
    struct builder *b = begin(&form, "x,w,scales,,,c");
    builder_floats(b, "c", DIMS(3), FLOATS(1, 2, 3));
    expect_output(b, "[N,2,3]");
    const struct convoy_node *dense = dense_of(b->loaded);
    cr_assert(dense->input_count == 3);
    expect_floats(b->loaded->tensors[dense->inputs[2]].data, 3, FLOATS(1, 2, 3));
    expect_weights(b, dense, &form);
    builder_free(b);
}

static void add_groups(struct builder *b, int count, int block)
{
    int32_t groups[MOST];
    for (int i = 0; i < count; i++)
        groups[i] = i / block;
    const int64_t dims[1] = {count};
    Onnx__TensorProto *tensor = builder_tensor(b, "g", ONNX__TENSOR_PROTO__DATA_TYPE__INT32, 1, dims);
    builder_raw(b, builder_add_initializer(b, tensor), groups, sizeof(int32_t) * (size_t)count);
}

Test(onnx_matmul_nbits, groups_that_are_the_blocks)
{
    const struct form form = {.bits = 4, .rows = 3, .columns = 40, .block = 16};
    for (int count = 40; count <= 48; count += 8) { /* K, or filled up to whole blocks */
        struct builder *b = begin(&form, "x,w,scales,,g");
        add_groups(b, count, 16);
        expect_output(b, "[N,2,3]");
        expect_weights(b, dense_of(b->loaded), &form);
        builder_free(b);
    }
}

/* The bytes are freed behind the last node that reads them, not before. */
Test(onnx_matmul_nbits, two_nodes_read_the_same_weights)
{
    const struct form form = {.bits = 4, .rows = 40, .columns = 40, .block = 16, .zeros = PACKED};
    struct builder *b = builder_new(17);
    builder_input(b, "x", DIMS(-1, 40));
    builder_output(b, "y");
    add_matrix(b, "w", &form);
    add_scales(b, &form);
    add_node(b, &form, "x,w,scales,zeros", "t");
    add_node(b, &form, "t,w,scales,zeros", "y");
    expect_output(b, "[N,40]");
    cr_assert(b->loaded->node_count == 2);
    for (int i = 0; i < 2; i++)
        expect_weights(b, &b->loaded->nodes[i], &form);
    builder_free(b);
}

/* Of constants alone it is computed while the model is read, a row of one dimension, too. */
Test(onnx_matmul_nbits, constants)
{
    static const float ones[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const struct form form = {.bits = 2, .rows = 2, .columns = 16, .block = 16};
    struct builder *b = builder_new(17);
    builder_input(b, "x", DIMS(-1, 2));
    builder_output(b, "y");
    add_matrix(b, "w", &form);
    add_scales(b, &form);
    builder_floats(b, "a", DIMS(16), ones);
    add_node(b, &form, "a,w,scales", "t");
    builder_node(b, "Add", "x,t", "y");
    float expected[2] = {0, 0};
    for (int row = 0; row < 2; row++)
        for (int i = 0; i < 16; i++)
            expected[row] += (float)(number(&form, row, i) - 2) * scale(row, 0);
    const struct convoy_node *add = single(b, CONVOY_OP_BINARY, "[N,2]");
    expect_floats(b->loaded->tensors[add->inputs[1]].data, 2, expected);
    builder_free(b);
}

/* ---- Refusals ---- */

static const struct form plain = {.bits = 4, .rows = 3, .columns = 80, .block = 32, .zeros = PACKED};
#define PLAIN "x,w,scales,zeros" /* initializers 0, 1, 2 are w, scales, zeros */

static void refused_with(const char *attribute, int64_t value, int code, const char *words)
{
    struct builder *b = begin(&plain, PLAIN);
    bool found = false;
    for (size_t i = 0; i < b->nodes[0]->n_attribute; i++)
        if (strcmp(b->nodes[0]->attribute[i]->name, attribute) == 0) {
            b->nodes[0]->attribute[i]->i = value;
            found = true;
        }
    if (!found)
        builder_int(b, b->nodes[0], attribute, value);
    builder_refused(b, code, words);
}

Test(onnx_matmul_nbits, attributes_that_make_no_matrix)
{
    refused_with("bits", 3, -ENOTSUP, "3 bits, convoyd reads 2, 4 and 8");
    refused_with("bits", INT64_MIN, -ENOTSUP, "bits, convoyd reads 2, 4 and 8");
    refused_with("weight_prepacked", 1, -ENOTSUP, "in the order of a certain GPU");
    refused_with("block_size", 8, -EINVAL, "block_size, 8, is not a power of two");
    refused_with("block_size", 48, -EINVAL, "block_size, 48, is not a power of two");
    refused_with("block_size", 0, -EINVAL, "block_size, 0, is not a power of two");
    refused_with("block_size", INT64_MIN, -EINVAL, "is not a power of two");
    refused_with("block_size", INT64_C(1) << 62, -EINVAL, "is not a power of two");
    refused_with("K", 0, -EINVAL, "its K and N, 0 and 3, are not the sizes of a matrix");
    refused_with("K", INT64_MAX, -EINVAL, "are not the sizes of a matrix");
    refused_with("N", -3, -EINVAL, "80 and -3, are not the sizes of a matrix");
    refused_with("N", INT64_C(1) << 61, -EINVAL, "are not the sizes of a matrix");
}

Test(onnx_matmul_nbits, sizes_that_the_weights_do_not_have)
{
    refused_with("K", 97, -EINVAL,
                 "its weights are [3,3,16] where K, N, bits and block_size ask for [3,4,16]");
    refused_with("K", 64, -EINVAL, "ask for [3,2,16]");
    refused_with("K", INT32_MAX, -EINVAL, "ask for [3,67108864,16]");
    refused_with("N", 4, -EINVAL, "ask for [4,3,16]");
    refused_with("N", INT32_MAX, -EINVAL, "ask for [2147483647,3,16]");
    refused_with("bits", 8, -EINVAL, "ask for [3,3,32]");
    refused_with("block_size", 64, -EINVAL, "ask for [3,2,32]");
    refused_with("block_size", 1 << 30, -EINVAL, "ask for [3,1,536870912]");
    refused_with("K", 81, -EINVAL, "its input does not have K, 81, numbers in a row");
}

/* The shape of an initializer, 0 to 2 in `plain`, is another. */
static void refused_shape(int which, int rank, const int64_t *dims, int code, const char *words)
{
    struct builder *b = begin(&plain, PLAIN);
    Onnx__TensorProto *tensor = b->initializers[which];
    size_t bytes = tensor->data_type == UINT8_TYPE ? 1 : sizeof(float);
    tensor->n_dims = (size_t)rank;
    tensor->dims = builder_memory(b, sizeof(int64_t) * (size_t)rank);
    for (int i = 0; i < rank; i++) {
        tensor->dims[i] = dims[i];
        bytes *= (size_t)dims[i];
    }
    builder_raw(b, tensor, NULL, bytes);
    builder_refused(b, code, words);
}

Test(onnx_matmul_nbits, inputs_of_other_sizes)
{
    refused_shape(0, DIMS(3, 48), -EINVAL, "its weights are [3,48] where");
    refused_shape(0, DIMS(3, 3, 15), -EINVAL, "its weights are [3,3,15] where");
    refused_shape(0, DIMS(0, 3, 16), -EINVAL, "its weights are [0,3,16] where");
    refused_shape(1, DIMS(3, 2), -EINVAL,
                  "its scales are [3,2] where K, N, bits and block_size ask for [3,3]");
    refused_shape(1, DIMS(8), -EINVAL, "its scales are [8] where");
    refused_shape(1, DIMS(3, 3, 1), -EINVAL, "its scales are [3,3,1] where");
    refused_shape(2, DIMS(3, 1), -EINVAL, "its zero points are [3,1] where");
    refused_shape(2, DIMS(5), -EINVAL,
                  "its zero points are [5] where K, N, bits and block_size ask for [3,2]");
    refused_shape(2, DIMS(0), -EINVAL, "its zero points are [0] where");
}

static void refused_inputs(const char *inputs, int code, const char *words)
{
    struct builder *b = begin(&plain, inputs);
    builder_floats(b, "few", DIMS(2), NULL);
    builder_floats(b, "row", DIMS(1, 3), NULL);
    builder_floats(b, "column", DIMS(3, 1), NULL);
    builder_floats(b, "floats", DIMS(3, 3, 16), NULL);
    builder_ints(b, "ints", DIMS(0, 1, 2));
    builder_node(b, "Relu", "x", "computed");
    builder_refused(b, code, words);
}

Test(onnx_matmul_nbits, inputs_that_are_something_else)
{
    refused_inputs("x,w", -EINVAL, "it has 2 inputs, 3 to 6 are read");
    refused_inputs("x,,scales", -EINVAL, "its input 1 is missing");
    refused_inputs("x,w,", -EINVAL, "its input 2, the scales, is missing");
    refused_inputs(",w,scales", -EINVAL, "its input 0 is missing");
    refused_inputs("x,computed,scales", -ENOTSUP, "its weights are not constants");
    refused_inputs("x,floats,scales", -ENOTSUP, "its weights are not packed in uint8");
    refused_inputs("x,w,computed", -ENOTSUP, "its scales, 'computed', is not a constant");
    refused_inputs("x,w,ints", -ENOTSUP, "its scales, 'ints', is not a constant of floating-point numbers");
    refused_inputs("x,w,scales,computed", -ENOTSUP, "its zero points are not constants");
    refused_inputs("x,w,scales,few", -EINVAL, "its zero points are [2] where");
    refused_inputs("x,w,scales,,computed", -ENOTSUP, "its g_idx takes columns out of their blocks");
    refused_inputs("x,w,scales,,ints", -ENOTSUP, "its g_idx takes columns out of their blocks");
    refused_inputs("x,w,scales,,,few", -EINVAL, "its bias does not have one number for each of its 3");
    refused_inputs("x,w,scales,,,row", -EINVAL, "its bias does not have one number for each of its 3");
    refused_inputs("x,w,scales,,,column", -EINVAL, "its bias does not have one number for each of its 3");
    refused_inputs("x,w,scales,,,computed", -ENOTSUP, "its bias, 'computed', is not a constant");
}

Test(onnx_matmul_nbits, columns_of_other_blocks)
{
    struct builder *b = begin(&plain, "x,w,scales,zeros,g");
    add_groups(b, 80, 32);
    int32_t *groups = (void *)b->initializers[3]->raw_data.data;
    groups[79] = 1;
    builder_refused(b, -ENOTSUP, "its g_idx takes columns out of their blocks");
}

/* Where ONNX Runtime answers otherwise than without a g_idx, or not at all. */
Test(onnx_matmul_nbits, groups_are_taken_where_they_change_nothing)
{
    struct builder *b = begin(&plain, "x,w,scales,zeros,g");
    add_groups(b, 80, 32);
    builder_refused(b, -ENOTSUP, "it has a g_idx beside packed zero points, or not 4 bits");
    for (int bits = 2; bits <= 8; bits += 6) {
        const struct form form = {.bits = bits, .rows = 3, .columns = 80, .block = 32};
        b = begin(&form, "x,w,scales,,g");
        add_groups(b, 80, 32);
        builder_refused(b, -ENOTSUP, "it has a g_idx beside packed zero points, or not 4 bits");
    }
    const struct form form = {.bits = 4, .rows = 3, .columns = 80, .block = 32, .zeros = OF_A_TYPE};
    b = begin(&form, "x,w,scales,zeros,g");
    add_groups(b, 80, 32);
    expect_output(b, "[N,2,3]");
    expect_weights(b, dense_of(b->loaded), &form);
    builder_free(b);
}

/* int64 under the right shape, of the file or computed: the type of the latter is not known, but its values,
 * which would be shifted to anything, are. */
Test(onnx_matmul_nbits, weights_and_zero_points_are_bytes)
{
    for (int which = 0; which <= 2; which += 2)
        for (int computed = 0; computed < 2; computed++) {
            struct builder *b = begin(&plain, computed && which == 0 ? "x,sum,scales,zeros"
                                              : computed             ? "x,w,scales,sum"
                                                                     : PLAIN);
            Onnx__TensorProto *tensor = b->initializers[which];
            size_t elements = which == 0 ? 3 * 3 * 16 : 3 * 2;
            tensor->data_type = ONNX__TENSOR_PROTO__DATA_TYPE__INT64;
            builder_raw(b, tensor, NULL, elements * sizeof(int64_t));
            ((int64_t *)(void *)tensor->raw_data.data)[elements - 1] = computed ? 128 : 0;
            builder_node(b, "Add", which == 0 ? "w,w" : "zeros,zeros", "sum"); /* whose type is not known */
            builder_refused(b, -ENOTSUP,
                            which == 0 ? "its weights are not packed in uint8"
                                       : "its zero points are neither floats nor uint8");
        }
}

Test(onnx_matmul_nbits, the_operator_is_of_its_domain)
{
    struct builder *b = begin(&plain, PLAIN);
    b->nodes[0]->domain = (char *)"";
    builder_refused(b, -ENOTSUP, "convoyd does not have this operator");
    b = begin(&plain, PLAIN);
    b->nodes[0]->domain = (char *)"mine";
    builder_refused(b, -ENOTSUP, "convoyd does not have the operators of domain 'mine'");
    one(&b, 13, "Relu", "x")->domain = (char *)"com.microsoft";
    builder_refused(b, -ENOTSUP, "convoyd does not have the operators of domain 'com.microsoft'");
}

Test(onnx_matmul_nbits, sums_over_the_batch)
{
    const struct form form = {.bits = 4, .rows = 3, .columns = 16, .block = 16};
    struct builder *b = builder_new(17);
    builder_input(b, "x", DIMS(-1, 16));
    builder_output(b, "y");
    add_matrix(b, "w", &form);
    add_scales(b, &form);
    builder_node(b, "Transpose", "x", "t");
    add_node(b, &form, "t,w,scales", "y");
    builder_refused(b, -ENOTSUP, "it would add up over the images of a batch");
}

Test(onnx_matmul_nbits, single_numbers)
{
    const struct form form = {.bits = 4, .rows = 3, .columns = 16, .block = 16};
    struct builder *b = begin(&form, "one,w,scales");
    builder_floats(b, "one", 0, NULL, FLOATS(1));
    builder_refused(b, -EINVAL, "its input does not have K, 16, numbers in a row");
}
