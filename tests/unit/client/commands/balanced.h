/* Whether a page is well-formed. */
#ifndef CONVOY_TESTS_BALANCED_H
#define CONVOY_TESTS_BALANCED_H

#include <criterion/criterion.h>
#include <string.h>

/* Every element is closed, in order: `at` is behind the doctype. */
static void is_balanced(const char *at)
{
    struct {
        const char *name;
        size_t length;
    } open[64];
    size_t depth = 0;
    while ((at = strchr(at, '<'))) {
        const char *end = strchr(at, '>');
        cr_assert_not_null(end);
        if (at[1] == '/') {
            cr_assert_gt(depth, 0);
            depth--;
            cr_assert(open[depth].length == (size_t)(end - at - 2) &&
                          memcmp(open[depth].name, at + 2, open[depth].length) == 0,
                      "%.60s ends <%.20s", at, open[depth].name);
        } else if (end[-1] != '/') {
            cr_assert_lt(depth, sizeof open / sizeof *open);
            open[depth].name = at + 1;
            open[depth++].length = strcspn(at + 1, " >");
        }
        at = end;
    }
    cr_assert_eq(depth, 0);
}

#endif
