/* Numbers and files out of a tensor's "data" in JSON, and its datatypes. */
#include "server/inference/tensor_text.h"
#include "server/inference/datatype.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct convoy_error error;

/* Without a NUL behind it, so that the address sanitizer sees an over-read. */
static char *bare(const char *text)
{
    char *copy = malloc(strlen(text) > 0 ? strlen(text) : 1);
    memcpy(copy, text, strlen(text)); // NOLINT(bugprone-not-null-terminated-result): on purpose
    return copy;
}

static int numbers(const char *text, const struct convoy_tensor_shape *shape, enum convoy_datatype type,
                   void *values)
{
    char *copy = bare(text);
    int code = convoy_tensor_numbers(copy, strlen(text), shape, type, values, &error);
    free(copy);
    return code;
}

static const struct convoy_tensor_shape two_by_three = {2, {2, 3}}, one = {1, {1}};

Test(tensor_text, reads_flat_and_nested_arrays)
{
    static const char *const texts[] = {"[1,2,3,4,5,6]", " [ 1 ,\n2\t,\r3,4,5,6 ] ", "[[1,2,3],[4,5,6]]",
                                        "[ [1,2 ,3] , [4,5,6]\n]"};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        float values[6] = {0};
        cr_assert_eq(numbers(texts[i], &two_by_three, CONVOY_FP32, values), 0, "%s: %s", texts[i],
                     error.message);
        for (int j = 0; j < 6; j++)
            cr_assert_eq(values[j], (float)(j + 1), "%s", texts[i]);
    }
}

Test(tensor_text, refuses_what_is_no_array_of_the_shape)
{
    static const char *const texts[] = {"",
                                        "1",
                                        "null",
                                        "[]",
                                        "[[],[]]",
                                        "[1,2,3,4,5]",
                                        "[1,2,3,4,5,6,7]",
                                        "[1,2,3,4,5,6",
                                        "[1,2,3,4,5,6,]",
                                        "[,1,2,3,4,5,6]",
                                        "[1,,2,3,4,5,6]",
                                        "[1 2,3,4,5,6]",
                                        "[1,2,3,4,5,6]]",
                                        "[1,2,3,4,5,6] 7",
                                        "[[1,2],[3,4],[5,6]]",
                                        "[[1,2,3],[4,5]]",
                                        "[[1,2,3],[4,5,6,7]]",
                                        "[[1,2,3],4,5,6]",
                                        "[[1,2,3],4]",
                                        "[1,2,3,[4,5,6]]",
                                        "[[[1,2,3],[4,5,6]]]",
                                        "[[1,2,3][4,5,6]]",
                                        "[[1,2,3],[4,5,6],]",
                                        "[[1,2,3],[4,5,6],[]]",
                                        "[[1,2,3]",
                                        "{1,2,3,4,5,6}",
                                        "[1,2,3,4,5,\"6\"]",
                                        "[1,2,3,4,5,null]",
                                        "[1,2,3,4,5,NaN",
                                        "[1,2,3,4,5,nan]"};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        float values[6];
        cr_assert_eq(numbers(texts[i], &two_by_three, CONVOY_FP32, values), -EINVAL, "%s", texts[i]);
        cr_assert_gt(strlen(error.message), 10);
    }
}

/* Against the C library, which rounds right. */
Test(tensor_text, rounds_numbers_as_the_library_does)
{
    static const char *const texts[] = {"0",
                                        "-0",
                                        "0.0",
                                        "1",
                                        "-1",
                                        "0.1",
                                        "-0.30000001192092896",
                                        "16777217",
                                        "9007199254740993",
                                        "123456789012345678901234567890",
                                        "1e22",
                                        "1e23",
                                        "1E+5",
                                        "25e-1",
                                        "1.5e-45",
                                        "1e-400",
                                        "3.4028234e38",
                                        "-3.4028235e38",
                                        "0.000000000000000000000000000000000000011754943508222875",
                                        "5e-324",
                                        "2.2250738585072011e-308",
                                        "0.50000000000000000001"};
    char text[160];

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        float value = 7, expected = (float)strtod(texts[i], NULL);
        snprintf(text, sizeof text, "[%s]", texts[i]);
        cr_assert_eq(numbers(text, &one, CONVOY_FP32, &value), 0, "%s: %s", text, error.message);
        cr_assert_eq(memcmp(&value, &expected, sizeof value), 0, "%s: %.9g", text, (double)value);
    }
    srand(1);
    for (int i = 0; i < 20000; i++) {
        float written = (float)(rand() - RAND_MAX / 2) * exp2f((float)(rand() % 190 - 100)), value = 0;
        snprintf(text, sizeof text, "[%.*g]", 9 + rand() % 9, (double)written);
        cr_assert_eq(numbers(text, &one, CONVOY_FP32, &value), 0, "%s", text);
        cr_assert_eq(value, written, "%s: %.9g", text, (double)value);
    }
}

