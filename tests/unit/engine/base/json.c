#include "engine/base/json.h"

#include "tests/unit/folder.h"

static struct convoy_error error;

static int parse(const char *text, cJSON **document)
{
    *document = NULL;
    return convoy_json_parse(text, strlen(text), "a.json", document, &error);
}

static void refused(const char *text, const char *sentence)
{
    cJSON *document;
    cr_assert_eq(parse(text, &document), -EINVAL, "%s", text);
    cr_assert_null(document);
    assert_says(error, sentence);
}

Test(json, errors_say_where)
{
    refused("{\"http\": {\n  \"threads\" 4}}", "a.json:2:13: not valid JSON here: '4}}'");
    refused("{\"k\xC3\xA4se\": x}", "a.json:1:10: ");
    refused("{\"a\": 1} {\"b\": 2}", "a.json:1:10: nothing may follow the JSON value: '{\"b\": 2}'");
    refused("{\"a\": \"\xFF\"}", "a.json:1:8: not UTF-8");
    refused("{\"a\": \"x\\u0000y\"}", "a.json:1:9: a string must not contain \\u0000");
    refused("{\"a\": [1, 2", "a.json:1:");
    refused("", "a.json: is empty");
    refused(" \n\t", "a.json: is empty");
    refused("{\"a\": 1e999}", "the number at 'a' is too large");
    refused("{\"a\": [0, -1e999]}", "the number at 'a[]' is too large");
    cJSON *document = NULL;
    cr_assert_eq(convoy_json_parse("{\"a\0\": 1}", 9, "a.json", &document, &error), -EINVAL);
    assert_says(error, "NUL byte");
}

Test(json, usual_slips_are_named)
{
    refused("{\"a\": 1,}", "a.json:1:8: nothing follows this comma: ',}'");
    refused("{\"a\": [1, 2 ,\n ] }\n", "a.json:1:13: nothing follows this comma: ',  ] }");
    refused("{\"a\": {\"b\": 1, } }", "a.json:1:14: nothing follows this comma");
    refused("// models\n{}", "a.json:1:1: JSON has no comments: '// models {}'");
    refused("{\"a\": 1, # one\n \"b\": 2}", "a.json:1:10: JSON has no comments: '# one");
    refused("{'a': 1}", "a.json:1:2: a string stands in double quotes: ''a': 1}'");
    refused("{\"a\": 'x'}", "a.json:1:7: a string stands in double quotes: ''x'}'");
    refused("{\"a\": 1, 'b': 1}", "a.json:1:10: a string stands in double quotes: ''b': 1}'");
    refused("{\"a\": }", "a.json:1:7: not valid JSON here");
    refused("{\"a\": [1]]}", "a.json:1:10: not valid JSON here");
    refused("}", "a.json:1:1: not valid JSON here");
    refused(",", "a.json:1:1: not valid JSON here");
}

Test(json, the_key_that_was_meant_is_named)
{
    static const char *const known[] = {
        "listen", "listen_mode", "models",
        "tls",    "log",         "a_key_that_is_longer_than_the_table_of_edits_could_be_were_it_not_left_out",
        NULL};
    static const char *const written[][2] = {
        {"listn", "'listn' (did you mean 'listen'?); the keys known here are listen, listen_mode"},
        {"model", "'model' (did you mean 'models'?); "},
        {"listen-mode", "'listen-mode' (did you mean 'listen_mode'?); "},
        {"Tls", "'Tls' (did you mean 'tls'?); "},
        {"port", "'port'; the keys known here are "},
        {"bog", "'bog' (did you mean 'log'?); "},
        {"big", "'big'; the keys known here are "},
        {"a_key_that_is_longer_than_any_key_that_is_known", "...'; the keys known here are "},
        {"", "''; the keys known here are "}};
    for (size_t i = 0; i < sizeof written / sizeof written[0]; i++) {
        cJSON *document = cJSON_CreateObject();
        struct convoy_json root;
        cJSON_AddNullToObject(document, written[i][0]);
        cr_assert_eq(convoy_json_root(document, "a.json", &root, &error), 0);
        cr_assert_eq(convoy_json_known(&root, known, &error), -EINVAL, "%s", written[i][0]);
        assert_says(error, written[i][1]);
        cJSON_Delete(document);
    }
}

