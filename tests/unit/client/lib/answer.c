/* What the client makes of answers: real ones, errors, and everything that is none. */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/answer.h"

#define ANSWER(results)                                                                                      \
    "{\"model\":\"m\",\"version\":\"1\",\"results\":[" results                                               \
    "],\"timing\":{\"decode_us\":1,\"queue_us\":2,"                                                          \
    "\"input_us\":3,\"compute_us\":4.5,\"output_us\":5,\"total_us\":20},\"batch_size\":8,\"device\":"        \
    "\"cpu\"}"
#define CAT    "{\"predictions\":[{\"label\":\"cat\",\"index\":3,\"probability\":0.75}]}"
#define SPOILT "{\"error\":\"cut off\",\"status\":422}"

static struct convoy_failure failure;

static int read_text(const char *text, int http_status, size_t images, struct convoy_answer **answer)
{
    struct client_response response = {text, strlen(text), http_status, 7, "an-id"};
    memset(&failure, 0, sizeof failure);
    return client_answer_read(&response, images, answer, &failure);
}

static void hostile(const char *text, size_t images)
{
    struct convoy_answer *answer = NULL;
    cr_assert_eq(read_text(text, 200, images, &answer), -EPROTO, "%s", text);
    cr_assert_null(answer);
    cr_assert(strlen(failure.message) > 10);
    /* Cut off anywhere it is an error too, and never read past its end. */
    for (size_t length = 0; length < strlen(text); length++) {
        char *part = strndup(text, length);
        cr_assert_neq(read_text(part, 200, images, &answer), 0, "%s", part);
        free(part);
    }
}

Test(answer, images_that_the_device_decoded_are_counted)
{
    static const char *const text = ANSWER("{\"predictions\":[],\"decoder\":\"gpu\"}," SPOILT
                                           ",{\"predictions\":[],\"decoder\":\"cpu\"}," CAT);
    struct convoy_answer *answer;
    cr_assert_eq(read_text(text, 200, 4, &answer), 0);
    cr_expect_eq(answer->decoded_by_gpu, 1);
    client_answer_discard(answer);
}

Test(client_answer, has_what_the_server_said)
{
    struct convoy_answer *answer;
    cr_assert_eq(read_text(ANSWER(CAT "," SPOILT) " \n", 200, 2, &answer), 0, "%s", failure.message);
    cr_assert_str_eq(answer->model, "m");
    cr_assert_str_eq(answer->version, "1");
    cr_assert_str_eq(answer->device, "cpu");
    cr_assert_str_eq(answer->request_id, "an-id");
    cr_assert_eq(answer->batch_size, 8);
    cr_assert_eq(answer->retries, 0);
    cr_assert_eq(answer->timing.compute_us, 4.5);
    cr_assert_eq(answer->timing.total_us, 20);
    cr_assert_eq(answer->result_count, 2);
    cr_assert_eq(answer->results[0].prediction_count, 1);
    cr_assert_null(answer->results[0].error);
    cr_assert_str_eq(answer->results[0].predictions[0].label, "cat");
    cr_assert_eq(answer->results[0].predictions[0].index, 3);
    cr_assert_eq(answer->results[0].predictions[0].probability, 0.75);
    cr_assert_str_eq(answer->results[1].error, "cut off");
    cr_assert_eq(answer->results[1].status, 422);
    cr_assert_eq(answer->results[1].prediction_count, 0);
    convoy_answer_free(answer);
}

Test(client_answer, every_results_predictions_are_its_own)
{
    struct convoy_answer *answer;
    const char *two = "{\"predictions\":[{\"label\":\"a\",\"index\":0,\"probability\":0.6},"
                      "{\"label\":\"b\",\"index\":1,\"probability\":null}]}";
    char text[1000];
    snprintf(text, sizeof text,
             "{\"model\":\"m\",\"version\":\"1\",\"results\":[%s,%s,%s],\"retries\":2,"
             "\"layers\":[{\"name\":\"conv\",\"kernel\":\"direct\",\"us\":1.5}]}",
             two, CAT, two);
    cr_assert_eq(read_text(text, 200, 3, &answer), 0, "%s", failure.message);
    cr_assert_str_eq(answer->results[0].predictions[1].label, "b");
    cr_assert(isnan(answer->results[0].predictions[1].probability));
    cr_assert_str_eq(answer->results[1].predictions[0].label, "cat");
    cr_assert_str_eq(answer->results[2].predictions[0].label, "a");
    cr_assert_eq(answer->retries, 2);
    cr_assert_eq(answer->layer_count, 1);
    cr_assert_str_eq(answer->layers[0].kernel, "direct");
    cr_assert_eq(answer->layers[0].us, 1.5);
    convoy_answer_free(answer);
}

/* Where no class reaches a threshold. */
Test(client_answer, a_result_may_have_no_predictions)
{
    struct convoy_answer *answer = NULL;
    cr_assert_eq(read_text(ANSWER("{\"predictions\":[]}," CAT), 200, 2, &answer), 0, "%s", failure.message);
    cr_assert(answer->results[0].prediction_count == 0 && answer->results[0].status == 200);
    cr_assert_null(answer->results[0].error);
    cr_assert_eq(answer->results[1].prediction_count, 1);
    convoy_answer_free(answer);
}

