/* What a worker says of a model: what is taken, and that a lie is refused. */
#include "server/workers/worker_message.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct convoy_model_shape shape;
static struct convoy_error error;

/* The code of a model with an output of 12 elements and another of 1, which has members, too. */
static int read_with(const char *members)
{
    char text[400];

    snprintf(text, sizeof text,
             "{\"channels\":3,\"height\":2,\"width\":2,\"outputs\":[{\"elements\":12%s},{\"elements\":1}]}",
             members);
    cJSON *json = cJSON_Parse(text);
    cr_assert_not_null(json, "%s", text);
    int code = convoy_worker_message_shape(json, &shape, &error);
    cJSON_Delete(json);
    return code;
}

Test(worker_message, reads_dims_of_outputs)
{
    cr_assert_eq(read_with(",\"dims\":[2,1,6]"), 0, "%s", error.message);
    cr_assert_eq(shape.output_count, 2);
    cr_assert_eq(shape.output_elements[0], 12);
    cr_assert_eq(shape.output_rank[0], 3);
    cr_assert(shape.output_dims[0][0] == 2 && shape.output_dims[0][1] == 1 && shape.output_dims[0][2] == 6);
    cr_assert(shape.output_rank[1] == 1 && shape.output_dims[1][0] == 1);

    cr_assert_eq(read_with(""), 0, "%s", error.message);
    cr_assert(shape.output_rank[0] == 1 && shape.output_dims[0][0] == 12);
    cr_assert_eq(read_with(",\"dims\":[1,1,1,1,1,1,12,1]"), 0, "%s", error.message);
    cr_assert_eq(shape.output_rank[0], 8);
}

Test(worker_message, refuses_dims_that_lie)
{
    static const char *const lies[] = {"[]",
                                       "[11]",
                                       "[13]",
                                       "[12,2]",
                                       "[2,2,2]",
                                       "[0,12]",
                                       "[-2,-6]",
                                       "[2.5,4.8]",
                                       "[\"12\"]",
                                       "[1,1,1,1,1,1,1,1,12]",
                                       "[12,12,12,12,12,12,12,12]",
                                       "[1e300]",
                                       "12",
                                       "{\"a\":11}",
                                       "null"};
    char members[100];

    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        snprintf(members, sizeof members, ",\"dims\":%s", lies[i]);
        cr_assert_eq(read_with(members), -EPROTO, "%s", lies[i]);
        cr_assert_gt(strlen(error.message), 10);
    }
}

/* The code of a model whose input has these members. */
static int read_input(const char *members)
{
    char text[400];

    snprintf(text, sizeof text, "{\"channels\":3,\"height\":2,\"width\":2%s,\"outputs\":[{\"elements\":1}]}",
             members);
    cJSON *json = cJSON_Parse(text);
    cr_assert_not_null(json, "%s", text);
    int code = convoy_worker_message_shape(json, &shape, &error);
    cJSON_Delete(json);
    return code;
}

Test(worker_message, reads_how_the_input_is_declared)
{
    cr_assert_eq(read_input(""), 0, "%s", error.message);
    cr_assert(shape.input_type == CONVOY_INPUT_FP32 && !shape.input_nhwc);
    cr_assert_eq(read_input(",\"datatype\":\"UINT8\",\"layout\":\"nhwc\""), 0, "%s", error.message);
    cr_assert(shape.input_type == CONVOY_INPUT_UINT8 && shape.input_nhwc);
    cr_assert_eq(read_input(",\"datatype\":\"FP16\",\"layout\":\"nchw\""), 0, "%s", error.message);
    cr_assert(shape.input_type == CONVOY_INPUT_FP16 && !shape.input_nhwc);
    cr_assert_eq(read_input(",\"datatype\":\"BYTES\""), -EPROTO);
    cr_assert_eq(read_input(",\"layout\":\"auto\""), -EPROTO);
    cr_assert_eq(read_input(",\"layout\":\"hwc\""), -EPROTO);
}