Test(json, an_escaped_backslash_before_u0000_is_no_escape)
{
    cJSON *document;
    cr_assert_eq(parse("{\"a\": \"x\\\\u0000\"}", &document), 0, "%s", error.message);
    cr_assert_str_eq(cJSON_GetObjectItem(document, "a")->valuestring, "x\\u0000");
    cJSON_Delete(document);
}

Test(json, duplicate_keys_are_refused_at_any_depth)
{
    refused("{\"a\": 1, \"b\": 2, \"a\": 1}", "a.json: the key 'a' stands there twice");
    refused("{\"http\": {\"x\": 1, \"y\": 1, \"x\": 2}}", "the key 'http.x' stands there twice");
    refused("{\"l\": [{\"x\": 1, \"x\": 2}]}", "the key 'l[].x' stands there twice");
    cJSON *document;
    cr_assert_eq(parse("{\"a\": {\"x\": 1}, \"b\": {\"x\": 1}, \"A\": 0}", &document), 0);
    cJSON_Delete(document);
}

Test(json, nesting_is_bounded)
{
    char text[4003];
    for (int depth = 900; depth <= 2000; depth += 1100) {
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        text[2 * depth] = '\0';
        cJSON *document;
        int result = parse(text, &document);
        cr_assert_eq(result, depth == 900 ? 0 : -EINVAL);
        cJSON_Delete(document);
    }
}

/* 200,000 different keys: no attack on the search for duplicates. */
Test(json, many_keys_are_read_in_no_time, .timeout = 20)
{
    size_t capacity = 4000000, used = 1;
    char *text = malloc(capacity);
    text[0] = '{';
    for (int i = 0; i < 200000; i++)
        used += (size_t)snprintf(text + used, capacity - used, "%s\"k%d\":1", i == 0 ? "" : ",", i);
    text[used++] = '}';
    cJSON *document;
    cr_assert_eq(convoy_json_parse(text, used, "a.json", &document, &error), 0, "%s", error.message);
    cr_assert_eq(cJSON_GetArraySize(document), 200000);
    cJSON_Delete(document);
    free(text);
}

Test(json, size_is_bounded)
{
    size_t length = CONVOY_JSON_MAX_BYTES;
    char *text = malloc(length + 1);
    memset(text, ' ', length + 1);
    text[0] = '{';
    text[1] = '}';
    cJSON *document = NULL;
    cr_assert_eq(convoy_json_parse(text, length, "a.json", &document, &error), 0);
    cJSON_Delete(document);
    document = NULL;
    cr_assert_eq(convoy_json_parse(text, length + 1, "a.json", &document, &error), -EFBIG);
    assert_says(error, "a.json: has 4194305 bytes, more than the 4194304 that are read");
    struct folder folder = folder_make();
    const char *path = folder_write_bytes(&folder, "big.json", text, length + 1);
    cr_assert_eq(convoy_json_load(path, &document, &error), -EFBIG);
    assert_says(error, path);
    free(text);
    folder_remove(&folder);
}

Test(json, files_that_cannot_be_read_are_named)
{
    struct folder folder = folder_make();
    cJSON *document = NULL;
    cr_assert_eq(convoy_json_load(folder_path(&folder, "none.json"), &document, &error), -ENOENT);
    assert_says(error, "none.json: cannot be opened: No such file or directory");
    cr_assert_eq(convoy_json_load(folder.path, &document, &error), -EINVAL);
    assert_says(error, "is not a regular file");
    const char *fifo = folder_path(&folder, "fifo.json");
    cr_assert_eq(mkfifo(fifo, 0600), 0);
    cr_assert_eq(convoy_json_load(fifo, &document, &error), -EINVAL); /* and does not wait for a writer */
    cr_assert_eq(convoy_json_load(folder_write(&folder, "bad.json", "{\n]"), &document, &error), -EINVAL);
    assert_says(error, "bad.json:2:1: ");
    cr_assert_eq(convoy_json_load(folder_write(&folder, "good.json", "\xEF\xBB\xBF{}\n"), &document, &error),
                 0, "%s", error.message);
    cJSON_Delete(document);
    folder_remove(&folder);
}