Test(client_answer, an_error_is_the_servers_sentence)
{
    struct convoy_answer *answer;
    cr_assert_eq(read_text("{\"error\":\"the queue is full\"}", 503, 1, &answer), -EREMOTEIO);
    cr_assert_null(answer);
    cr_assert_str_eq(failure.message, "the queue is full");
    cr_assert_eq(failure.status, 503);
    cr_assert_eq(failure.retry_after_s, 7);
    cr_assert_str_eq(failure.request_id, "an-id");
    /* All images of a form failed: results stand beside the error. */
    cr_assert_eq(read_text("{\"error\":\"x\",\"model\":\"m\",\"version\":\"1\",\"results\":[" SPOILT
                           "," SPOILT "]}",
                           422, 2, &answer),
                 0, "%s", failure.message);
    cr_assert_eq(answer->results[1].status, 422);
    convoy_answer_free(answer);
}

Test(client_answer, hostile_ones_are_refused)
{
    hostile("", 1);
    hostile("<html>404</html>", 1);
    hostile("[]", 1);
    hostile("{}", 1);
    hostile("{\"results\":{}}", 1);
    hostile(ANSWER(CAT), 2);
    hostile(ANSWER(CAT "," CAT), 1);
    hostile(ANSWER("[]"), 1);
    hostile(ANSWER("null"), 1);
    hostile(ANSWER("{\"predictions\":{}}"), 1);
    hostile(ANSWER("{\"predictions\":\"cat\"}"), 1);
    hostile(ANSWER("{\"predictions\":[{\"label\":1,\"index\":3,\"probability\":0.5}]}"), 1);
    hostile(ANSWER("{\"predictions\":[{\"label\":\"a\",\"index\":-1,\"probability\":0.5}]}"), 1);
    hostile(ANSWER("{\"predictions\":[{\"label\":\"a\",\"index\":1.5,\"probability\":0.5}]}"), 1);
    hostile(ANSWER("{\"predictions\":[{\"label\":\"a\",\"index\":1e300,\"probability\":0.5}]}"), 1);
    hostile(ANSWER("{\"predictions\":[{\"label\":\"a\",\"index\":1,\"probability\":1e999}]}"), 1);
    hostile(ANSWER("{\"predictions\":[{\"label\":\"a\",\"index\":1,\"probability\":\"1\"}]}"), 1);
    hostile(ANSWER("{\"error\":\"no status\"}"), 1);
    hostile(ANSWER("{\"error\":\"x\",\"status\":1e12}"), 1);
    hostile("{\"results\":[" CAT "]}", 1);
    hostile("{\"model\":\"m\",\"version\":\"1\",\"results\":[" CAT "],\"timing\":7}", 1);
    hostile("{\"model\":\"m\",\"version\":\"1\",\"results\":[" CAT "],\"timing\":{\"decode_us\":-1}}", 1);
    hostile("{\"model\":\"m\",\"version\":\"1\",\"results\":[" CAT "],\"batch_size\":\"8\"}", 1);
    hostile("{\"model\":\"m\",\"version\":\"1\",\"results\":[" CAT "],\"layers\":{}}", 1);
    hostile("{\"model\":\"m\",\"version\":\"1\",\"results\":[" CAT
            "],\"layers\":[{\"name\":\"a\",\"us\":1}]}",
            1);
    struct convoy_answer *answer;
    cr_assert_eq(read_text(ANSWER(CAT) "x", 200, 1, &answer), -EPROTO);
    cr_assert_eq(read_text("{\"hint\":1}", 404, 1, &answer), -EPROTO);
    cr_assert_eq(failure.status, 404);
    char deep[4001];
    memset(deep, '[', sizeof deep - 1);
    deep[sizeof deep - 1] = '\0';
    cr_assert_eq(read_text(deep, 200, 1, &answer), -EPROTO);
}

static int read_models(const char *text, int status, struct convoy_models **models)
{
    struct client_response response = {text, strlen(text), status, 0, ""};
    return client_models_read(&response, models, &failure);
}

Test(client_answer, models_are_sorted)
{
    struct convoy_models *models;
    cr_assert_eq(
        read_models("{\"models\":[{\"name\":\"b\",\"version\":\"10\",\"state\":\"READY\",\"reason\":\"\"},"
                    "{\"name\":\"b\",\"version\":\"9\",\"state\":\"FAILED\",\"reason\":\"no\"},"
                    "{\"name\":\"a\",\"version\":\"1\",\"state\":\"LOADING\"}]}",
                    200, &models),
        0, "%s", failure.message);
    cr_assert_eq(models->count, 3);
    cr_assert_str_eq(models->models[0].name, "a");
    cr_assert_str_eq(models->models[0].reason, "");
    cr_assert_str_eq(models->models[1].version, "9");
    cr_assert_str_eq(models->models[1].reason, "no");
    cr_assert_str_eq(models->models[2].version, "10");
    convoy_models_free(models);
    cr_assert_eq(read_models("{\"models\":[{\"name\":\"b\"}]}", 200, &models), -EPROTO);
    cr_assert_eq(read_models("{\"models\":3}", 200, &models), -EPROTO);
    cr_assert_eq(read_models("{\"error\":\"stops\"}", 503, &models), -EREMOTEIO);
    cr_assert_null(models);
}

