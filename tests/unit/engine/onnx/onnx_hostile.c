/* Files that are damaged, or made to do damage: each is refused with a sentence (or read, where a flipped bit
 * leaves a model), and nothing reads or writes where it should not. Meant to run under the address sanitizer.
 */
#include "tests/unit/engine/onnx/onnx_builder.h"

#include "engine/onnx/guard.h"

/* A model with a little of everything: inline and typed data, attributes of several kinds, shape arithmetic.
 */
static struct builder *varied(void)
{
    struct builder *b = builder_new(13);
    builder_input(b, "x", DIMS(-1, 2, 6, 6));
    builder_output(b, "y");
    builder_floats(b, "w", DIMS(2, 2, 3, 3), NULL);
    builder_floats(b, "s", DIMS(2), FLOATS(1, 2));
    builder_floats(b, "m", DIMS(8, 3), NULL);
    builder_ints(b, "rest", DIMS(-1));
    builder_ints(b, "zero", DIMS(0));
    builder_ints(b, "one", DIMS(1));
    Onnx__NodeProto *conv = builder_node(b, "Conv", "x,w,s", "c");
    builder_list(b, conv, "pads", DIMS(1, 1, 1, 1));
    builder_list(b, conv, "kernel_shape", DIMS(3, 3));
    builder_node(b, "BatchNormalization", "c,s,s,s,s", "n");
    builder_node(b, "Relu", "n", "r");
    Onnx__NodeProto *pool = builder_node(b, "MaxPool", "r", "p");
    builder_list(b, pool, "kernel_shape", DIMS(3, 3));
    builder_list(b, pool, "strides", DIMS(3, 3));
    builder_string(b, pool, "auto_pad", "VALID");
    builder_node(b, "Shape", "p", "shape");
    builder_node(b, "Slice", "shape,zero,one,zero", "first");
    builder_int(b, builder_node(b, "Concat", "first,rest", "target"), "axis", 0);
    builder_node(b, "Reshape", "p,target", "f");
    Onnx__NodeProto *gemm = builder_node(b, "Gemm", "f,m", "g");
    builder_float(b, gemm, "alpha", 0.5F);
    builder_int(b, builder_node(b, "Softmax", "g", "y"), "axis", -1);
    return b;
}

/* Reads the bytes as a model; the result must be a graph or a sentence. */
static int try_bytes(const char *path, const uint8_t *bytes, size_t size)
{
    struct convoy_graph *graph;
    struct convoy_error error;
    builder_write(path, bytes, size);
    int status = convoy_onnx_load(path, NULL, &graph, &error);
    if (status == 0) {
        expect_sound(graph);
        convoy_graph_free(graph);
    } else {
        cr_expect(status < 0 && graph == NULL);
        cr_expect(strstr(error.message, path) == error.message && strlen(error.message) > strlen(path) + 5,
                  "%s", error.message);
    }
    return status;
}

Test(onnx_hostile, cut_off_at_every_byte, .timeout = 60)
{
    struct builder *b = varied();
    size_t size;
    uint8_t *bytes = builder_pack(b, &size);
    const char *path = builder_path(b, "cut.onnx");
    cr_expect(try_bytes(path, bytes, size) == 0);
    int refused = 0;
    for (size_t length = 0; length < size; length++) {
        uint8_t *exact = malloc(length + 1); /* so that a read past the end is seen */
        memcpy(exact, bytes, length);
        refused += try_bytes(path, exact, length) != 0;
        free(exact);
    }
    /* Fields come in the order of their numbers, and the opset (8) is behind the graph (7): no cut is a
     * model. */
    cr_expect(refused == (int)size, "%d of %zu", refused, size);
    free(bytes);
    builder_free(b);
}

Test(onnx_hostile, two_thousand_flipped_bytes, .timeout = 60)
{
    struct builder *b = varied();
    size_t size;
    uint8_t *bytes = builder_pack(b, &size);
    const char *path = builder_path(b, "flipped.onnx");
    uint64_t state = 20261121;
    int read = 0, refused = 0;
    for (int i = 0; i < 2000; i++) {
        uint8_t saved[3];
        size_t places[3];
        int flips = 1 + i % 3;
        for (int k = 0; k < flips; k++) {
            state = state * 6364136223846793005ULL + 1442695040888963407ULL; /* Knuth's MMIX generator */
            places[k] = (size_t)(state >> 33) % size;
            saved[k] = bytes[places[k]];
            bytes[places[k]] = (uint8_t)(state >> 24);
        }
        if (try_bytes(path, bytes, size) == 0)
            read++;
        else
            refused++;
        while (flips-- > 0)
            bytes[places[flips]] = saved[flips];
    }
    cr_expect(read > 100 && refused > 100, "%d were read, %d refused", read, refused);
    free(bytes);
    builder_free(b);
}

