/* Inference requests: what of them is understood, and that a lie is refused. */
#include "server/inference/tensor_request.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Two channels of 1 x 2 pixels; outputs of 3 and 2. */
static struct convoy_model_shape shape = {.channels = 2,
                                          .height = 1,
                                          .width = 2,
                                          .outputs_per_row = 5,
                                          .output_count = 2,
                                          .output_elements = {3, 2},
                                          .input_name = "x",
                                          .output_names = {"y", "z"}};

static struct convoy_error error;
static struct convoy_tensor_request tensors;
static uint8_t *body;
static struct convoy_shared_memory *memory; /* NULL: this client may not */

/* The header's or the data's code. binary follows json, with its length before it; NULL: all is JSON. */
static int read_body(const char *json, const void *binary, size_t binary_length)
{
    size_t length = strlen(json);

    convoy_tensor_request_end(&tensors);
    free(body);
    body = malloc(length + binary_length);
    memcpy(body, json, length);
    if (binary != NULL)
        memcpy(body + length, binary, binary_length);
    tensors = (struct convoy_tensor_request){.shape = &shape,
                                             .max_rows = 4,
                                             .memory = memory,
                                             .body = body,
                                             .length = length + binary_length,
                                             .json_length = length};
    int code = convoy_tensor_request_read_header(&tensors, &error);
    return code != 0 ? code : convoy_tensor_request_read_data(&tensors, &error);
}

static void clean(void)
{
    convoy_tensor_request_end(&tensors);
    free(body);
    body = NULL;
}

TestSuite(tensors, .fini = clean);

#define INPUT(type, dims, data)                                                                              \
    "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"" type "\",\"shape\":" dims ",\"data\":" data "}]}"

static void expect_floats(const float *expected, size_t count)
{
    cr_assert_eq(tensors.row_bytes, 4 * sizeof(float));
    cr_assert_eq(memcmp(tensors.base, expected, count * sizeof *expected), 0);
}

Test(tensor_request, reads_a_tensor_in_json)
{
    static const float expected[] = {1, -2.5f, 3, 4, 5, 6, 7, 8};

    cr_assert_eq(read_body(INPUT("FP32", "[2,2,1,2]", "[1,-2.5,3,4,5,6,7,8]"), NULL, 0), 0, "%s",
                 error.message);
    cr_assert_eq(tensors.count, 2);
    cr_assert_eq(tensors.layout, CONVOY_LAYOUT_F32_CHW);
    expect_floats(expected, 8);
    cr_assert_eq(read_body(INPUT("FP32", "[2,2,1,2]", "[[[[1,-2.5]],[[3,4]]],[[[5,6]],[[7,8]]]]"), NULL, 0),
                 0, "%s", error.message);
    expect_floats(expected, 8);
    cr_assert_eq(tensors.output_count, 2);
    cr_assert_null(tensors.id);
}

Test(tensor_request, finds_the_data_wherever_it_stands)
{
    static const float expected[] = {1, 2, 3, 4};
    static const char *const texts[] = {
        "{\"inputs\":[{\"data\":[1,2,3,4],\"shape\":[1,2,1,2],\"datatype\":\"FP32\",\"name\":\"x\"}]}",
        "{\"id\":\"a]}\\\"\",\"note\":{\"inputs\":[{\"data\":[9]}]},"
        "\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"data\" :\n[1,2,3,4] ,\"shape\":[1,2,1,2]}]}",
        " { \"inputs\" : [ { \"name\" : \"x\", \"more\":[[\"}\"],{}], "
        "\"datatype\":\"FP32\",\"shape\":[1,2,1,2],"
        "\"data\":[1,2,3,4]}],\"outputs\":[{\"name\":\"y\"}]}"};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        cr_assert_eq(read_body(texts[i], NULL, 0), 0, "%s: %s", texts[i], error.message);
        expect_floats(expected, 4);
    }
}

#define BINARY(type, dims, size)                                                                             \
    "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"" type "\",\"shape\":" dims                                 \
    ",\"parameters\":{\"binary_data_size\":" size "}}]}"

