/* The JSON that is written: commas, escapes, numbers, and memory that runs out. */
#include "engine/base/json_writer.h"

#include <cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static void expect(struct convoy_json_writer *json, const char *text)
{
    cr_assert_not(json->failed);
    cr_assert_eq(json->length, strlen(text), "%.*s", (int)json->length, json->bytes);
    cr_assert_arr_eq(json->bytes, text, json->length, "%.*s", (int)json->length, json->bytes);
    convoy_json_writer_free(json);
}

static void expect_string(const char *string, const char *text)
{
    struct convoy_json_writer json = {0};

    convoy_json_write_string(&json, string);
    expect(&json, text);
}

Test(json_writer, puts_commas_between_members_and_values_at_every_depth)
{
    struct convoy_json_writer json = {0};

    convoy_json_write_begin_object(&json);
    convoy_json_write_key(&json, "empty");
    convoy_json_write_begin_object(&json);
    convoy_json_write_end_object(&json);
    convoy_json_write_key(&json, "list");
    convoy_json_write_begin_array(&json);
    convoy_json_write_begin_array(&json);
    convoy_json_write_end_array(&json);
    convoy_json_write_begin_array(&json);
    convoy_json_write_unsigned(&json, 1);
    convoy_json_write_string(&json, "two");
    convoy_json_write_bool(&json, true);
    convoy_json_write_bool(&json, false);
    convoy_json_write_end_array(&json);
    convoy_json_write_begin_object(&json);
    convoy_json_write_key(&json, "a");
    convoy_json_write_double(&json, 0.5);
    convoy_json_write_key(&json, "b");
    convoy_json_write_float(&json, 0.5f);
    convoy_json_write_end_object(&json);
    convoy_json_write_end_array(&json);
    convoy_json_write_key(&json, "last");
    convoy_json_write_string(&json, "");
    convoy_json_write_end_object(&json);
    convoy_json_writer_append(&json, "\n", 1);
    expect(&json,
           "{\"empty\":{},\"list\":[[],[1,\"two\",true,false],{\"a\":0.5,\"b\":0.5}],\"last\":\"\"}\n");
}

Test(json_writer, puts_commas_around_fragments)
{
    struct convoy_json_writer json = {0};

    convoy_json_write_begin_array(&json);
    convoy_json_write_fragment(&json, "", 0);
    convoy_json_write_fragment(&json, "1,2", 3);
    convoy_json_write_fragment(&json, "", 0);
    convoy_json_write_fragment(&json, "{}", 2);
    convoy_json_write_unsigned(&json, 3);
    convoy_json_write_end_array(&json);
    expect(&json, "[1,2,{},3]");
}

Test(json_writer, escapes_what_json_forbids)
{
    expect_string("", "\"\"");
    expect_string("plain", "\"plain\"");
    expect_string("a\"b\\c/", "\"a\\\"b\\\\c/\"");
    expect_string("\n\r\t\x01\x1f\x7f", "\"\\n\\r\\t\\u0001\\u001f\\u007f\"");
    expect_string("gr\xC3\xBC\xC3\x9F \xF0\x9F\x90\xB1", "\"gr\xC3\xBC\xC3\x9F \xF0\x9F\x90\xB1\"");
}

Test(json_writer, replaces_what_is_not_utf8)
{
    expect_string("\xFF", "\"\xEF\xBF\xBD\"");
    expect_string("a\xC3", "\"a\xEF\xBF\xBD\"");
    expect_string("\xC0\xAFx", "\"\xEF\xBF\xBD\xEF\xBF\xBDx\"");
    expect_string("\xED\xA0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

Test(json_writer, writes_numbers)
{
    struct convoy_json_writer json = {0};

    convoy_json_write_begin_array(&json);
    convoy_json_write_unsigned(&json, 0);
    convoy_json_write_unsigned(&json, UINT64_MAX);
    convoy_json_write_double(&json, 0.9731);
    convoy_json_write_double(&json, 1e-7);
    convoy_json_write_double(&json, NAN);
    convoy_json_write_double(&json, -INFINITY);
    convoy_json_write_double(&json, -2.5);
    convoy_json_write_float(&json, 0.1f);
    convoy_json_write_float(&json, -1.17549435e-38f);
    convoy_json_write_float(&json, INFINITY);
    convoy_json_write_float(&json, -INFINITY);
    convoy_json_write_float(&json, NAN);
    convoy_json_write_end_array(&json);
    expect(&json, "[0,18446744073709551615,0.9731,1e-07,null,null,-2.5,0.100000001,-1.17549435e-38,Infinity,-"
                  "Infinity,NaN]");
}

/* Many values, so that the buffer grows in the midst of each kind. */
Test(json_writer, what_is_longer_than_the_first_buffer_parses)
{
    struct convoy_json_writer json = {0};

    convoy_json_write_begin_array(&json);
    for (unsigned i = 0; i < 2000; i++) {
        convoy_json_write_begin_object(&json);
        convoy_json_write_key(&json, "name");
        convoy_json_write_string(&json, "a \"quoted\" name\n");
        convoy_json_write_key(&json, "value");
        convoy_json_write_float(&json, (float)i / 3);
        convoy_json_write_end_object(&json);
    }
    convoy_json_write_end_array(&json);
    cr_assert_not(json.failed);
    cJSON *parsed = cJSON_ParseWithLength(json.bytes, json.length);
    cr_assert_not_null(parsed);
    cr_assert_eq(cJSON_GetArraySize(parsed), 2000);
    const cJSON *last = cJSON_GetArrayItem(parsed, 1999);
    cr_assert_str_eq(cJSON_GetObjectItem(last, "name")->valuestring, "a \"quoted\" name\n");
    cr_assert_eq((float)cJSON_GetObjectItem(last, "value")->valuedouble, 1999.0f / 3);
    cJSON_Delete(parsed);
    convoy_json_writer_free(&json);
}

/* A buffer that cannot grow: nothing is written, by no function, and nothing is touched. */
Test(json_writer, memory_that_runs_out_is_remembered)
{
    struct convoy_json_writer json = {.length = SIZE_MAX - 1, .capacity = SIZE_MAX - 1};

    convoy_json_write_begin_object(&json);
    cr_assert(json.failed);
    convoy_json_write_key(&json, "key");
    convoy_json_write_string(&json, "text \"\n");
    convoy_json_write_bool(&json, true);
    convoy_json_write_unsigned(&json, 1);
    convoy_json_write_double(&json, 1);
    convoy_json_write_float(&json, NAN);
    convoy_json_write_fragment(&json, "1", 1);
    convoy_json_write_end_object(&json);
    convoy_json_writer_append(&json, "\n", 1);
    cr_assert(json.failed);
    cr_assert_null(json.bytes);
    cr_assert_eq(json.length, SIZE_MAX - 1);
}
