/* What is written into a page cannot break out of it. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "client/chart/markup.h"
#include "client/chart/page.h"

static char *written(void (*write)(FILE *, const char *), const char *text)
{
    char *out = NULL;
    size_t size;
    FILE *stream = open_memstream(&out, &size);
    write(stream, text);
    fclose(stream);
    return out;
}

static void becomes(const char *text, const char *wanted)
{
    char *out = written(client_markup_text, text);
    cr_assert_str_eq(out, wanted, "'%s' became '%s'", text, out);
    free(out);
}

#define BAD "\xEF\xBF\xBD"

Test(client_markup, text_is_escaped)
{
    becomes("</title><script>alert(\"1\")</script>",
            "&lt;/title&gt;&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;");
    becomes("' onload='x", "&#39; onload=&#39;x");
    becomes("a & b &amp;", "a &amp; b &amp;amp;");
    becomes("K\xC3\xA4tzchen \xE7\x8C\xAB \xF0\x9F\x90\x88", "K\xC3\xA4tzchen \xE7\x8C\xAB \xF0\x9F\x90\x88");
    becomes("", "");
    becomes(NULL, "");
}

Test(client_markup, what_no_page_can_hold)
{
    becomes("a\x01\x1B[31mb\x7F", "a" BAD BAD "[31mb" BAD);
    becomes("a\xC2\x85", "a" BAD);                        /* a control character of ISO 8859 */
    becomes("\xFF<", BAD "&lt;");                         /* no UTF-8 */
    becomes("\xC3", BAD);                                 /* cut off at the end */
    becomes("\xC3<", BAD "&lt;");                         /* nothing behind it is swallowed */
    becomes("\xC0\xBC", BAD BAD);                         /* '<' in two bytes, which UTF-8 forbids */
    becomes("\xED\xA0\x80", BAD);                         /* half of a pair */
    becomes("\xEF\xBF\xBF", BAD);                         /* no character */
    becomes("x\xE2\x80\xAEgpj.exe", "x" BAD "gpj.exe");   /* turns what follows around */
    becomes("\xF8\x88\x80\x80\x80", BAD BAD BAD BAD BAD); /* five bytes */
}

static void cut(FILE *out, const char *text)
{
    client_markup_cut(out, text, 4);
}

Test(client_markup, a_long_name_is_cut_between_characters)
{
    static const char *const pairs[][2] = {
        {"abcd", "abcd"},
        {"abcde", "abc\xE2\x80\xA6"},
        {"\xC3\xA4\xC3\xB6\xC3\xBC\xC3\x9F", "\xC3\xA4\xC3\xB6\xC3\xBC\xC3\x9F"},
        {"\xC3\xA4\xC3\xB6\xC3\xBC\xC3\x9F!", "\xC3\xA4\xC3\xB6\xC3\xBC\xE2\x80\xA6"},
        {"<<<<<", "&lt;&lt;&lt;\xE2\x80\xA6"},
        {"", ""}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char *out = written(cut, pairs[i][0]);
        cr_assert_str_eq(out, pairs[i][1], "'%s'", out);
        free(out);
    }
}

static void page_with(FILE *out, const char *json)
{
    client_page_open(out, "a </title> title");
    client_page_data(out, "numbers", json);
    client_page_close(out);
}

Test(client_page, its_data_is_json_that_ends_no_element)
{
    char *page = written(page_with, "{\"model\":\"</script><script>x\xFF\x7F&\",\"rate\":5}");
    cr_assert_not_null(strstr(page,
                              "<script type=\"application/json\" id=\"numbers\">{\"model\":\"\\u003c/script"
                              "\\u003e\\u003cscript\\u003ex" BAD BAD "\\u0026\",\"rate\":5}</script>"),
                       "%s", page);
    cr_assert_not_null(strstr(page, "<title>a &lt;/title&gt; title</title>"));
    cr_assert_not_null(strstr(page, "default-src 'none'"));
    free(page);
}

Test(client_page, its_data_is_found_again)
{
    char *page = written(page_with, "{\"model\":\"</script><script>x\",\"rate\":5}");
    size_t size = 0;
    const char *found = client_page_find_data(page, strlen(page), "numbers", &size);
    cr_assert_not_null(found);
    char *json = strndup(found, size);
    cr_assert_str_eq(json, "{\"model\":\"\\u003c/script\\u003e\\u003cscript\\u003ex\",\"rate\":5}");
    cr_assert_null(client_page_find_data(page, strlen(page), "other", &size));
    /* Cut off within the data, and before it. */
    cr_assert_null(client_page_find_data(page, (size_t)(found - page) + size + 5, "numbers", &size));
    cr_assert_null(client_page_find_data(page, 10, "numbers", &size));
    cr_assert_null(client_page_find_data("", 0, "numbers", &size));
    free(json);
    free(page);
}
