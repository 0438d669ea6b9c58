/* Weights in every type and place: raw and typed fields, 16-bit, external files, and what is refused about
 * them. */
#include "tests/unit/engine/onnx/onnx_builder.h"

#include "engine/onnx/tensor.h"

#include <math.h>

/* y = x + c with c of [count]; returns c as the graph has it. */
static struct builder *addition(Onnx__TensorProto *(*make)(struct builder *), int64_t width)
{
    struct builder *b = builder_new(13);
    builder_input(b, "x", DIMS(-1, width));
    builder_output(b, "y");
    builder_add_initializer(b, make(b));
    builder_node(b, "Add", "x,c", "y");
    return b;
}

static void expect_constant(Onnx__TensorProto *(*make)(struct builder *), int count, const float *expected)
{
    struct builder *b = addition(make, count);
    const struct convoy_graph *graph = builder_graph(b);
    cr_assert(graph->tensors[graph->nodes[0].inputs[1]].shape.dims[0] == count);
    expect_floats(graph->tensors[graph->nodes[0].inputs[1]].data, count, expected);
    builder_free(b);
}

static Onnx__TensorProto *raw_half(struct builder *b)
{
    /* 1, -2, 65504, the smallest subnormal 2^-24, the largest subnormal, -0 */
    Onnx__TensorProto *t = builder_tensor(b, "c", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16, DIMS(6));
    builder_raw(b, t, (uint16_t[]){0x3C00, 0xC000, 0x7BFF, 0x0001, 0x03FF, 0x8000}, 12);
    return t;
}

static Onnx__TensorProto *typed_half(struct builder *b)
{
    Onnx__TensorProto *t = builder_tensor(b, "c", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT16, DIMS(2));
    t->n_int32_data = 2;
    t->int32_data = builder_memory(b, 8);
    t->int32_data[0] = 0x3555; /* 1365 / 4096 */
    t->int32_data[1] = 0xFC00; /* -infinity */
    return t;
}

static Onnx__TensorProto *raw_bfloat(struct builder *b)
{
    Onnx__TensorProto *t = builder_tensor(b, "c", ONNX__TENSOR_PROTO__DATA_TYPE__BFLOAT16, DIMS(2));
    builder_raw(b, t, (uint16_t[]){0x3F80, 0xC049}, 4); /* 1, -3.140625 */
    return t;
}

static Onnx__TensorProto *raw_double(struct builder *b)
{
    Onnx__TensorProto *t = builder_tensor(b, "c", ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE, DIMS(2));
    builder_raw(b, t, (double[]){0.5, -1e-3}, 16);
    return t;
}

static Onnx__TensorProto *typed_float(struct builder *b)
{
    Onnx__TensorProto *t = builder_tensor(b, "c", FLOAT_TYPE, DIMS(3));
    t->n_float_data = 3;
    t->float_data = builder_memory(b, 12);
    memcpy(t->float_data, (float[]){1, 2, 3}, 12);
    return t;
}

static Onnx__TensorProto *typed_double(struct builder *b)
{
    Onnx__TensorProto *t = builder_tensor(b, "c", ONNX__TENSOR_PROTO__DATA_TYPE__DOUBLE, DIMS(1));
    t->n_double_data = 1;
    t->double_data = builder_memory(b, 8);
    t->double_data[0] = 0.25;
    return t;
}

Test(onnx_tensors, floats_of_every_type)
{
    expect_constant(raw_half, 6, FLOATS(1, -2, 65504, 0x1p-24F, 0x1p-14F - 0x1p-24F, 0));
    expect_constant(raw_bfloat, 2, FLOATS(1, -3.140625F));
    expect_constant(raw_double, 2, FLOATS(0.5, -1e-3F));
    expect_constant(typed_float, 3, FLOATS(1, 2, 3));
    expect_constant(typed_double, 1, FLOATS(0.25));
    struct builder *b = addition(typed_half, 2);
    const struct convoy_graph *graph = builder_graph(b);
    const float *data = graph->tensors[graph->nodes[0].inputs[1]].data;
    cr_expect(data[0] == 1365.0F / 4096 && data[1] == -INFINITY);
    builder_free(b);
}