Test(tensor_request, reads_binary_tensors)
{
    static const float floats[] = {1, 2, 3, 4};
    static const uint8_t halves[] = {0x00, 0x3c, 0x00, 0x40, 0x00, 0x42, 0x00, 0x44}, pixels[] = {1, 2, 3, 4};
    static const int8_t small[] = {1, 2, 3, 4};

    cr_assert_eq(read_body(BINARY("FP32", "[1,2,1,2]", "16"), floats, 16), 0, "%s", error.message);
    cr_assert_eq(tensors.tensor, NULL, "used as it lies in the body");
    expect_floats(floats, 4);
    cr_assert_eq(read_body(BINARY("FP16", "[1,2,1,2]", "8"), halves, 8), 0, "%s", error.message);
    expect_floats(floats, 4);
    cr_assert_eq(read_body(BINARY("INT8", "[1,2,1,2]", "4"), small, 4), 0, "%s", error.message);
    expect_floats(floats, 4);
    cr_assert_eq(read_body(BINARY("UINT8", "[1,2,1,2]", "4"), pixels, 4), 0, "%s", error.message);
    cr_assert_eq(tensors.layout, CONVOY_LAYOUT_U8_CHW);
    cr_assert_eq(tensors.row_bytes, 4);
    cr_assert_eq(read_body(BINARY("UINT8", "[1,1,2,2]", "4"), pixels, 4), 0, "%s", error.message);
    cr_assert_eq(tensors.layout, CONVOY_LAYOUT_U8_HWC);
}

Test(tensor_request, reads_rows_without_json)
{
    static const float values[12] = {1, 2, 3, 4, 5, 6, 7, 8};

    for (size_t bytes = 0; bytes <= sizeof values; bytes++) {
        clean();
        body = malloc(bytes + 1);
        memcpy(body, values, bytes);
        tensors = (struct convoy_tensor_request){
            .shape = &shape, .max_rows = 2, .body = body, .length = bytes, .json_length = 77};
        int code = convoy_tensor_request_read_raw(&tensors, &error);
        cr_assert_eq(code,
                     bytes == 16 || bytes == 32 ? 0
                     : bytes == 48              ? -EFBIG
                                                : -EINVAL,
                     "%zu bytes", bytes);
        if (code != 0)
            continue;
        cr_assert_eq(convoy_tensor_request_memory(&tensors), 0);
        cr_assert_eq(convoy_tensor_request_read_data(&tensors, &error), 0, "%s", error.message);
        cr_assert_eq(tensors.count, bytes / 16);
        cr_assert_eq(tensors.layout, CONVOY_LAYOUT_F32_CHW);
        expect_floats(values, bytes / sizeof *values);
        cr_assert_eq(tensors.output_count, 2);
        for (uint32_t i = 0; i < 2; i++)
            cr_assert(tensors.outputs[i].binary && tensors.outputs[i].index == i);
    }
}

Test(tensor_request, reads_files)
{
    static const char binary[] = "\3\0\0\0foo\0\0\0\0";

    shape.channels = 3;
    cr_assert_eq(read_body(BINARY("BYTES", "[2]", "11"), binary, 11), 0, "%s", error.message);
    cr_assert_eq(tensors.layout, CONVOY_LAYOUT_ENCODED);
    cr_assert_eq(tensors.parts[0].length, 3);
    cr_assert_eq(memcmp(tensors.parts[0].bytes, "foo", 3), 0);
    cr_assert_eq(tensors.parts[1].length, 0);
    cr_assert_eq(read_body(INPUT("BYTES", "[2,1]", "[[\"Zm9v\"],[\"Zg==\"]]"), NULL, 0), 0, "%s",
                 error.message);
    cr_assert_eq(tensors.parts[1].length, 1);
    /* Cut off anywhere, or with something behind. */
    for (size_t length = 0; length < 11; length++) {
        char json[256];
        snprintf(json, sizeof json,
                 "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"BYTES\",\"shape\":[2],"
                 "\"parameters\":{\"binary_data_size\":%zu}}]}",
                 length);
        cr_assert_eq(read_body(json, binary, length), -EINVAL, "%zu", length);
    }
    cr_assert_eq(read_body(BINARY("BYTES", "[1]", "11"), binary, 11), -EINVAL);
    shape.channels = 2;
    cr_assert_eq(read_body(BINARY("BYTES", "[2]", "11"), binary, 11), -EINVAL, "two channels are no image");
}