/* ---- Getters ---- */

static cJSON *document;
static struct convoy_json root;

static void open_text(const char *text)
{
    cr_assert_eq(parse(text, &document), 0, "%s", error.message);
    cr_assert_eq(convoy_json_root(document, "a.json", &root, &error), 0, "%s", error.message);
}

static void close_text(void)
{
    cJSON_Delete(document);
}

Test(json, the_document_must_be_an_object, .fini = close_text)
{
    cr_assert_eq(parse("[1]", &document), 0);
    cr_assert_eq(convoy_json_root(document, "a.json", &root, &error), -EINVAL);
    cr_assert_str_eq(error.message, "a.json: must be a JSON object {...}, found an array");
}

Test(json, integers_are_exact_and_bounded, .fini = close_text)
{
    open_text("{\"a\": 1024, \"half\": 1.5, \"text\": \"four\", \"big\": 9007199254740993, \"max\": "
              "9007199254740991,"
              " \"exp\": 1e3, \"neg\": -3, \"null\": null, \"yes\": true, \"o\": {}}");
    uint32_t value = 7;
    cr_assert_eq(convoy_json_uint32(&root, "a", 0, 1024, &value, &error), 0);
    cr_assert_eq(value, 1024);
    cr_assert_eq(convoy_json_uint32(&root, "absent", 0, 1, &value, &error), 0);
    cr_assert_eq(value, 1024, "an absent key must leave the value");
    cr_assert_eq(convoy_json_uint32(&root, "exp", 0, 1000, &value, &error), 0);
    cr_assert_eq(value, 1000);

    static const char *const wrong[] = {"half", "text", "neg", "null", "yes", "o", "exp"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cr_assert_eq(convoy_json_uint32(&root, wrong[i], 0, 999, &value, &error), -EINVAL, "%s", wrong[i]);
        cr_assert_eq(value, 1000);
    }
    cr_assert_eq(convoy_json_uint32(&root, "text", 0, 1024, &value, &error), -EINVAL);
    cr_assert_str_eq(error.message, "a.json: text must be an integer from 0 to 1024, found \"four\"");

    uint64_t wide = 0;
    cr_assert_eq(convoy_json_uint64(&root, "max", 0, UINT64_MAX, &wide, &error), 0);
    cr_assert_eq(wide, 9007199254740991u);
    cr_assert_eq(convoy_json_uint64(&root, "big", 0, UINT64_MAX, &wide, &error), -EINVAL,
                 "2^53 + 1 is no double");
    int64_t whole = 0;
    cr_assert_eq(convoy_json_int64(&root, "neg", -3, 5, &whole, &error), 0);
    cr_assert_eq(whole, -3);
    cr_assert_eq(convoy_json_int64(&root, "neg", -2, 5, &whole, &error), -EINVAL);
    assert_says(error, "neg must be an integer from -2 to 5, found -3");
}

Test(json, nested_keys_are_named_by_their_path, .fini = close_text)
{
    struct convoy_json http, deeper, absent;
    open_text("{\"http\": {\"threads\": \"four\", \"tls\": {\"on\": 1}}, \"log\": 3}");
    cr_assert_eq(convoy_json_object(&root, "http", &http, &error), 0);
    uint32_t value = 0;
    cr_assert_eq(convoy_json_uint32(&http, "threads", 0, 1024, &value, &error), -EINVAL);
    cr_assert_str_eq(error.message, "a.json: http.threads must be an integer from 0 to 1024, found \"four\"");
    cr_assert_eq(convoy_json_object(&http, "tls", &deeper, &error), 0);
    bool on = false;
    cr_assert_eq(convoy_json_bool(&deeper, "on", &on, &error), -EINVAL);
    cr_assert_str_eq(error.message, "a.json: http.tls.on must be true or false, found 1");
    cr_assert_eq(convoy_json_object(&root, "log", &absent, &error), -EINVAL);
    cr_assert_str_eq(error.message, "a.json: log must be an object {...}, found 3");
    cr_assert_eq(convoy_json_object(&root, "none", &absent, &error), 0);
    cr_assert_eq(convoy_json_uint32(&absent, "x", 5, 6, &value, &error), 0);
    static const char *const known[] = {"threads", "tls", NULL};
    cr_assert_eq(convoy_json_known(&absent, known, &error), 0);
    cr_assert(convoy_json_has(&http, "tls"));
    cr_assert_not(convoy_json_has(&absent, "tls"));
}