Test(tensor_text, refuses_what_is_no_number)
{
    static const char *const texts[] = {"-",       "+1", "01",    "-01",      ".5",        "1.",
                                        "1.e5",    "1e", "1e+",   "0x10",     "1e400",     "1e39",
                                        "Infinit", "Na", "-N",    "infinity", "+Infinity", "NaNs",
                                        "--1",     "1-", "1.2.3", "true",     "1_0"};
    char text[256];
    float value;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        snprintf(text, sizeof text, "[%s]", texts[i]);
        cr_assert_eq(numbers(text, &one, CONVOY_FP32, &value), -EINVAL, "%s", text);
    }
    snprintf(text, sizeof text, "[0.%0*d]", 200, 1);
    cr_assert_eq(numbers(text, &one, CONVOY_FP32, &value), -EINVAL, "%s", text);
}

Test(tensor_text, reads_what_is_not_finite)
{
    static const struct convoy_tensor_shape seven = {1, {7}};
    float values[7];
    uint8_t byte;

    cr_assert_eq(numbers("[NaN,Infinity, -Infinity ,Inf,-Inf\n,-NaN,1]", &seven, CONVOY_FP32, values), 0,
                 "%s", error.message);
    cr_assert(isnan(values[0]) && isnan(values[5]));
    cr_assert(isinf(values[1]) && values[1] > 0 && values[3] == values[1]);
    cr_assert(isinf(values[2]) && values[2] < 0 && values[4] == values[2]);
    cr_assert_eq(values[6], 1.0f);
    cr_assert_eq(numbers("[NaN]", &one, CONVOY_INT8, values), -EINVAL);
    cr_assert_eq(numbers("[Infinity]", &one, CONVOY_UINT8, &byte), -EINVAL);
}

Test(tensor_text, keeps_integers_to_their_range)
{
    uint8_t bytes[2];
    float floats[2];
    static const struct convoy_tensor_shape two = {1, {2}};

    cr_assert_eq(numbers("[0,255]", &two, CONVOY_UINT8, bytes), 0);
    cr_assert_eq(bytes[1], 255);
    cr_assert_eq(numbers("[0,256]", &two, CONVOY_UINT8, bytes), -EINVAL);
    cr_assert_eq(numbers("[-1,0]", &two, CONVOY_UINT8, bytes), -EINVAL);
    cr_assert_eq(numbers("[0.5,0]", &two, CONVOY_UINT8, bytes), -EINVAL);
    cr_assert_eq(numbers("[-128,127]", &two, CONVOY_INT8, floats), 0);
    cr_assert_eq(floats[0], -128.0f);
    cr_assert_eq(numbers("[-129,0]", &two, CONVOY_INT8, floats), -EINVAL);
    cr_assert_eq(numbers("[-32768,32767]", &two, CONVOY_INT16, floats), 0);
    cr_assert_eq(numbers("[32768,0]", &two, CONVOY_INT16, floats), -EINVAL);
    cr_assert_eq(numbers("[65535,0]", &two, CONVOY_UINT16, floats), 0);
    cr_assert_eq(floats[0], 65535.0f);
    cr_assert_eq(numbers("[65536,0]", &two, CONVOY_UINT16, floats), -EINVAL);
}

static int files(const char *text, const struct convoy_tensor_shape *shape, char **copy,
                 struct convoy_part *parts)
{
    *copy = bare(text);
    return convoy_tensor_files(*copy, strlen(text), shape, parts, &error);
}

Test(tensor_text, decodes_files)
{
    /* RFC 4648, 10, and the other alphabet. */
    static const struct {
        const char *text, *bytes;
        size_t length;
    } cases[] = {{"[\"\"]", "", 0},
                 {"[\"Zg==\"]", "f", 1},
                 {"[\"Zm8=\"]", "fo", 2},
                 {"[\"Zm9v\"]", "foo", 3},
                 {"[\"Zm9vYg==\"]", "foob", 4},
                 {"[\"Zm9vYg\"]", "foob", 4},
                 {"[ \"Zm9vYmFy\" ]", "foobar", 6},
                 {"[\"+/8=\"]", "\xfb\xff", 2},
                 {"[\"-_8=\"]", "\xfb\xff", 2},
                 {"[\"+\\/8=\"]", "\xfb\xff", 2},
                 /* Lines, as base64(1) writes them, and escapes of any writer. */
                 {"[\"Zm9v\\nYmFy\\n\"]", "foobar", 6},
                 {"[\"Zm9\\r\\nvYm\\r\\n\\r\\nFy\"]", "foobar", 6},
                 {"[\"Zm9v\nYmFy\r\n\"]", "foobar", 6},
                 {"[\"\\nZg=\\n=\\n\"]", "f", 1},
                 {"[\"\\u002B\\u002f8\\u003d\"]", "\xfb\xff", 2},
                 {"[\"\\u0041A\\u000A==\"]", "", 1}};
    struct convoy_part parts[2];
    char *copy;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_assert_eq(files(cases[i].text, &one, &copy, parts), 0, "%s: %s", cases[i].text, error.message);
        cr_assert_eq(parts[0].length, cases[i].length, "%s", cases[i].text);
        cr_assert_eq(memcmp(parts[0].bytes, cases[i].bytes, cases[i].length), 0, "%s", cases[i].text);
        free(copy);
    }
    static const struct convoy_tensor_shape nested = {2, {2, 1}};
    cr_assert_eq(files("[[\"Zm9v\"],[\"YmFy\"]]", &nested, &copy, parts), 0);
    cr_assert_eq(memcmp(parts[0].bytes, "foo", 3), 0);
    cr_assert_eq(memcmp(parts[1].bytes, "bar", 3), 0);
    free(copy);
}