static int read_index(const char *text, int status, struct convoy_models **models)
{
    struct client_response response = {text, strlen(text), status, 0, ""};
    return client_index_read(&response, models, &failure);
}

Test(client_answer, an_index_is_a_list)
{
    static const char *const others[] = {"{\"models\":[]}",
                                         "{}",
                                         "",
                                         "7",
                                         "[7]",
                                         "[[]]",
                                         "[{}]",
                                         "[]x",
                                         "[",
                                         "[{\"name\":\"b\",\"version\":\"1\",\"state\":1}]"};
    struct convoy_models *models;
    cr_assert_eq(read_index("[{\"name\":\"b\",\"version\":\"10\",\"state\":\"READY\",\"reason\":\"\"},"
                            "{\"name\":\"b\",\"version\":\"9\",\"state\":\"UNAVAILABLE\",\"reason\":"
                            "\"unloaded\"}]\n",
                            200, &models),
                 0, "%s", failure.message);
    cr_assert_eq(models->count, 2);
    cr_assert_str_eq(models->models[0].version, "9");
    cr_assert_str_eq(models->models[0].state, "UNAVAILABLE");
    cr_assert_str_eq(models->models[0].reason, "unloaded");
    cr_assert_str_eq(models->models[1].version, "10");
    convoy_models_free(models);
    cr_assert_eq(read_index("[]", 200, &models), 0);
    cr_assert_eq(models->count, 0);
    convoy_models_free(models);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        cr_assert_eq(read_index(others[i], 200, &models), -EPROTO, "%s", others[i]);
        cr_assert_null(models);
    }
    cr_assert_eq(read_index("{\"error\":\"stops\"}", 503, &models), -EREMOTEIO);
    cr_assert_str_eq(failure.message, "stops");
    cr_assert_null(models);
    cr_assert_eq(read_index("[]", 500, &models), -EPROTO);
}

#define MAP                                                                                                  \
    "\"method\":\"cam\",\"label\":\"cat\",\"index\":3,\"height\":2,\"width\":4,\"low\":-1.5,\"high\":2,"     \
    "\"box\":"                                                                                               \
    "[-0.5,0,1.5,1],"
#define EXPLAINED(members) ANSWER("{\"predictions\":[],\"explanation\":{" members "}}")

Test(client_answer, has_the_map)
{
    struct convoy_answer *answer;
    cr_assert_eq(read_text(EXPLAINED(MAP "\"png\":\"data:image/png;base64,AAH+/w==\""), 200, 1, &answer), 0,
                 "%s", failure.message);
    const struct convoy_map *map = answer->map;
    cr_assert_str_eq(map->label, "cat");
    cr_assert(map->index == 3 && map->height == 2 && map->width == 4 && map->low == -1.5 && map->high == 2);
    cr_assert(map->left == -0.5 && map->top == 0 && map->right == 1.5 && map->bottom == 1);
    cr_assert(map->png_size == 4 && memcmp(map->png, "\0\1\376\377", 4) == 0);
    client_answer_discard(answer);
    cr_assert_eq(read_text(ANSWER(CAT), 200, 1, &answer), 0);
    cr_assert_null(answer->map);
    client_answer_discard(answer);
}

Test(client_answer, of_maps_that_are_none)
{
    hostile(EXPLAINED(""), 1);
    hostile(EXPLAINED(MAP "\"png\":7"), 1);
    hostile(EXPLAINED(MAP "\"png\":\"data:image/gif;base64,AAAA\""), 1);
    hostile(EXPLAINED(MAP "\"png\":\"data:image/png;base64,AAA\""), 1);
    hostile(EXPLAINED(MAP "\"png\":\"data:image/png;base64,A*AA\""), 1);
    hostile(EXPLAINED(MAP "\"png\":\"data:image/png;base64,A===\""), 1);
    hostile(EXPLAINED("\"label\":\"cat\",\"index\":3,\"height\":2,\"width\":4,\"low\":null,\"high\":2,"
                      "\"box\":[0,0,1,1],"
                      "\"png\":\"data:image/png;base64,AAAA\""),
            1);
    hostile(EXPLAINED(
                "\"label\":\"cat\",\"index\":3,\"height\":2,\"width\":4,\"low\":1,\"high\":2,\"box\":[0,0,1],"
                "\"png\":\"data:image/png;base64,AAAA\""),
            1);
    hostile(
        EXPLAINED(
            "\"label\":\"cat\",\"index\":3,\"height\":2,\"width\":4,\"low\":1,\"high\":2,\"box\":[0,0,1,1,1],"
            "\"png\":\"data:image/png;base64,AAAA\""),
        1);
}