static size_t put_varint(uint8_t *bytes, uint64_t value)
{
    size_t at = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[at++] = (uint8_t)(value | 0x80);
    bytes[at++] = (uint8_t)value;
    return at;
}

/* `levels` graphs, each in an attribute of a node of the one around it. Built from the inside out. */
static uint8_t *nested(int levels, size_t *size)
{
    static const uint8_t path[] = {0x32, 0x2A,
                                   0x0A}; /* AttributeProto.g = 6, NodeProto.attribute = 5, node = 1 */
    size_t capacity = (size_t)levels * 18 + 64, used = 0;
    uint8_t *end = malloc(capacity), header[16];
    memset(end, 0, capacity);
    for (int level = 0; level < levels; level++) {
        for (int k = 0; k < 3; k++) {
            header[0] = path[k];
            size_t length = 1 + put_varint(header + 1, used);
            used += length;
            memcpy(end + capacity - used, header, length);
        }
    }
    header[0] = 0x3A; /* ModelProto.graph = 7 */
    size_t length = 1 + put_varint(header + 1, used);
    used += length;
    memcpy(end + capacity - used, header, length);
    memmove(end, end + capacity - used, used);
    *size = used;
    return end;
}

Test(onnx_hostile, nested_five_thousand_deep)
{
    struct builder *b = builder_new(13);
    size_t size;
    uint8_t *bytes = nested(5000, &size);
    const char *path = builder_path(b, "nested.onnx");
    builder_write(path, bytes, size);
    struct convoy_graph *graph;
    int status = convoy_onnx_load(path, NULL, &graph, &b->error);
    cr_expect(status == -EINVAL && strstr(b->error.message, "nests messages deeper than 64"), "%s",
              b->error.message);
    free(bytes);

    bytes =
        nested(20, &size); /* 1 + 1 + 20 * 3 = 62 messages deep: passes the guard, and then has no opset */
    cr_expect(onnx_guard(bytes, size, ONNX_MODEL, &b->error) == 0, "%s", b->error.message);
    free(bytes);
    bytes = nested(21, &size); /* 65 deep */
    cr_expect(onnx_guard(bytes, size, ONNX_MODEL, &b->error) == -EINVAL);
    free(bytes);
    builder_free(b);
}

static void guarded(const uint8_t *bytes, size_t size, const char *words)
{
    struct convoy_error error = {""};
    uint8_t *exact = malloc(size);
    memcpy(exact, bytes, size);
    int status = onnx_guard(exact, size, ONNX_MODEL, &error);
    cr_expect(words == NULL ? status == 0 : status == -EINVAL && strstr(error.message, words) != NULL,
              "%d, '%s': %s", status, words, error.message);
    free(exact);
}

#define GUARDED(words, ...)                                                                                  \
    guarded((const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__}), words)

Test(onnx_hostile, bytes_that_the_guard_refuses)
{
    GUARDED(NULL, 0x08, 0x07);                /* ir_version 7 */
    GUARDED("runs past the end", 0x08, 0x87); /* a number that never ends */
    GUARDED("more than 64 bits", 0x08, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02);
    GUARDED(NULL, 0x08, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01); /* -1 */
    GUARDED("past the end", 0x12, 0x05, 'a');  /* a string of 5 bytes, 1 there */
    GUARDED("past the end", 0x3A, 0x05, 0x0A); /* a graph of 5 bytes, 1 there */
    GUARDED("past the end", 0x3A, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF,
            0x01);                                               /* of 2^64 - 1 */
    GUARDED("past the end", 0x3A, 0x02, 0x0A, 0x01, 0x08, 0x01); /* a node past its graph's end */
    GUARDED("past the end", 0x0D, 0x00);                         /* 4 bytes, 1 there */
    GUARDED("past the end", 0x09, 0x00, 0x00);                   /* 8 bytes, 2 there */
    GUARDED("wire type", 0x3B);                                  /* the start of a group */
    GUARDED("wire type", 0x3C);
    GUARDED("wire type", 0x3E);
    GUARDED("impossible number", 0x02, 0x00);       /* field 0 */
    GUARDED("comes twice", 0x3A, 0x00, 0x3A, 0x00); /* two graphs */
    GUARDED(NULL, 0x42, 0x00, 0x42, 0x00);          /* two opsets: a list */
}

Test(onnx_hostile, millions_of_fields_that_are_nearly_nothing)
{
    struct convoy_error error;
    size_t count = ONNX_MAX_FIELDS + 1;
    uint8_t *bytes = calloc(count, 2);
    for (size_t i = 0; i < count; i++)
        bytes[2 * i] = 0x42; /* an empty opset in two bytes */
    cr_expect(onnx_guard(bytes, 2 * count, ONNX_MODEL, &error) == -EINVAL);
    cr_expect(strstr(error.message, "more than 4194304 fields"), "%s", error.message);
    cr_expect(onnx_guard(bytes, 2 * count - 2, ONNX_MODEL, &error) == 0);
    free(bytes);
}