Test(tensor_request, reads_what_is_wanted_of_the_answer)
{
    cr_assert_eq(
        read_body(
            "{\"id\":\"7\",\"parameters\":{\"timeout\":1500,\"binary_data_output\":true},"
            "\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[1,2,1,2],\"data\":[1,2,3,4]}],"
            "\"outputs\":[{\"name\":\"z\",\"parameters\":{\"binary_data\":false}},"
            "{\"name\":\"y\",\"parameters\":{\"classification\":2}}]}",
            NULL, 0),
        0, "%s", error.message);
    cr_assert_str_eq(tensors.id, "7");
    cr_assert_eq(tensors.timeout_us, 1500);
    cr_assert_eq(tensors.output_count, 2);
    cr_assert(tensors.outputs[0].index == 1 && !tensors.outputs[0].binary && tensors.outputs[0].classes == 0);
    cr_assert(tensors.outputs[1].index == 0 && tensors.outputs[1].binary && tensors.outputs[1].classes == 2);
}

#define WITH(members)                                                                                        \
    "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[1,2,1,2],\"data\":[1,2,3,4]}]," members "}"

Test(tensor_request, refuses_what_is_not_in_order)
{
    static const char *const texts[] = {
        "",
        "{",
        "[]",
        "{}",
        "null",
        "{\"inputs\":{}}",
        "{\"inputs\":[]}",
        "{\"inputs\":[1]}",
        "{\"inputs\":[{}]}",
        "{\"inputs\":[{\"data\":[1,2,3,4]}]}",
        "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[1,2,1,2]}]}",
        "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[1,2,1,2],\"data\":[1,2,3,4]},{}]}",
        "{\"inputs\":[{\"name\":\"w\",\"datatype\":\"FP32\",\"shape\":[1,2,1,2],\"data\":[1,2,3,4]}]}",
        "{\"inputs\":[{\"name\":\"x\",\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[1,2,1,2],\"data\":[1,2,"
        "3,4]}]}",
        INPUT("FP64", "[1,2,1,2]", "[1,2,3,4]"),
        INPUT("FP32", "[1,2,2,1]", "[1,2,3,4]"),
        INPUT("FP32", "[2,1,2]", "[1,2,3,4]"),
        INPUT("FP32", "[0,2,1,2]", "[1,2,3,4]"),
        INPUT("FP32", "[1.5,2,1,2]", "[1,2,3,4]"),
        INPUT("FP32", "[-1,2,1,2]", "[1,2,3,4]"),
        INPUT("FP32", "[2,2,1,2]", "[1,2,3,4]"),
        INPUT("FP32", "[1,2,1,2]", "[1,2,3]"),
        INPUT("FP32", "[1,2,1,2]", "\"1,2,3,4\""),
        INPUT("FP32", "[1,2,1,2]", "[1,2,3,4") "}",
        INPUT("UINT8", "[1,2,2,1]", "[1,2,3,4]"),
        INPUT("UINT8", "[1,2,1,2]", "[1,2,3,400]"),
        BINARY("FP32", "[1,2,1,2]", "16"),
        BINARY("FP32", "[1,2,1,2]", "-1"),
        BINARY("FP32", "[1,2,1,2]", "\"16\""),
        WITH("\"id\":7"),
        WITH("\"parameters\":7"),
        WITH("\"parameters\":{\"timeout\":-1}"),
        WITH("\"parameters\":{\"binary_data_output\":1}"),
        WITH("\"outputs\":{}"),
        WITH("\"outputs\":[7]"),
        WITH("\"outputs\":[{}]"),
        WITH("\"outputs\":[{\"name\":\"w\"}]"),
        WITH("\"outputs\":[{\"name\":\"y\"},{\"name\":\"y\"}]"),
        WITH("\"outputs\":[{\"name\":\"y\"},{\"name\":\"z\"},{\"name\":\"y\"}]"),
        WITH("\"outputs\":[{\"name\":\"y\",\"parameters\":{\"classification\":1001}}]"),
        WITH("\"outputs\":[{\"name\":\"y\",\"parameters\":{\"binary_data\":\"yes\"}}]"),
    };

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        cr_assert_eq(read_body(texts[i], NULL, 0), -EINVAL, "%s", texts[i]);
        cr_assert_gt(strlen(error.message), 10, "%s", texts[i]);
    }
}

