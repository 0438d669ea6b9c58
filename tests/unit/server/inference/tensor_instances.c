/* The instances of KServe's V1 protocol: images and numbers, and what is neither. */
#include "server/inference/tensor_request.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Channels of 1 x 2 pixels; outputs of 3 and 2. */
static struct convoy_model_shape shape = {.channels = 3,
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

static int read_body(const char *json)
{
    size_t length = strlen(json);

    convoy_tensor_request_end(&tensors);
    free(body);
    body = malloc(length + 1);
    memcpy(body, json, length); // NOLINT(bugprone-not-null-terminated-result): on purpose
    tensors = (struct convoy_tensor_request){
        .shape = &shape, .max_rows = 4, .body = body, .length = length, .json_length = length};
    int code = convoy_tensor_request_read_instances(&tensors, &error);
    return code != 0 ? code : convoy_tensor_request_read_data(&tensors, &error);
}

static void clean(void)
{
    convoy_tensor_request_end(&tensors);
    free(body);
    body = NULL;
    shape.channels = 3;
}

TestSuite(tensor_instances, .fini = clean);

Test(tensor_instances, reads_numbers)
{
    static const float expected[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    static const char *const texts[] = {
        "{\"instances\":[[[[1,2]],[[3,4]],[[5,6]]],[[[7,8]],[[9,10]],[[11,12]]]]}",
        "{\"signature_name\":\"x\", \"instances\" : [ [1,2,3,4,5,6],\n[7,8,9,10,11,12] ] , \"more\":[1]}"};

    for (size_t i = 0; i < 2; i++) {
        cr_assert_eq(read_body(texts[i]), 0, "%s: %s", texts[i], error.message);
        cr_assert_eq(tensors.count, 2);
        cr_assert_eq(tensors.layout, CONVOY_LAYOUT_F32_CHW);
        cr_assert_eq(tensors.row_bytes, 6 * sizeof(float));
        cr_assert_eq(memcmp(tensors.base, expected, sizeof expected), 0);
        cr_assert_eq(tensors.output_count, 2);
        cr_assert(tensors.scaled_decoding, "as images.scaled_decoding says");
        cr_assert(tensors.outputs[1].index == 1 && !tensors.outputs[1].binary);
    }
}

Test(tensor_instances, reads_images)
{
    cr_assert_eq(
        read_body("{\"instances\":[{\"b64\":\"Zm9v\"},{ \"b64\" : \"YmFyYmFy\\n\" } , {\"b64\":\"\"}]}"), 0,
        "%s", error.message);
    cr_assert_eq(tensors.count, 3);
    cr_assert_eq(tensors.layout, CONVOY_LAYOUT_ENCODED);
    cr_assert(tensors.parts[0].length == 3 && memcmp(tensors.parts[0].bytes, "foo", 3) == 0);
    cr_assert(tensors.parts[1].length == 6 && memcmp(tensors.parts[1].bytes, "barbar", 6) == 0);
    cr_assert_eq(tensors.parts[2].length, 0);
    /* Brackets, commas and quotes in strings are none. */
    cr_assert_eq(read_body("{\"a\":\"]}[,\\\"{\",\"instances\":[{\"b64\":\"Zm9v\"}]}"), 0, "%s",
                 error.message);
    cr_assert_eq(tensors.count, 1);
}

Test(tensor_instances, refuses_what_is_neither)
{
    static const struct {
        const char *text;
        int code;
        const char *part;
    } cases[] = {
        {"{}", -EINVAL, "lacks 'instances'"},
        {"[]", -EINVAL, "JSON object"},
        {"{\"inputs\":[[1,2,3,4,5,6]]}", -EINVAL, "lacks 'instances'"},
        {"{\"instances\":[]}", -EINVAL, "not empty"},
        {"{\"instances\":5}", -EINVAL, "must be an array"},
        {"{\"instances\":\"[1]\"}", -EINVAL, "must be an array"},
        {"{\"instances\":{\"b64\":\"Zm9v\"}}", -EINVAL, "must be an array"},
        {"{\"instances\":null}", -EINVAL, "must be an array"},
        {"{\"instances\":[1,2,3]}", -EINVAL, "[3][1][2]"},
        {"{\"instances\":[\"Zm9v\"]}", -EINVAL, "\"b64\""},
        {"{\"instances\":[null]}", -EINVAL, "\"b64\""},
        {"{\"instances\":[[[1,2,3,4,5,6]]]}", -EINVAL, "[3][1][2]"},
        {"{\"instances\":[[1,2,3,4,5]]}", -EINVAL, "model's shape"},
        {"{\"instances\":[[1,2,3,4,5,6],[1,2,3,4,5,6,7]]}", -EINVAL, "model's shape"},
        {"{\"instances\":[[1,2,3,4,5,6],7]}", -EINVAL, "model's shape"},
        {"{\"instances\":[[],[1,2,3,4,5,6]]}", -EINVAL, "model's shape"},
        {"{\"instances\":[[[[1,2]],[[3,4]]]]}", -EINVAL, "model's shape"},
        {"{\"instances\":[[1,2,3,4,5,\"6\"]]}", -EINVAL, "instances[5]"},
        {"{\"instances\":[[1,2,3,4,5,1e39]]}", -EINVAL, "too large"},
        {"{\"instances\":[[1,2,3,4,5,6],{\"b64\":\"Zm9v\"}]}", -EINVAL, "model's shape"},
        {"{\"instances\":[{\"b64\":\"Zm9v\"},[1,2,3,4,5,6]]}", -EINVAL, "instances"},
        {"{\"instances\":[{\"b64\":\"Zm9v\"},5]}", -EINVAL, "instances[1]"},
        {"{\"instances\":[{\"b64\":\"Zm9v\"},{\"b46\":\"Zm9v\"}]}", -EINVAL, "instances[1]"},
        {"{\"instances\":[{\"b64\":\"Zm9v\",\"top\":1}]}", -EINVAL, "instances[0]"},
        {"{\"instances\":[{\"b64\":\"Zm9v!\"}]}", -EINVAL, "instances[0]"},
        {"{\"instances\":[{\"b64\":5}]}", -EINVAL, "instances[0]"},
        {"{\"instances\":[{\"image\":{\"b64\":\"Zm9v\"}}]}", -EINVAL, "instances[0]"},
        {"{\"instances\":[{}]}", -EINVAL, "instances[0]"},
        {"{\"instances\":[[1,2,3,4,5,6]", -EINVAL, ""},
        {"{\"instances\":[[1,2,3,4,5,6}]}", -EINVAL, ""},
        {"{\"instances\":[{\"b64\":\"Zm9v\"}],\"instances\":[{\"b64\":\"Zm9v\"}]}", -EINVAL, "twice"},
        {"{\"instances\":[[],[],[],[],[]]}", -EFBIG, "max_per_request"},
        {"", -EINVAL, ""},
        {"{\"instances\":", -EINVAL, ""},
        {"{\"instances\"", -EINVAL, ""}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_assert_eq(read_body(cases[i].text), cases[i].code, "%s: %s", cases[i].text, error.message);
        cr_assert_not_null(strstr(error.message, cases[i].part), "%s: %s", cases[i].text, error.message);
    }
    shape.channels = 5;
    cr_assert_eq(read_body("{\"instances\":[{\"b64\":\"Zm9v\"}]}"), -EINVAL);
    cr_assert_not_null(strstr(error.message, "5 channels"), "%s", error.message);
}