/* A literal and how many bytes it has, NULs among them. */
#define BYTES(literal) (literal), sizeof(literal) - 1

Test(onnx_hostile, files_of_other_formats_are_named)
{
    static const struct {
        const char *bytes;
        size_t count;
        const char *what;
    } files[] = {
        {BYTES("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"),
         "lfs.onnx: this is no ONNX model but a pointer of Git LFS: `git lfs pull` fetches"},
        {BYTES("PK\3\4\x14\0\0\0\10\10archive/data.pkl"),
         "a zip archive, as PyTorch's torch.save() writes: export"},
        {BYTES("\x80\x02\x8a\nl\xfc\x9c"
               "F\xf9 j\xa8P\x19."),
         "a Python pickle, as older PyTorch writes"},
        {BYTES("\x89HDF\r\n\x1a\n\0\0\0\0\0\x08\x08"), "an HDF5 file, as Keras writes: convert it"},
        {BYTES("\x1c\0\0\0TFL3\x14\0 \0"), "a TensorFlow Lite model"},
        {BYTES("\x18\0\0\0ORTM\x10\0\0\0"), "ONNX Runtime's own format"},
        {BYTES("\x1f\x8b\x08\0\0\0\0\0\0\3"), "packed with gzip: unpack it"},
        {BYTES("\x40\0\0\0\0\0\0\0{\"weight\":{}}"), "a safetensors file"},
        {BYTES("<!DOCTYPE html><html>Not found</html>"),
         "an HTML or XML page, not the file that it was to be"},
        {BYTES("\n \n<html>Not found</html>"), "an HTML or XML page"},
        {BYTES("<not a tag"), "the file is damaged"},
        {BYTES("\x80\x02\x01"), "a Python pickle"},
        {BYTES("PK"), "the file holds no graph"},
        {BYTES("PK\3\4\x12\0"), "a zip archive"},
        {BYTES("\n\n\n\n"), "the file is damaged"},
    };
    struct builder *b = builder_new(13);
    const char *path = builder_path(b, "lfs.onnx");
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        struct convoy_graph *graph;
        builder_write(path, files[i].bytes, files[i].count);
        cr_expect(convoy_onnx_load(path, NULL, &graph, &b->error) == -EINVAL);
        cr_expect(strstr(b->error.message, files[i].what), "%s: %s", files[i].what, b->error.message);
    }
    builder_free(b);
}

Test(onnx_hostile, files_that_are_none)
{
    struct builder *b = builder_new(13);
    struct convoy_graph *graph;
    cr_expect(convoy_onnx_load(builder_path(b, "absent.onnx"), NULL, &graph, &b->error) == -ENOENT);
    cr_expect(strstr(b->error.message, "absent.onnx cannot be opened"), "%s", b->error.message);
    cr_expect(convoy_onnx_load(b->folder, NULL, &graph, &b->error) == -EINVAL);
    cr_expect(strstr(b->error.message, "not a regular file"), "%s", b->error.message);
    const char *path = builder_path(b, "empty.onnx");
    builder_write(path, "", 0);
    cr_expect(convoy_onnx_load(path, NULL, &graph, &b->error) == -EINVAL);
    cr_expect(strstr(b->error.message, "is empty"), "%s", b->error.message);
    path = builder_path(b, "fifo.onnx");
    cr_assert(mkfifo(path, 0600) == 0);
    cr_expect(convoy_onnx_load(path, NULL, &graph, &b->error) ==
              -EINVAL); /* and does not wait for a writer */
    path = builder_path(b, "huge.onnx");
    builder_write(path, "x", 1);
    cr_assert(truncate(path, 2147483648LL) == 0); /* a hole */
    cr_expect(convoy_onnx_load(path, NULL, &graph, &b->error) == -EINVAL);
    cr_expect(strstr(b->error.message, "larger than 2 GiB"), "%s", b->error.message);
    builder_write(path, "this is no model, but a text that someone gave this name", 56);
    cr_expect(convoy_onnx_load(path, NULL, &graph, &b->error) == -EINVAL);
    cr_expect(convoy_onnx_load(path, NULL, &graph, NULL) == -EINVAL); /* without a place for the sentence */
    builder_free(b);
}

Test(onnx_hostile, names_come_out_as_whole_printable_text)
{
    struct builder *b = builder_new(13);
    IMAGES(b);
    builder_output(b, "y\xFF\x01");
    builder_node(b, "Relu", "x", "y\xFF\x01")->name = builder_text(b, "caf\xC3\xA9 \xED\xA0\x80\x7F \xC3");
    const struct convoy_graph *graph = builder_graph(b);
    cr_expect_str_eq(graph->nodes[0].name, "caf\xC3\xA9 ???? ?");
    cr_expect_str_eq(graph->tensors[graph->outputs[0]].name, "y??");
    builder_free(b);
}