Test(tensor_request, refuses_binary_data_of_another_size)
{
    static const uint8_t bytes[20];

    cr_assert_eq(read_body(BINARY("FP32", "[1,2,1,2]", "16"), bytes, 15), -EINVAL);
    cr_assert_eq(read_body(BINARY("FP32", "[1,2,1,2]", "16"), bytes, 17), -EINVAL);
    cr_assert_eq(read_body(BINARY("FP32", "[1,2,1,2]", "20"), bytes, 20), -EINVAL);
    cr_assert_eq(read_body(INPUT("FP32", "[1,2,1,2]", "[1,2,3,4]"), bytes, 1), -EINVAL,
                 "the bytes belong to no tensor");
    cr_assert_eq(
        read_body("{\"inputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[1,2,1,2],\"data\":[1,2,3,4],"
                  "\"parameters\":{\"binary_data_size\":16}}]}",
                  bytes, 16),
        -EINVAL, "both");
}

#define SHARED(type, members)                                                                                \
    "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"" type "\",\"shape\":[1,2,1,2],\"parameters\":{"            \
    "\"shared_memory_region\":\"r\"," members "}}]}"

Test(tensor_request, reads_shared_memory)
{
    static const float floats[] = {1, 2, 3, 4};
    static const uint8_t halves[] = {0x00, 0x3c, 0x00, 0x40, 0x00, 0x42, 0x00, 0x44};
    char key[64];

    snprintf(key, sizeof key, "/convoy-unit-inference-%d", (int)getpid());
    int fd = shm_open(key, O_RDWR | O_CREAT | O_EXCL, 0600);
    cr_assert(fd >= 0);
    bool written =
        ftruncate(fd, 64) == 0 && pwrite(fd, floats, 16, 8) == 16 && pwrite(fd, halves, 8, 40) == 8;
    static const struct convoy_shared_memory_config config = {.enabled = true};
    cr_assert_eq(convoy_shared_memory_new(&config, &memory, &error), 0);
    int code = convoy_shared_memory_register(memory, "r", key, 0, 64, &error);
    shm_unlink(key);
    close(fd);
    cr_assert(written);
    cr_assert_eq(code, 0, "%s", error.message);

    cr_assert_eq(
        read_body(SHARED("FP32", "\"shared_memory_offset\":8,\"shared_memory_byte_size\":16"), NULL, 0), 0,
        "%s", error.message);
    expect_floats(floats, 4);
    cr_assert_eq(
        read_body(SHARED("FP16", "\"shared_memory_offset\":40,\"shared_memory_byte_size\":8"), NULL, 0), 0,
        "%s", error.message);
    expect_floats(floats, 4);
    cr_assert_eq(read_body(SHARED("FP32", "\"shared_memory_byte_size\":15"), NULL, 0), -EINVAL);
    cr_assert_eq(read_body(SHARED("FP32", "\"shared_memory_offset\":0"), NULL, 0), -EINVAL);
    cr_assert_eq(read_body(SHARED("FP32", "\"shared_memory_byte_size\":16,\"binary_data_size\":0"), NULL, 0),
                 -EINVAL);
    cr_assert_eq(
        read_body(SHARED("FP32", "\"shared_memory_offset\":49,\"shared_memory_byte_size\":16"), NULL, 0),
        -ERANGE);
    cr_assert_eq(read_body(WITH("\"outputs\":[{\"name\":\"z\",\"parameters\":{\"shared_memory_region\":\"r\","
                                "\"shared_memory_offset\":4,\"shared_memory_byte_size\":8}}]"),
                           NULL, 0),
                 0, "%s", error.message);
    cr_assert_str_eq(tensors.outputs[0].region.name, "r");
    cr_assert(tensors.outputs[0].region.offset == 4 && tensors.outputs[0].region.bytes == 8);
    cr_assert_eq(read_body(WITH("\"outputs\":[{\"name\":\"z\",\"parameters\":{\"shared_memory_region\":\"r\","
                                "\"shared_memory_byte_size\":7}}]"),
                           NULL, 0),
                 -EINVAL, "too small");
    cr_assert_eq(read_body(WITH("\"outputs\":[{\"name\":\"z\",\"parameters\":{\"shared_memory_region\":\"r\","
                                "\"shared_memory_byte_size\":99,\"classification\":1}}]"),
                           NULL, 0),
                 -EINVAL, "classification");
    convoy_shared_memory_free(memory);
    memory = NULL;
    cr_assert_eq(read_body(SHARED("FP32", "\"shared_memory_byte_size\":16"), NULL, 0), -EACCES,
                 "not this client");
}