Test(tensor_text, refuses_what_is_no_base64)
{
    static const char *const texts[] = {"[1]",
                                        "[\"Z\"]",
                                        "[\"Zm9vY\"]",
                                        "[\"Zm 9v\"]",
                                        "[\"Zg=a\"]",
                                        "[\"Zg===\"]",
                                        "[\"Zm9v",
                                        "[\"Zm9v\"",
                                        "[\"\\u0041\"]",
                                        "[\"Zg\\t==\"]",
                                        "[\"Zg\\\"==\"]",
                                        "[\"\\u0141AAA\"]",
                                        "[\"\\u00g1AAA\"]",
                                        "[\"AAA\\u004\"]",
                                        "[\"Zm9v\\u00",
                                        "[\"Zg==\\nZg==\"]",
                                        "[\"Zm9v\\",
                                        "[\"\xff\"]",
                                        "[Zm9v]",
                                        "[\"Zm9v\",\"Zm9v\"]",
                                        "[\""};
    struct convoy_part parts[1];
    char *copy;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        cr_assert_eq(files(texts[i], &one, &copy, parts), -EINVAL, "%s", texts[i]);
        free(copy);
    }
}

Test(tensor_text, converts_every_half_as_its_definition_says)
{
    for (unsigned bits = 0; bits < 65536; bits++) {
        const uint8_t bytes[2] = {(uint8_t)bits, (uint8_t)(bits >> 8)};
        int exponent = (int)(bits >> 10 & 0x1f);
        double fraction = bits & 0x3ff, magnitude;
        float value;

        convoy_datatype_to_float(CONVOY_FP16, bytes, 1, &value);
        if (exponent == 31 && fraction > 0) {
            cr_assert(isnan(value), "%04x", bits);
            continue;
        }
        if (exponent == 31)
            magnitude = INFINITY;
        else
            magnitude = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
        cr_assert_eq((double)value, bits & 0x8000 ? -magnitude : magnitude, "%04x: %g", bits, (double)value);
        cr_assert_eq(signbit(value) != 0, bits >> 15, "%04x", bits);
    }
}

Test(tensor_text, converts_the_other_types)
{
    static const uint8_t bytes[] = {0x80, 0xbf, 0xff, 0x7f, 0x00, 0x80};
    float values[6];

    convoy_datatype_to_float(CONVOY_BF16, bytes, 1, values);
    cr_assert_eq(values[0], -1.0f);
    convoy_datatype_to_float(CONVOY_INT8, bytes, 3, values);
    cr_assert(values[0] == -128.0f && values[1] == -65.0f && values[2] == -1.0f);
    convoy_datatype_to_float(CONVOY_INT16, bytes, 3, values);
    cr_assert(values[0] == -16512.0f && values[1] == 32767.0f && values[2] == -32768.0f);
    convoy_datatype_to_float(CONVOY_UINT16, bytes, 3, values);
    cr_assert(values[0] == 49024.0f && values[1] == 32767.0f && values[2] == 32768.0f);
    convoy_datatype_to_float(CONVOY_UINT8, bytes, 2, values);
    cr_assert(values[0] == 128.0f && values[1] == 191.0f);
}

Test(tensor_text, knows_its_datatypes)
{
    static const char *const taken[] = {"FP32", "FP16", "BF16", "INT8", "INT16", "UINT16", "UINT8", "BYTES"};
    static const char *const refused[] = {"",       "fp32",   "FP64", "INT32", "INT64",
                                          "UINT32", "UINT64", "BOOL", "FP8"};
    enum convoy_datatype type;

    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        cr_assert_eq(convoy_datatype_parse(taken[i], &type, &error), 0, "%s", taken[i]);
        cr_assert_str_eq(convoy_datatype_name(type), taken[i]);
    }
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        cr_assert_eq(convoy_datatype_parse(refused[i], &type, &error), -EINVAL, "%s", refused[i]);
}

Test(tensor_text, counts_elements_without_overflow)
{
    static const struct convoy_tensor_shape large = {3, {1u << 31, 1u << 31, 4}};

    cr_assert_eq(convoy_tensor_elements(&two_by_three), 6);
    cr_assert_eq(convoy_tensor_elements(&large), UINT64_MAX);
}