/* Keys that begin alike, an empty one, and what has no key. */
Test(json, values_are_found_by_their_whole_key)
{
    cJSON *document;
    struct convoy_json root;
    uint32_t number = 0;
    cr_assert_eq(
        parse("{\"abc\": 1, \"ab\": 2, \"\": 3, \"list\": [4, {\"ab\": 5}], \"text\": \"ab\"}", &document),
        0);
    cr_assert_eq(convoy_json_root(document, "a.json", &root, &error), 0);
    cr_assert_eq(convoy_json_uint32(&root, "ab", 0, 9, &number, &error), 0);
    cr_assert_eq(number, 2);
    cr_assert_eq(convoy_json_uint32(&root, "", 0, 9, &number, &error), 0);
    cr_assert_eq(number, 3);
    cr_assert_not(convoy_json_has(&root, "a"));
    cr_assert_not(convoy_json_has(&root, "Ab"));
    struct convoy_json list = {.value = cJSON_GetObjectItem(document, "list"), .file = "a.json"};
    cr_assert_not(convoy_json_has(&list, "ab"));
    cr_assert_not(convoy_json_has(&list, ""));
    struct convoy_json text = {.value = cJSON_GetObjectItem(document, "text"), .file = "a.json"};
    cr_assert_not(convoy_json_has(&text, "ab"));
    cJSON_Delete(document);
}

Test(json, unknown_keys_are_refused, .fini = close_text)
{
    static const char *const known[] = {"listen", "http", NULL}, *const inner[] = {"threads", NULL};
    struct convoy_json http;
    open_text("{\"listen\": 1, \"htpp\": 2, \"http\": {\"thread\": 1}}");
    cr_assert_eq(convoy_json_known(&root, known, &error), -EINVAL);
    cr_assert_str_eq(
        error.message,
        "a.json: unknown key 'htpp' (did you mean 'http'?); the keys known here are listen, http");
    cr_assert_eq(convoy_json_object(&root, "http", &http, &error), 0);
    cr_assert_eq(convoy_json_known(&http, inner, &error), -EINVAL);
    assert_says(error,
                "unknown key 'http.thread' (did you mean 'threads'?); the keys known here are threads");
}

Test(json, strings_and_choices, .fini = close_text)
{
    static const char *const choices[] = {"auto", "cpu", "cuda", NULL};
    open_text("{\"s\": \"text\", \"n\": null, \"i\": 1, \"c\": \"cuda\", \"bad\": \"gpu\"}");
    const char *text = "before";
    cr_assert_eq(convoy_json_string(&root, "absent", &text, &error), 0);
    cr_assert_str_eq(text, "before");
    cr_assert_eq(convoy_json_string(&root, "s", &text, &error), 0);
    cr_assert_str_eq(text, "text");
    cr_assert_eq(convoy_json_string(&root, "n", &text, &error), -EINVAL);
    assert_says(error, "n must be a string, found null");
    cr_assert_eq(convoy_json_string_or_null(&root, "i", &text, &error), -EINVAL);
    assert_says(error, "i must be a string or null, found 1");
    cr_assert_eq(convoy_json_string_or_null(&root, "n", &text, &error), 0);
    cr_assert_null(text);
    unsigned index = 9;
    cr_assert_eq(convoy_json_choice(&root, "absent", choices, &index, &error), 0);
    cr_assert_eq(index, 9);
    cr_assert_eq(convoy_json_choice(&root, "c", choices, &index, &error), 0);
    cr_assert_eq(index, 2);
    cr_assert_eq(convoy_json_choice(&root, "bad", choices, &index, &error), -EINVAL);
    cr_assert_str_eq(error.message, "a.json: bad must be \"auto\", \"cpu\" or \"cuda\", found \"gpu\"");
    cr_assert_eq(convoy_json_choice(&root, "i", choices, &index, &error), -EINVAL);
    cr_assert_eq(index, 2);
}