Test(tensor_request, refuses_more_rows_than_allowed)
{
    cr_assert_eq(read_body(INPUT("FP32", "[5,2,1,2]", "[1,2,3,4]"), NULL, 0), -EFBIG);
    cr_assert_eq(read_body(INPUT("FP32", "[1000000000,2,1,2]", "[1,2,3,4]"), NULL, 0), -EFBIG);
}

Test(tensor_request, takes_no_memory_for_a_shape_that_lies)
{
    shape.height = 60000;
    shape.width = 60000;
    cr_assert_eq(read_body(INPUT("FP32", "[4,2,60000,60000]", "[1,2,3,4]"), NULL, 0), -EINVAL);
    cr_assert_null(tensors.tensor);
    shape.height = 1;
    shape.width = 2;
}

/* Whatever is cut off, it is refused and nothing is read past its end (the address sanitizer looks). */
Test(tensor_request, refuses_a_request_that_is_cut_off)
{
    static const char whole[] = WITH("\"id\":\"7\",\"outputs\":[{\"name\":\"y\"}]");
    char text[sizeof whole];

    for (size_t length = 0; length + 1 < sizeof whole; length++) {
        memcpy(text, whole, length);
        text[length] = '\0';
        cr_assert_eq(read_body(text, NULL, 0), -EINVAL, "%s", text);
    }
    cr_assert_eq(read_body(whole, NULL, 0), 0);
}

/* The same network as it may declare its input otherwise. */
static void declare(enum convoy_input_type type, bool nhwc)
{
    shape.input_type = type;
    shape.input_nhwc = nhwc;
}

TestSuite(tensor_declared, .fini = clean);

Test(tensor_declared, floats_of_channels_last_become_planes)
{
    static const float sent[] = {1, 3, 2, 4, 5, 7, 6, 8}, planes[] = {1, 2, 3, 4, 5, 6, 7, 8};
    static const uint8_t halves[] = {0x00, 0x3c, 0x00, 0x42, 0x00, 0x40, 0x00, 0x44};

    declare(CONVOY_INPUT_FP32, true);
    cr_assert_eq(read_body(INPUT("FP32", "[2,1,2,2]", "[1,3,2,4,5,7,6,8]"), NULL, 0), 0, "%s", error.message);
    cr_assert_eq(tensors.layout, CONVOY_LAYOUT_F32_CHW);
    expect_floats(planes, 8);
    cr_assert_eq(read_body(BINARY("FP32", "[2,1,2,2]", "32"), sent, 32), 0, "%s", error.message);
    expect_floats(planes, 8);
    cr_assert_eq(convoy_tensor_request_memory(&tensors), 32 + 16, "the tensor, and a row to turn it with");
    cr_assert_eq(read_body(BINARY("FP16", "[1,1,2,2]", "8"), halves, 8), 0, "%s", error.message);
    expect_floats(planes, 4);
    cr_assert_eq(read_body(INPUT("FP32", "[2,2,1,2]", "[1,3,2,4,5,7,6,8]"), NULL, 0), -EINVAL);
    cr_assert_not_null(strstr(error.message, "[N,1,2,2]"), "%s", error.message);
}

