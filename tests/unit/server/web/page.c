/* The page's files, and which entity tags a client says that it has. */
#include "server/web/page.h"

#include "server/web/files.h"

#include <criterion/criterion.h>
#include <string.h>

Test(page, if_none_match_names_a_tag_or_any)
{
    static const char *const has[] = {"\"ab12\"",        "W/\"ab12\"",       "*",         " \"ab12\" ",
                                      "\"x\", \"ab12\"", "\"x\",W/\"ab12\"", "\"x\" , *", "\"\",\"ab12\""};
    static const char *const lacks[] = {"",   "ab12",     "\"ab1\"",    "\"ab123\"",  "\"ab12",
                                        "\"", "W/",       "W/ab12",     "w/\"ab12\"", "\"*\"",
                                        ",,", "\"AB12\"", "x,\"ab12\"", "\"x\"ab12",  "\"x ab12\" \"y"};

    for (size_t i = 0; i < sizeof has / sizeof has[0]; i++)
        cr_assert(convoy_web_has(has[i], "ab12"), "%s", has[i]);
    for (size_t i = 0; i < sizeof lacks / sizeof lacks[0]; i++)
        cr_assert_not(convoy_web_has(lacks[i], "ab12"), "%s", lacks[i]);
}

Test(page, files_are_found_by_their_names_alone)
{
    const struct convoy_web_file *file = convoy_web_find("main.js");

    cr_assert_not_null(file);
    cr_assert_str_eq(file->name, "main.js");
    cr_assert_gt(*file->length, 0);
    cr_assert_eq(strlen(file->sha256), 64);
    cr_assert_eq(strlen(convoy_web_index.sha256), 64);
    cr_assert_eq(memcmp(convoy_web_index.bytes, "<!doctype html>", 15), 0);
    cr_assert_null(convoy_web_find("index.html"));
    cr_assert_null(convoy_web_find(""));
    cr_assert_null(convoy_web_find("main.j"));
    cr_assert_null(convoy_web_find("../main.js"));
}
