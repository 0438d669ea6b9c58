/* Request ids, and the text they travel in. */
#include "server/http/request_id.h"
#include "server/http/text.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static bool keep(const char *value)
{
    char id[CONVOY_REQUEST_ID_BYTES] = "untouched";
    bool kept = convoy_request_id_keep(value, strlen(value), id);

    cr_assert_str_eq(id, kept ? value : "untouched");
    return kept;
}

Test(request_id, keeps_what_is_safe)
{
    char longest[66];

    cr_assert(keep("a"));
    cr_assert(keep("Trace_01.-xyzXYZ"));
    memset(longest, 'x', sizeof longest);
    longest[64] = '\0';
    cr_assert(keep(longest));
    longest[64] = 'x';
    longest[65] = '\0';
    cr_assert_not(keep(longest));
}

Test(request_id, refuses_what_could_forge_a_header_or_a_log_line)
{
    char id[CONVOY_REQUEST_ID_BYTES];

    cr_assert_not(keep(""));
    cr_assert_not(keep("a b"));
    cr_assert_not(keep("a\r\nSet-Cookie: x"));
    cr_assert_not(keep("a\"b"));
    cr_assert_not(keep("a=b"));
    cr_assert_not(keep("\xC3\xA4"));
    cr_assert_not(convoy_request_id_keep("a\0b", 3, id));
    cr_assert_not(convoy_request_id_keep(NULL, 0, id));
}

#define IDS 20000

static void *make_ids(void *context)
{
    char(*ids)[CONVOY_REQUEST_ID_BYTES] = context;

    for (int i = 0; i < IDS; i++)
        convoy_request_id_make(ids[i]);
    return NULL;
}

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

Test(request_id, makes_different_ones_in_all_threads)
{
    static char ids[2 * IDS][CONVOY_REQUEST_ID_BYTES];
    pthread_t thread;

    cr_assert_eq(pthread_create(&thread, NULL, make_ids, ids), 0);
    make_ids(ids + IDS);
    pthread_join(thread, NULL);
    for (int i = 0; i < 2 * IDS; i++) {
        cr_assert_eq(strlen(ids[i]), 32);
        cr_assert_eq(strspn(ids[i], "0123456789abcdef"), 32);
    }
    qsort(ids, 2 * IDS, sizeof ids[0], compare);
    for (int i = 1; i < 2 * IDS; i++)
        cr_assert_str_neq(ids[i - 1], ids[i]);
}

static void expect_string(const char *string, const char *json)
{
    struct convoy_text text = {0};

    convoy_text_string(&text, string);
    cr_assert_eq(text.length, strlen(json), "%.*s", (int)text.length, text.bytes);
    cr_assert_arr_eq(text.bytes, json, text.length);
    convoy_text_free(&text);
}

Test(text, escapes_what_json_forbids)
{
    expect_string("", "\"\"");
    expect_string("plain", "\"plain\"");
    expect_string("a\"b\\c/", "\"a\\\"b\\\\c/\"");
    expect_string("\n\r\t\x01\x1f\x7f", "\"\\n\\r\\t\\u0001\\u001f\\u007f\"");
    expect_string("gr\xC3\xBC\xC3\x9F \xF0\x9F\x90\xB1", "\"gr\xC3\xBC\xC3\x9F \xF0\x9F\x90\xB1\"");
}

Test(text, replaces_what_is_not_utf8)
{
    expect_string("\xFF", "\"\xEF\xBF\xBD\"");
    expect_string("a\xC3", "\"a\xEF\xBF\xBD\"");
    expect_string("\xC0\xAFx", "\"\xEF\xBF\xBD\xEF\xBF\xBDx\"");
    expect_string("\xED\xA0\x80", "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

Test(text, writes_numbers)
{
    static const char all[] = "0|18446744073709551615|0.9731|1e-07|null|null|-2.5";
    struct convoy_text text = {0};

    convoy_text_natural(&text, 0);
    convoy_text_add(&text, "|");
    convoy_text_natural(&text, UINT64_MAX);
    convoy_text_add(&text, "|");
    convoy_text_real(&text, 0.9731);
    convoy_text_add(&text, "|");
    convoy_text_real(&text, 1e-7);
    convoy_text_add(&text, "|");
    convoy_text_real(&text, NAN);
    convoy_text_add(&text, "|");
    convoy_text_real(&text, -INFINITY);
    convoy_text_add(&text, "|");
    convoy_text_real(&text, -2.5);
    cr_assert_eq(text.length, sizeof all - 1, "%.*s", (int)text.length, text.bytes);
    cr_assert_arr_eq(text.bytes, all, text.length);
    convoy_text_free(&text);
}

Test(text, grows)
{
    struct convoy_text text = {0};

    for (int i = 0; i < 100000; i++)
        convoy_text_put(&text, "0123456789", 10);
    cr_assert_not(text.failed);
    cr_assert_eq(text.length, 1000000);
    for (size_t i = 0; i < text.length; i++)
        cr_assert_eq(text.bytes[i], '0' + (char)(i % 10));
    convoy_text_free(&text);
}
