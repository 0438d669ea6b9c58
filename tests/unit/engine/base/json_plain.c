/* What is plain is read as cJSON reads it, and nothing else is plain. */
#include "engine/base/json_plain.h"

#include "engine/base/json.h"
#include "tests/unit/same_json.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads text both ways, from a block of its own, so that the sanitizer sees a byte too many. Where it is
 * plain the two must agree. */
static bool is_plain(const char *text, size_t length)
{
    static struct convoy_error error;
    char *exact = malloc(length + (length == 0));
    cJSON *document = NULL;

    memcpy(exact, text, length);
    cJSON *plain = convoy_json_plain(exact, length);
    int code = convoy_json_parse(exact, length, "it", &document, &error);
    memset(exact, 'x', length); /* the document does not borrow from it */
    free(exact);
    if (plain != NULL) {
        cr_assert_eq(code, 0, "'%.*s' is plain, and: %s", (int)length, text, error.message);
        cr_assert(same_json(plain, document), "'%.*s' is not the same", (int)length, text);
    }
    bool result = plain != NULL;
    free(plain);
    cJSON_Delete(document);
    return result;
}

static bool plain(const char *text)
{
    return is_plain(text, strlen(text));
}

#define INPUT "\"inputs\":[{\"name\":\"image\",\"datatype\":\"FP32\",\"shape\":[1,3,224,224]"

/* As clients write it, with and without spaces. */
static const char *const headers[] = {
    "{" INPUT ",\"parameters\":{\"binary_data_size\":602112}}]}",
    "{\"id\":\"42\"," INPUT
    ",\"parameters\":{\"binary_data_size\":602112}}],\"outputs\":[{\"name\":\"probabilities\","
    "\"parameters\":{\"binary_data\":true,\"classification\":3}},{\"name\":\"y\",\"parameters\":{\"binary_"
    "data\":false}}],"
    "\"parameters\":{\"sequence_id\":0,\"priority\":1,\"timeout\":1000000}}",
    "{\"inputs\": [{\"name\": \"image\", \"datatype\": \"UINT8\", \"shape\": [16, 3, 32, 32], "
    "\"parameters\": "
    "{\"shared_memory_region\": \"in\", \"shared_memory_byte_size\": 49152, \"shared_memory_offset\": "
    "null}}], "
    "\"parameters\": {\"binary_data_output\": true}}\n",
    " {\r\n\t\"a\" : [ ] , \"b\" : { } , \"c\" : [ [ 1 , { \"d\" : \"~ /?\" } ] , false ] }\r\n",
};

Test(json_plain, headers_of_requests_are_plain)
{
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        cr_assert(plain(headers[i]), "%s", headers[i]);
    for (size_t i = 0; i < 4; i++)
        cr_assert(plain(((const char *[]){"0", "\"\"", "[]", " null "})[i]));
    cr_assert(plain("[1,2147483646,2147483647,2147483648,4294967296,999999999999999]"));
}

Test(json_plain, all_else_is_left_to_the_parser)
{
    static const char *const others[] = {
        "",
        " ",
        "{",
        "}",
        "[",
        "]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1}",
        "{\"a\"}",
        "{\"a\":}",
        "{\"a\" 1}",
        "{\"a\":1,}",
        "{a:1}",
        "{1:1}",
        "{\"a\":1]",
        "{} {}",
        "1 2",
        "[01]",
        "[00]",
        "[-1]",
        "[-0]",
        "[1.0]",
        "[1e3]",
        "[+1]",
        "[.5]",
        "[1-2]",
        "[0x1]",
        "[1_]",
        "[12e]",
        "tru",
        "truer",
        "nul",
        "fals",
        "True",
        "NaN",
        "[Infinity]",
        "\"",
        "\"a",
        "\"a\\n\"",
        "\"\\u0041\"",
        "\"\\\\\"",
        "\"\x7f\"",
        "\"\t\"",
        "\"\x1f\"",
        "\"\xC3\xA4\"",
        "\"\xFF\"",
        "'a'",
        "\xEF\xBB\xBF{}",
        "{\"a\":1,\"a\":1}",
        "{\"a\":{\"b\":1,\"c\":2,\"b\":3}}",
        "\v1",
        "\f1",
        "1\x01",
        "/* */ 1",
        "[1,,2]",
        "{,}",
        "{\"a\":1 \"b\":2}",
    };

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        cr_assert_not(plain(others[i]), "%s", others[i]);
    cr_assert_not(is_plain("1\0", 2));
    cr_assert_not(is_plain("\0", 1));
    cr_assert_not(is_plain("\"a\0b\"", 5));
    cr_assert_not(is_plain("{\"a\0\":1}", 8));
    cr_assert(is_plain("11", 1)); /* the length counts, not what follows */
}