/* The code of a whole message, which is left in `message`. */
static int read_message(const char *text)
{
    static struct convoy_worker_message message;
    int code = convoy_worker_message_read(cJSON_Parse(text), 2, &message, &error);
    convoy_worker_message_free(&message);
    return code;
}

static int read_canary(const char *canary)
{
    char text[400];
    snprintf(text, sizeof text,
             "{\"type\":\"loaded\",\"model\":1,\"channels\":3,\"height\":2,\"width\":2,\"weight_bytes\":8,"
             "\"outputs\":[{\"elements\":1}],\"canary\":%s}",
             canary);
    return read_message(text);
}

Test(worker_message, refuses_a_canary_that_is_none)
{
    char many[400] = "{\"values\":[", *end = many + strlen(many);
    cr_assert_eq(read_canary("{}"), 0, "%s", error.message);
    cr_assert_eq(read_canary("{\"values\":[1,null],\"ranges\":[1,0]}"), 0, "%s", error.message);
    cr_assert_eq(read_canary("{\"values\":[1,2],\"ranges\":[1]}"), -EPROTO);
    cr_assert_eq(read_canary("{\"values\":[1],\"ranges\":[-1]}"), -EPROTO);
    cr_assert_eq(read_canary("{\"values\":[1],\"ranges\":[\"1\"]}"), -EPROTO);
    cr_assert_eq(read_canary("{\"values\":[[1]],\"ranges\":[1]}"), -EPROTO);
    for (int i = 0; i < 65; i++)
        end += sprintf(end, "1,");
    sprintf(end - 1, "],\"ranges\":[");
    end += strlen(end);
    for (int i = 0; i < 65; i++)
        end += sprintf(end, "1,");
    sprintf(end - 1, "]}");
    cr_assert_eq(read_canary(many), -EPROTO);
}

static int read_time(const char *name, const char *us)
{
    char text[200];
    snprintf(text, sizeof text,
             "{\"type\":\"loaded\",\"model\":1,\"channels\":3,\"height\":2,\"width\":2,\"weight_bytes\":8,"
             "\"outputs\":[{\"elements\":1}],\"%s\":%s}",
             name, us);
    return read_message(text);
}

Test(worker_message, refuses_times_of_a_row_that_are_none)
{
    static const char *const names[] = {"first_run_us", "row_us"};
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(read_time(names[i], "0"), 0, "%s", error.message);
        cr_assert_eq(read_time(names[i], "1000000000000"), 0, "%s", error.message);
        cr_assert_eq(read_time(names[i], "-1"), -EPROTO);
        cr_assert_eq(read_time(names[i], "1e13"), -EPROTO);
        cr_assert_eq(read_time(names[i], "\"5\""), -EPROTO);
    }
}

Test(worker_message, refuses_checks_that_do_not_exist)
{
    cr_assert_eq(read_message("{\"type\":\"checked\",\"model\":1,\"check\":\"canary\"}"), 0);
    cr_assert_eq(read_message("{\"type\":\"checked\",\"model\":1,\"check\":\"weights\"}"), 0);
    cr_assert_eq(read_message("{\"type\":\"checked\",\"check\":\"decoder\"}"), 0); /* of no model */
    cr_assert_eq(read_message("{\"type\":\"checked\",\"check\":\"canary\"}"), -EPROTO);
    cr_assert_eq(read_message("{\"type\":\"checked\",\"model\":1,\"check\":\"all\"}"), -EPROTO);
    cr_assert_eq(read_message("{\"type\":\"checked\",\"model\":1}"), -EPROTO);
    cr_assert_eq(read_message("{\"type\":\"checked\",\"model\":2,\"check\":\"canary\"}"), -EPROTO);
}

