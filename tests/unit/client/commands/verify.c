/* The command line of `convoy verify`, its record of answers, and how answers are compared with it. */
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/commands/verify.h"
#include "client/commands/verify_record.h"
#include "client/data/base64.h"

static struct convoy_failure failure;

static int read_record(const char *text, struct client_verify_record *record)
{
    memset(&failure, 0, sizeof failure);
    return client_verify_record_read(text, strlen(text), "m/verify.json", record, &failure);
}

#define OUTPUTS                                                                                              \
    "\"outputs\": [{\"name\": \"y\", \"values\": [1, -4, 2]}, {\"name\": \"z\", \"values\": [0.5]}]"
#define HEAD                                                                                                 \
    "\"image\": \"v.png\", \"input\": \"x\", \"version\": \"3\", \"tolerance\": 0.01, "                      \
    "\"probability_tolerance\": 0.05"
#define RECORD "{" HEAD ", " OUTPUTS "}"

Test(client_verify, command_lines)
{
    char *plain[] = {"verify", "net", NULL}, *full[] = {"verify", "--models",  "/m", "net",    "--tolerance",
                                                        "0.5",    "--version", "7",  "--json", NULL};
    struct client_verify_arguments arguments;
    unsetenv("CONVOY_URL");
    cr_assert_eq(client_verify_arguments(2, plain, &arguments, &failure), 0, "%s", failure.message);
    cr_expect_str_eq(arguments.common.model, "net");
    cr_expect_str_eq(arguments.models, "models");
    cr_expect_lt(arguments.tolerance, 0);
    cr_expect_null(arguments.common.version);
    cr_assert_eq(client_verify_arguments(9, full, &arguments, &failure), 0, "%s", failure.message);
    cr_expect_str_eq(arguments.common.model, "net");
    cr_expect_str_eq(arguments.models, "/m");
    cr_expect_float_eq(arguments.tolerance, 0.5, 0);
    cr_expect_str_eq(arguments.common.version, "7");
    cr_expect(arguments.common.json);
}

Test(client_verify, command_lines_that_are_wrong)
{
    static const struct {
        char *words[4];
        const char *named;
    } cases[] = {
        {{"verify"}, "name a model"},
        {{"verify", "a", "b"}, "'b'"},
        {{"verify", "a/b"}, "--models"},
        {{"verify", ".."}, "'..'"},
        {{"verify", "--tolerance=2", "a"}, "0 to 1"},
        {{"verify", "--tolerance=x", "a"}, "'x'"},
        {{"verify", "--model=a", "b"}, "both --model and 'b'"},
        {{"verify", "--model=a/b"}, "--models"},
    };
    struct client_verify_arguments arguments;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *words[5] = {0};
        int count = 0;
        for (; count < 4 && cases[i].words[count]; count++)
            words[count] = cases[i].words[count];
        cr_assert_eq(client_verify_arguments(count, words, &arguments, &failure), -EINVAL, "case %zu", i);
        cr_expect(strstr(failure.message, cases[i].named), "case %zu: %s", i, failure.message);
    }
}

Test(client_verify, a_record)
{
    struct client_verify_record record;
    cr_assert_eq(read_record("{" HEAD ", " OUTPUTS ", \"classes\": [{\"index\": 2, \"label\": \"cat\", "
                             "\"probability\": 0.25}, {\"index\": 0, \"label\": null, \"probability\": 0}]}",
                             &record),
                 0, "%s", failure.message);
    cr_expect_str_eq(record.image, "v.png");
    cr_expect_str_eq(record.input, "x");
    cr_expect_str_eq(record.version, "3");
    cr_expect_float_eq(record.tolerance, 0.01, 1e-12);
    cr_expect_float_eq(record.probability_tolerance, 0.05, 1e-12);
    cr_assert_eq(record.output_count, 2);
    cr_expect_str_eq(record.outputs[0].name, "y");
    cr_assert_eq(record.outputs[0].count, 3);
    cr_expect_float_eq(record.outputs[0].values[1], -4, 0);
    cr_expect_float_eq(record.outputs[1].values[0], 0.5, 0);
    cr_assert_eq(record.class_count, 2);
    cr_expect_str_eq(record.classes[0].label, "cat");
    cr_expect_eq(record.classes[0].index, 2);
    cr_expect_float_eq(record.classes[0].probability, 0.25, 0);
    cr_expect_null(record.classes[1].label);
    client_verify_record_clear(&record);
}