Test(tensor_declared, bytes_are_what_a_network_of_uint8_is_sent)
{
    static const uint8_t sent[] = {1, 3, 2, 4};

    declare(CONVOY_INPUT_UINT8, true);
    cr_assert_eq(read_body(BINARY("UINT8", "[1,1,2,2]", "4"), sent, 4), 0, "%s", error.message);
    cr_assert_eq(tensors.layout, CONVOY_LAYOUT_U8_HWC);
    cr_assert_eq(convoy_tensor_request_memory(&tensors), 0);
    cr_assert_eq(tensors.base, tensors.body + tensors.json_length, "it is used as it lies");
    cr_assert_eq(read_body(BINARY("UINT8", "[1,2,1,2]", "4"), sent, 4), 0, "%s", error.message);
    cr_assert_eq(tensors.layout, CONVOY_LAYOUT_U8_CHW);
    cr_assert_eq(read_body(INPUT("FP32", "[1,1,2,2]", "[1,2,3,4]"), NULL, 0), -EINVAL);
    cr_assert_not_null(strstr(error.message, "is UINT8, and FP32 is not"), "%s", error.message);
}

/* Both orders fit: what the network declares counts. */
Test(tensor_declared, pixels_whose_shape_fits_both_orders_come_as_declared)
{
    static const uint8_t sent[] = {1, 2, 3, 4, 5, 6, 7, 8};

    shape.height = 2;
    for (int nhwc = 0; nhwc < 2; nhwc++) {
        declare(CONVOY_INPUT_FP32, nhwc != 0);
        cr_assert_eq(read_body(BINARY("UINT8", "[1,2,2,2]", "8"), sent, 8), 0, "%s", error.message);
        cr_assert_eq(tensors.layout, nhwc != 0 ? CONVOY_LAYOUT_U8_HWC : CONVOY_LAYOUT_U8_CHW);
    }
}

static int read_raw(const void *bytes, size_t length)
{
    convoy_tensor_request_end(&tensors);
    free(body);
    body = malloc(length);
    memcpy(body, bytes, length);
    tensors = (struct convoy_tensor_request){.shape = &shape, .max_rows = 4, .body = body, .length = length};
    int code = convoy_tensor_request_read_raw(&tensors, &error);
    return code != 0 ? code : convoy_tensor_request_read_data(&tensors, &error);
}

Test(tensor_declared, a_raw_body_has_the_declared_datatype)
{
    static const uint8_t halves[] = {0x00, 0x3c, 0x00, 0x42, 0x00, 0x40, 0x00, 0x44};
    static const float planes[] = {1, 2, 3, 4};

    declare(CONVOY_INPUT_FP16, true);
    cr_assert_eq(read_raw(halves, 8), 0, "%s", error.message);
    cr_assert_eq(tensors.count, 1);
    expect_floats(planes, 4);
    declare(CONVOY_INPUT_UINT8, false);
    cr_assert_eq(read_raw(halves, 8), 0, "%s", error.message);
    cr_assert(tensors.count == 2 && tensors.layout == CONVOY_LAYOUT_U8_CHW);
    cr_assert_eq(read_raw(halves, 7), -EINVAL);
    cr_assert_not_null(strstr(error.message, "a row, UINT8 [2,1,2], has 4 bytes"), "%s", error.message);
}