Test(worker_message, reads_a_devices_health)
{
    struct convoy_worker_message message;
    cJSON *json =
        cJSON_Parse("{\"type\":\"health\",\"power\":312451,\"memory_total\":150754820096,\"new\":1}");
    cr_assert_eq(convoy_worker_message_read(json, 0, &message, &error), 0, "%s", error.message);
    cr_assert_eq(message.type, CONVOY_WORKER_HEALTH);
    for (int i = 0; i < CONVOY_HEALTH_VALUES; i++)
        cr_expect_eq(message.health.values[i], i == CONVOY_HEALTH_POWER          ? 312451u
                                               : i == CONVOY_HEALTH_MEMORY_TOTAL ? 150754820096u
                                                                                 : CONVOY_HEALTH_UNKNOWN);
    convoy_worker_message_free(&message);
    cr_assert_eq(read_message("{\"type\":\"health\",\"xids\":-1}"), -EPROTO);
    cr_assert_eq(read_message("{\"type\":\"health\",\"xids\":1e300}"), -EPROTO);
    cr_assert_eq(read_message("{\"type\":\"health\",\"xids\":\"1\"}"), -EPROTO);
    cr_assert_eq(read_message("{\"type\":\"health\",\"xids\":null}"), -EPROTO);
}

Test(worker_message, reads_how_large_a_class_map_is_or_why_there_is_none)
{
    cr_assert_eq(read_input(",\"class_map\":{\"height\":64,\"width\":63}"), 0, "%s", error.message);
    cr_assert(shape.map_height == 64 && shape.map_width == 63 && shape.map_reason[0] == '\0');
    cr_assert_eq(read_input(",\"class_map\":{\"reason\":\"it is a tree\"}"), 0, "%s", error.message);
    cr_assert(shape.map_height == 0 && shape.map_width == 0);
    cr_assert_str_eq(shape.map_reason, "it is a tree");
    cr_assert_eq(read_input(""), 0, "%s", error.message);
    cr_assert(shape.map_height == 0 && strlen(shape.map_reason) > 10);
}

Test(worker_message, refuses_class_maps_that_cannot_be)
{
    static const char *const lies[] = {"{}",
                                       "null",
                                       "7",
                                       "{\"height\":64,\"width\":65}",
                                       "{\"height\":0,\"width\":4}",
                                       "{\"height\":4,\"width\":4097}",
                                       "{\"height\":4}",
                                       "{\"height\":\"4\",\"width\":4}"};
    char members[100];

    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        snprintf(members, sizeof members, ",\"class_map\":%s", lies[i]);
        cr_assert_eq(read_input(members), -EPROTO, "%s", lies[i]);
    }
}

/* The code of a HELLO of this build with more members. */
static int read_hello_with(const char *members, struct convoy_worker_message *message)
{
    char text[400];
    snprintf(text, sizeof text,
             "{\"type\":\"hello\",\"abi\":%d,\"device_count\":1,\"streams\":2,\"backend\":\"cpu\",\"device\":"
             "\"cpu\","
             "\"description\":\"\"%s}",
             CONVOY_CHANNEL_ABI, members);
    cJSON *json = cJSON_Parse(text);
    cr_assert_not_null(json, "%s", text);
    return convoy_worker_message_read(json, 1, message, &error);
}

Test(worker_message, a_worker_that_is_adopted_says_which_outputs_it_uses)
{
    static const char *const lies[] = {"", ",\"turn\":2", ",\"turn\":-1", ",\"turn\":\"1\""};
    struct convoy_worker_message message;
    char members[100];
    cr_assert_eq(read_hello_with("", &message), 0, "%s", error.message);
    cr_assert_eq(message.hello.turn, 0);
    convoy_worker_message_free(&message);
    cr_assert_eq(read_hello_with(",\"attached\":true,\"turn\":1", &message), 0, "%s", error.message);
    cr_assert(message.hello.attached && message.hello.turn == 1);
    convoy_worker_message_free(&message);
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        snprintf(members, sizeof members, ",\"attached\":true%s", lies[i]);
        cr_assert_eq(read_hello_with(members, &message), -EPROTO, "%s", members);
        convoy_worker_message_free(&message);
    }
}