Test(client_verify, records_that_are_wrong)
{
    static const struct {
        const char *text, *named;
    } cases[] = {
        {"", "JSON object"},
        {"[]", "JSON object"},
        {"{" HEAD, "JSON object"},
        {"{" HEAD "}", "no outputs"},
        {"{" HEAD ", \"outputs\": []}", "no outputs"},
        {"{" HEAD ", \"outputs\": [{\"name\": \"y\"}]}", "no values"},
        {"{" HEAD ", \"outputs\": [{\"name\": \"y\", \"values\": []}]}", "no values"},
        {"{" HEAD ", \"outputs\": [{\"values\": [1]}]}", "no name"},
        {"{" HEAD ", \"outputs\": [{\"name\": \"y\", \"values\": [1, \"2\"]}]}", "finite"},
        {"{" HEAD ", \"outputs\": [{\"name\": \"y\", \"values\": [1e999]}]}", "finite"},
        {"{" HEAD ", \"outputs\": [{\"name\": \"y\", \"values\": [0, 0]}]}", "are 0"},
        {"{" HEAD ", " OUTPUTS ", \"classes\": {}}", "classes"},
        {"{" HEAD ", " OUTPUTS ", \"classes\": [{\"probability\": 1}]}", "index"},
        {"{" HEAD ", " OUTPUTS ", \"classes\": [{\"index\": 0.5, \"probability\": 1}]}", "index"},
        {"{" HEAD ", " OUTPUTS ", \"classes\": [{\"index\": 1}]}", "probability"},
        {"{\"image\": \"../../etc/passwd\", " OUTPUTS "}", "no file of its folder"},
        {"{\"image\": \"/etc/passwd\", " OUTPUTS "}", "no file of its folder"},
        {"{\"image\": \"..\", " OUTPUTS "}", "no file of its folder"},
        {"{\"image\": \"\", " OUTPUTS "}", "no file of its folder"},
        {"{\"image\": \"v.png\", " OUTPUTS "}", "no input"},
        {"{\"image\": \"v.png\", \"input\": \"x\", \"version\": 1, " OUTPUTS "}", "no version"},
        {"{\"image\": \"v.png\", \"input\": \"x\", \"version\": \"1\", \"tolerance\": -1, " OUTPUTS "}",
         "tolerance"},
        {"{\"image\": \"v.png\", \"input\": \"x\", \"version\": \"1\", \"tolerance\": 1, " OUTPUTS "}",
         "probability_tolerance"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct client_verify_record record;
        cr_assert_eq(read_record(cases[i].text, &record), -EINVAL, "%s", cases[i].text);
        cr_expect(strstr(failure.message, cases[i].named), "%s: %s", cases[i].text, failure.message);
        cr_expect(strstr(failure.message, "m/verify.json"), "%s", failure.message);
        client_verify_record_clear(&record);
    }
}

/* The distance of the answer from RECORD, in *worst; returns the status of the comparison. */
static int compare(const char *answer, struct client_verify_difference *worst)
{
    struct client_verify_record record;
    cr_assert_eq(read_record(RECORD, &record), 0, "%s", failure.message);
    cJSON *document = cJSON_Parse(answer);
    cr_assert_not_null(document);
    int status = client_verify_compare(&record, document, worst, &failure);
    cJSON_Delete(document);
    client_verify_record_clear(&record);
    return status;
}

#define ANSWER(y, z)                                                                                         \
    "{\"outputs\": [{\"name\": \"z\", \"data\": [" z "]}, {\"name\": \"y\", \"data\": [" y "]}]}"

Test(client_verify, differences)
{
    static const struct {
        const char *answer;
        size_t element;
        double relative;
    } cases[] = {
        {ANSWER("1, -4, 2", "0.5"), 0, 0},
        {ANSWER("1, -4, 2.2", "0.5"), 2, 0.05}, /* of 4, the largest of y */
        {ANSWER("3, -4, 2.2", "0.5"), 0, 0.5},
        {ANSWER("1, 4, 2.2", "0.5"), 1, 2},
        {ANSWER("1, -4, 2.2", "0.4"), 0, 0.2}, /* z's largest is 0.5 */
    };
    struct client_verify_difference worst;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert_eq(compare(cases[i].answer, &worst), 0, "%s: %s", cases[i].answer, failure.message);
        cr_expect_float_eq(worst.relative, cases[i].relative, 1e-9, "%s: %g", cases[i].answer,
                           worst.relative);
        cr_expect_eq(worst.element, cases[i].element, "%s: element %zu", cases[i].answer, worst.element);
    }
}

Test(client_verify, answers_of_another_network)
{
    struct client_verify_difference worst;
    cr_expect_eq(compare("{\"outputs\": [{\"name\": \"y\", \"data\": [1, -4, 2]}]}", &worst), -EDOM);
    cr_expect(strstr(failure.message, "lacks the output 'z'"), "%s", failure.message);
    cr_expect_eq(compare(ANSWER("1, -4", "0.5"), &worst), -EDOM);
    cr_expect(strstr(failure.message, "2 values, 3 are recorded"), "%s", failure.message);
    cr_expect_eq(compare(ANSWER("1, null, 2", "0.5"), &worst), -EPROTO);
    cr_expect_eq(compare("{}", &worst), -EDOM);
}

Test(client_base64, of_each_length)
{
    static const char *const wanted[] = {"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"};
    for (size_t size = 0; size <= 6; size++) {
        char *text = client_base64_encode("foobar", size);
        cr_assert_not_null(text);
        cr_expect_str_eq(text, wanted[size]);
        free(text);
    }
    char *text = client_base64_encode("\xff\xfe\x00\x3e", 4);
    cr_expect_str_eq(text, "//4APg==");
    free(text);
}