Test(onnx_tensors, integers_of_every_type_through_a_cast)
{
    static const struct {
        int type;
        size_t bytes;
        uint64_t bits;
        float value;
    } cases[] = {
        {ONNX__TENSOR_PROTO__DATA_TYPE__INT8, 1, 0xFE, -2},
        {ONNX__TENSOR_PROTO__DATA_TYPE__UINT8, 1, 0xFE, 254},
        {ONNX__TENSOR_PROTO__DATA_TYPE__INT16, 2, 0xFFFE, -2},
        {ONNX__TENSOR_PROTO__DATA_TYPE__UINT16, 2, 0xFFFE, 65534},
        {ONNX__TENSOR_PROTO__DATA_TYPE__INT32, 4, 0xFFFFFFFE, -2},
        {ONNX__TENSOR_PROTO__DATA_TYPE__UINT32, 4, 7, 7},
        {ONNX__TENSOR_PROTO__DATA_TYPE__INT64, 8, UINT64_MAX, -1},
        {ONNX__TENSOR_PROTO__DATA_TYPE__UINT64, 8, 9, 9},
        {ONNX__TENSOR_PROTO__DATA_TYPE__BOOL, 1, 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct builder *b = builder_new(13);
        builder_input(b, "x", DIMS(-1, 4));
        builder_output(b, "y");
        Onnx__TensorProto *tensor =
            builder_add_initializer(b, builder_tensor(b, "i", cases[i].type, DIMS(1)));
        builder_raw(b, tensor, &cases[i].bits, cases[i].bytes);
        builder_int(b, builder_node(b, "Cast", "i", "c"), "to", FLOAT_TYPE);
        builder_node(b, "Mul", "x,c", "y");
        const struct convoy_graph *graph = builder_graph(b);
        expect_floats(graph->tensors[graph->nodes[0].inputs[1]].data, 1, &cases[i].value);
        builder_free(b);
    }
}

Test(onnx_tensors, that_do_not_fit_their_shape)
{
    struct builder *b = addition(typed_float, 3);
    b->initializers[0]->dims[0] = 4;
    builder_refused(b, -EINVAL, "tensor 'c' has 3 values where its shape asks for 4");
    b = addition(raw_double, 2);
    b->initializers[0]->raw_data.len = 15;
    builder_refused(b, -EINVAL, "tensor 'c' has 15 bytes of data where its shape asks for 16");
    b = addition(raw_double, 2);
    b->initializers[0]->dims[0] = -2;
    builder_refused(b, -EINVAL, "negative dimension");
    b = addition(raw_double, 2);
    b->initializers[0]->dims[0] = 0;
    b->initializers[0]->raw_data.len = 0;
    builder_refused(b, -ENOTSUP, "is an empty tensor");
    b = addition(raw_double, 2);
    b->initializers[0]->dims[0] = 1LL << 62;
    builder_refused(b, -EINVAL, "more than 2^31-1 elements");
    b = addition(raw_double, 2);
    b->initializers[0]->n_dims = 3;
    b->initializers[0]->dims = builder_memory(b, 24);
    b->initializers[0]->dims[0] = b->initializers[0]->dims[1] = b->initializers[0]->dims[2] = 1LL << 32;
    builder_refused(b, -EINVAL, "more than 2^31-1 elements");
    b = addition(raw_double, 2);
    b->initializers[0]->data_type = ONNX__TENSOR_PROTO__DATA_TYPE__STRING;
    builder_refused(b, -ENOTSUP, "is of type string");
    b = addition(raw_double, 2);
    b->initializers[0]->data_type = 99;
    builder_refused(b, -ENOTSUP, "an unknown type");
    b = addition(raw_double, 2);
    b->initializers[1] = b->initializers[0];
    b->graph.n_initializer = 2;
    builder_refused(b, -EINVAL, "initializer 'c' is there twice");
}

/* --- external data --- */

static void entry(struct builder *b, Onnx__TensorProto *tensor, const char *key, const char *value)
{
    Onnx__StringStringEntryProto *pair = builder_memory(b, sizeof *pair);
    onnx__string_string_entry_proto__init(pair);
    pair->key = builder_text(b, key);
    pair->value = builder_text(b, value);
    if (tensor->external_data == NULL)
        tensor->external_data = builder_memory(b, 8 * sizeof(void *));
    tensor->external_data[tensor->n_external_data++] = pair;
}

static Onnx__TensorProto *external(struct builder *b)
{
    Onnx__TensorProto *t = builder_tensor(b, "c", FLOAT_TYPE, DIMS(3));
    t->has_data_location = 1;
    t->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    return t;
}

static struct builder *with_external(const char *location, const char *offset, const char *length)
{
    struct builder *b = addition(external, 3);
    entry(b, b->initializers[0], "location", location);
    if (offset != NULL)
        entry(b, b->initializers[0], "offset", offset);
    if (length != NULL)
        entry(b, b->initializers[0], "length", length);
    builder_write(builder_path(b, "weights.bin"), (float[]){9, 1, 2, 3}, 16);
    return b;
}

static void reads(struct builder *b)
{
    const struct convoy_graph *graph = builder_graph(b);
    expect_floats(graph->tensors[graph->nodes[0].inputs[1]].data, 3, FLOATS(1, 2, 3));
    builder_free(b);
}

Test(onnx_tensors, external_data_beside_the_model)
{
    reads(with_external("weights.bin", "4", "12"));
    reads(with_external("./weights.bin", "4", NULL));
    struct builder *b = with_external("sub/w", NULL, NULL);
    cr_assert(mkdir(builder_path(b, "sub"), 0700) == 0);
    builder_write(builder_path(b, "sub/w"), (float[]){1, 2, 3}, 12);
    reads(b);
    b = with_external("link", "4", "12"); /* a link that stays inside */
    cr_assert(symlink("weights.bin", builder_path(b, "link")) == 0);
    reads(b);
    b = with_external("..data", NULL, NULL); /* two dots that are no step up */
    builder_write(builder_path(b, "..data"), (float[]){1, 2, 3}, 12);
    reads(b);
}

Test(onnx_tensors, external_data_outside_the_models_folder)
{
    struct builder *b;
    builder_refused(with_external("/etc/hostname", NULL, NULL), -EINVAL,
                    "not a path inside the model's own folder");
    builder_refused(with_external("../weights.bin", NULL, NULL), -EINVAL, "not a path inside");
    builder_refused(with_external("sub/../../weights.bin", NULL, NULL), -EINVAL, "not a path inside");
    builder_refused(with_external("..", NULL, NULL), -EINVAL, "not a path inside");
    builder_refused(with_external("", NULL, NULL), -EINVAL, "not a path inside");
    b = with_external("link", NULL, "12");
    cr_assert(symlink("/etc/passwd", builder_path(b, "link")) == 0);
    builder_refused(b, -EINVAL, "'link' is a link out of the model's folder");
    b = with_external("sub/passwd", NULL, "12");
    cr_assert(symlink("/etc", builder_path(b, "sub")) == 0);
    builder_refused(b, -EINVAL, "link out of the model's folder");
    b = with_external("beside", NULL, NULL); /* a folder whose name only begins like the model's */
    char sibling[80];
    snprintf(sibling, sizeof sibling, "%s-too", b->folder);
    builder_write(sibling, (float[]){1, 2, 3}, 12);
    cr_assert(symlink(sibling, builder_path(b, "beside")) == 0);
    builder_refused(b, -EINVAL, "link out of the model's folder");
    unlink(sibling);
}

Test(onnx_tensors, external_data_that_does_not_fit)
{
    struct builder *b;
    builder_refused(with_external("weights.bin", "8", "12"), -EINVAL,
                    "has 16 bytes, too few for the 12 bytes from 8");
    builder_refused(with_external("weights.bin", "18446744073709551615", "12"), -EINVAL, "too few");
    builder_refused(with_external("weights.bin", "4", "8"), -EINVAL,
                    "8 bytes of data where its shape asks for 12");
    builder_refused(with_external("weights.bin", "-4", "12"), -EINVAL, "offset '-4', no number");
    builder_refused(with_external("weights.bin", "4x", "12"), -EINVAL, "offset '4x', no number");
    builder_refused(with_external("absent.bin", "4", "12"), -ENOENT, "'absent.bin' cannot be opened");
    b = with_external("fifo", NULL, NULL);
    cr_assert(mkfifo(builder_path(b, "fifo"), 0600) == 0);
    builder_refused(b, -EINVAL, "not a regular file");
    b = with_external("folder", NULL, NULL);
    cr_assert(mkdir(builder_path(b, "folder"), 0700) == 0);
    builder_refused(b, -EINVAL, "not a regular file");
    b = addition(external, 3);
    builder_refused(b, -EINVAL, "external data without a location");
}

/* --- bindings and tensor files --- */

Test(onnx_tensors, an_input_can_be_bound_to_a_constant)
{
    struct builder *b = builder_new(13);
    builder_input(b, "x", DIMS(2, 3));
    builder_input(b, "c", DIMS(3));
    builder_output(b, "y");
    builder_ints(b, "s", DIMS(6, 1));
    builder_node(b, "Reshape", "x,s", "t");
    builder_node(b, "Add", "t,c", "y");
    struct convoy_onnx_binding bindings[] = {
        {.name = "c", .shape = {.rank = 1, .dims = {3}}, .data = FLOATS(1, 2, 3)},
        {.name = "s", .shape = {.rank = 1, .dims = {2}}, .data = (int64_t[]){3, -1}, .is_int64 = true}};
    struct convoy_onnx_options options = {.no_batch = true, .bindings = bindings, .binding_count = 2};
    cr_expect(builder_load(b, &options) == -EINVAL); /* [3,2] + [3] */
    bindings[1].data = (int64_t[]){-1, 3};
    cr_assert(builder_load(b, &options) == 0, "%s", b->error.message);
    expect_sound(b->loaded);
    expect_shape(b->loaded, b->loaded->outputs[0], "[2,3]");
    bindings[0].shape.dims[0] = 0;
    cr_expect(builder_load(b, &options) == -EINVAL);
    builder_free(b);
}

Test(onnx_tensors, tensor_files)
{
    struct builder *b = builder_new(13);
    Onnx__TensorProto *protos[2] = {raw_half(b), builder_ints(b, "i", DIMS(5, -6))};
    const char *path = builder_path(b, "tensor.pb");
    for (int i = 0; i < 2; i++) {
        size_t size = onnx__tensor_proto__get_packed_size(protos[i]);
        uint8_t *bytes = malloc(size);
        onnx__tensor_proto__pack(protos[i], bytes);
        builder_write(path, bytes, size);
        struct convoy_onnx_tensor tensor;
        cr_assert(convoy_onnx_read_tensor_pb(path, &tensor, &b->error) == 0, "%s", b->error.message);
        cr_expect(tensor.is_int64 == (i == 1) && tensor.shape.dims[0] == (i == 1 ? 2 : 6));
        cr_expect(tensor.data_type == protos[i]->data_type);
        if (i == 0)
            expect_floats(tensor.floats, 3, FLOATS(1, -2, 65504));
        else
            cr_expect(tensor.ints[0] == 5 && tensor.ints[1] == -6);
        convoy_onnx_tensor_free(&tensor);
        builder_write(path, bytes, size - 1);
        cr_expect(convoy_onnx_read_tensor_pb(path, &tensor, &b->error) == -EINVAL);
        free(bytes);
    }
    builder_free(b);
}