Test(json, numbers, .fini = close_text)
{
    open_text(
        "{\"x\": 0.5, \"list\": [1, 2, 3], \"long\": [1, 2, 3, 4, 5], \"empty\": [], \"mixed\": [1, \"a\"],"
        " \"low\": [1, -2]}");
    double x = 0, values[4] = {9, 9, 9, 9};
    uint32_t count = 0;
    cr_assert_eq(convoy_json_double(&root, "x", 0, 1, &x, &error), 0);
    cr_assert_eq(x, 0.5);
    cr_assert_eq(convoy_json_double(&root, "x", 0.6, 1, &x, &error), -EINVAL);
    assert_says(error, "x must be a number from 0.6 to 1, found 0.5");
    static const char *const wrong[] = {"long", "empty", "mixed", "low"};
    for (size_t i = 0; i < 4; i++) {
        cr_assert_eq(convoy_json_doubles(&root, wrong[i], 0, 9, values, 4, &count, &error), -EINVAL);
        assert_says(error, wrong[i]);
        cr_assert(values[0] == 9 && count == 0, "a refused array must change nothing");
    }
    assert_says(error, "low must be a number from 0 to 9, or an array of 1 to 4 of them, found -2");
    cr_assert_eq(convoy_json_doubles(&root, "x", 0, 9, values, 4, &count, &error), 0);
    cr_assert(count == 1 && values[0] == 0.5);
    cr_assert_eq(convoy_json_doubles(&root, "list", 0, 9, values, 4, &count, &error), 0);
    cr_assert(count == 3 && values[0] == 1 && values[2] == 3 && values[3] == 9);
}

Test(json, long_values_are_shortened_on_a_character, .fini = close_text)
{
    open_text("{\"a\": \"\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC"
              "\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82\xAC\xE2\x82"
              "\xAC\"}");
    bool value;
    cr_assert_eq(convoy_json_bool(&root, "a", &value, &error), -EINVAL);
    assert_says(error, "\xE2\x82\xAC...");
    cr_assert_leq(strlen(error.message), 100);
}

/* Random damage must end in a document or a sentence, never in the sanitizer. */
Test(json, damage_never_crashes)
{
    const char *sample =
        "{\"listen\": \"a:1\", \"k\\u00e4se\": [1, -2.5e3, true, null, {\"x\": \"\\\"\\n\"}]}";
    size_t length = strlen(sample);
    unsigned state = 1;
    unsigned good = 0, bad = 0;
    for (int round = 0; round < 5000; round++) {
        char text[128];
        cr_assert_lt(length, sizeof text);
        snprintf(text, sizeof text, "%s", sample);
        state = state * 1103515245u + 12345u;
        size_t keep = round % 3 == 0 ? (state >> 8) % (length + 1) : length;
        for (int flips = 0; flips < 2; flips++) {
            state = state * 1103515245u + 12345u;
            text[(state >> 8) % length] ^= (char)(1 << (state >> 28) % 8);
        }
        char *exact = malloc(keep + (keep == 0)); /* the sanitizer sees a byte too many */
        for (size_t i = 0; i < keep; i++)
            exact[i] = text[i];
        cJSON *damaged = NULL;
        if (convoy_json_parse(exact, keep, "a.json", &damaged, &error) == 0)
            good++;
        else
            bad++;
        cJSON_Delete(damaged);
        free(exact);
    }
    cr_assert(good > 100 && bad > 100, "%u good, %u bad", good, bad);
}