/* n times piece between two ends. */
static const char *repeated(const char *begin, const char *piece, size_t n, const char *end)
{
    static char text[4096];
    size_t used = (size_t)snprintf(text, sizeof text, "%s", begin);

    for (size_t i = 0; i < n; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s", piece);
    snprintf(text + used, sizeof text - used, "%s", end);
    return text;
}

Test(json_plain, what_is_large_is_left_to_the_parser)
{
    cr_assert(plain(repeated("[1", ",1", CONVOY_JSON_PLAIN_VALUES - 2, "]")));
    cr_assert_not(plain(repeated("[1", ",1", CONVOY_JSON_PLAIN_VALUES - 1, "]")));
    cr_assert(plain(repeated("", "[", CONVOY_JSON_PLAIN_DEPTH, "]]]]]]]]")));
    cr_assert_not(plain(repeated("", "[", CONVOY_JSON_PLAIN_DEPTH + 1, "]]]]]]]]]")));
    cr_assert(plain(repeated("\"", "a", CONVOY_JSON_PLAIN_BYTES - 2, "\"")));
    cr_assert_not(plain(repeated("\"", "a", CONVOY_JSON_PLAIN_BYTES - 1, "\"")));
    cr_assert(plain(repeated("", "9", 15, "")));
    cr_assert_not(plain(repeated("", "9", 16, "")));
    cr_assert_not(plain(repeated("", " ", CONVOY_JSON_PLAIN_BYTES, "1")));
}

static uint32_t state = 1;

static uint32_t random_below(uint32_t most)
{
    state = state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(state >> 8) * most >> 24);
}

/* One edit: a byte put in, taken out or changed, or a stretch of the text put elsewhere. */
static size_t edit(char *text, size_t length)
{
    static const char bytes[] = "{}[]:,\"\\ \t\n0123456789.-+eE/truefalsn\x7f\x1f\x80\xC3\xA4\0";
    char byte = bytes[random_below(sizeof bytes)];
    size_t at = random_below((uint32_t)length + 1), from, size;

    switch (random_below(4)) {
    case 0:
        memmove(text + at + 1, text + at, length - at);
        text[at] = byte;
        return length + 1;
    case 1:
        if (at == length)
            return length;
        memmove(text + at, text + at + 1, length - at - 1);
        return length - 1;
    case 2:
        if (at < length)
            text[at] = byte;
        return length;
    default:
        from = random_below((uint32_t)length + 1);
        size = random_below(24);
        size = size < length - from ? size : length - from;
        char piece[24];
        memcpy(piece, text + from, size);
        memmove(text + at + size, text + at, length - at);
        memcpy(text + at, piece, size);
        return length + size;
    }
}

Test(json_plain, edited_headers_are_the_same_or_not_plain)
{
    unsigned plains = 0, others = 0;

    for (int round = 0; round < 40000; round++) {
        const char *header = headers[random_below(sizeof headers / sizeof *headers)];
        char text[1024];
        size_t length = strlen(header);
        memcpy(text, header, length);
        for (uint32_t edits = random_below(3) + 1; edits > 0; edits--)
            length = edit(text, length);
        if (is_plain(text, length))
            plains++;
        else
            others++;
    }
    cr_assert(plains > 4000 && others > 4000, "%u plain, %u not", plains, others);
}
