/* An image in JSON: what is taken, and the sentence for what is not. */
#include "server/inference/image_text.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct convoy_error error;

/* Without a NUL behind it, so that the address sanitizer sees an over-read. */
static int read_text(const char *text, const char *expected)
{
    size_t length = strlen(text);
    char *copy = malloc(length > 0 ? length : 1);
    struct convoy_part part;

    memcpy(copy, text, length); // NOLINT(bugprone-not-null-terminated-result): on purpose
    int code = convoy_image_text(copy, length, &part, &error);
    if (code == 0) {
        cr_assert_eq(part.length, strlen(expected), "%s", text);
        cr_assert_eq(memcmp(part.bytes, expected, part.length), 0, "%s", text);
    }
    free(copy);
    return code;
}

Test(image_text, takes_base64_and_data_uris)
{
    static const char *const texts[] = {"{\"image\":\"Zm9vYmFy\"}",
                                        " {\n\"image\" :\t\"Zm9vYmFy\" }\r\n",
                                        "{\"image\":\"Zm9v\\nYmFy\\n\"}",
                                        "{\"image\":\"Zm9v\nYmFy\"}",
                                        "{\"image\":\"data:image/jpeg;base64,Zm9vYmFy\"}",
                                        "{\"image\":\"DATA:image\\/png;name=x;BASE64,Zm9vYmFy\"}",
                                        "{\"image\":\"data:;base64,Zm9vYmFy\"}"};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        cr_assert_eq(read_text(texts[i], "foobar"), 0, "%s: %s", texts[i], error.message);
    cr_assert_eq(read_text("{\"image\":\"\"}", ""), 0);
}

Test(image_text, says_what_is_wrong)
{
    static const struct {
        const char *text, *part;
    } cases[] = {{"", "no JSON object"},
                 {"[]", "no JSON object"},
                 {"null", "no JSON object"},
                 {"\"Zm9v\"", "no JSON object"},
                 {"{", "no JSON object"},
                 {"{}", "lacks 'image'"},
                 {"{\"image\"", "no JSON object"},
                 {"{\"image", "no JSON object"},
                 {"{\"image\":", "no string"},
                 {"{\"image\" \"Zm9v\"}", "no JSON object"},
                 {"{\"picture\":\"Zm9v\"}", "'picture'"},
                 {"{\"images\":[\"Zm9v\"]}", "'images'"},
                 {"{\"image\":\"Zm9v\",\"top\":5}", "'top'"},
                 {"{\"image\":\"Zm9v\",\"image\":\"Zm9v\"}", "twice"},
                 {"{\"image\":\"Zm9v\",}", "no JSON object"},
                 {"{\"image\":null}", "no string"},
                 {"{\"image\":5}", "no string"},
                 {"{\"image\":{\"b64\":\"Zm9v\"}}", "no string"},
                 {"{\"image\":[\"Zm9v\"]}", "no string"},
                 {"{\"image\":\"Zm9v!\"}", "no base64"},
                 {"{\"image\":\"http://example.org/ship.jpg\"}", "no base64"},
                 {"{\"image\":\"Zm9v", "cut off"},
                 {"{\"image\":\"Zm9vY\"}", "cut off"},
                 {"{\"image\":\"Zm9v\"", "no JSON object"},
                 {"{\"image\":\"Zm9v\"} x", "no JSON object"},
                 {"{\"image\":\"Zm9v\"}}", "no JSON object"},
                 {"{\"image\":\"data:image/jpeg,Zm9v\"}", "not in base64"},
                 {"{\"image\":\"data:image/jpeg;base64\"}", "not in base64"},
                 {"{\"image\":\"data:,\"}", "not in base64"},
                 {"{\"image\":\"data:\",\"x\":\";base64,\"}", "not in base64"},
                 {"{\"image\":\"data:", "not in base64"},
                 {"{\"image\":\"data:;base64,", "cut off"},
                 {"{\"image\":\"data:;base64,Zm9v!\"}", "no base64"}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_assert_eq(read_text(cases[i].text, ""), -EINVAL, "%s", cases[i].text);
        cr_assert_not_null(strstr(error.message, cases[i].part), "%s: %s", cases[i].text, error.message);
    }
}
