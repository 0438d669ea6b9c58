/* Numbers in the query string. */
#include "server/http/query.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct convoy_error error;

static int top(const char *value, uint64_t *number)
{
    /* A copy without a NUL, so that the address sanitizer sees an over-read. */
    size_t length = value == NULL ? 0 : strlen(value);
    char *copy = value == NULL ? NULL : calloc(1, length > 0 ? length : 1);

    if (copy != NULL)
        memcpy(copy, value, length); // NOLINT(bugprone-not-null-terminated-result): on purpose
    int code = convoy_query_number("top", copy, length, 1, 1000, number, &error);
    free(copy);
    return code;
}

Test(query, takes_numbers_within_the_range)
{
    uint64_t number;

    cr_assert_eq(top("1", &number), 0);
    cr_assert_eq(number, 1);
    cr_assert_eq(top("1000", &number), 0);
    cr_assert_eq(number, 1000);
    cr_assert_eq(top("0005", &number), 0);
    cr_assert_eq(number, 5);
}

Test(query, refuses_everything_else)
{
    static const char *const values[] = {"",
                                         "0",
                                         "1001",
                                         "abc",
                                         "1e9",
                                         "5x",
                                         " 5",
                                         "5 ",
                                         "+5",
                                         "-1",
                                         "0x10",
                                         "1.0",
                                         "1,0",
                                         "\n1",
                                         "٥",
                                         "1\n2",
                                         "18446744073709551617",
                                         "18446744073709551616",
                                         "184467440737095516160"};
    uint64_t number = 77;

    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        cr_assert_eq(top(values[i], &number), -EINVAL, "\"%s\"", values[i]);
        cr_assert_eq(number, 77, "\"%s\" was refused and written", values[i]);
    }
    cr_assert_eq(top(NULL, &number), -EINVAL);
}

Test(query, says_what_is_wrong)
{
    uint64_t number;

    top("many", &number);
    cr_assert_str_eq(error.message,
                     "query parameter top must be a whole number from 1 to 1000, not \"many\"");
}

Test(query, reaches_the_largest_number)
{
    uint64_t number;

    cr_assert_eq(convoy_query_number("n", "18446744073709551615", 20, 0, UINT64_MAX, &number, &error), 0);
    cr_assert_eq(number, UINT64_MAX);
}

Test(query, a_long_value_is_shown_in_part)
{
    char value[4000];
    uint64_t number;

    memset(value, 'z', sizeof value);
    cr_assert_eq(convoy_query_number("top", value, sizeof value, 1, 9, &number, &error), -EINVAL);
    cr_assert_lt(strlen(error.message), 150);
}

static double fraction(const char *text)
{
    struct convoy_error error;
    double number = -1;
    return convoy_query_fraction("threshold", text, text == NULL ? 0 : strlen(text), 0, 1, &number, &error) ==
                   0
               ? number
               : -2;
}

Test(query, fractions)
{
    cr_expect_eq(fraction("0"), 0);
    cr_expect_eq(fraction("1"), 1);
    cr_expect_eq(fraction("0.25"), 0.25);
    cr_expect_eq(fraction(".5"), 0.5);
    cr_expect_eq(fraction("1."), 1);
    cr_expect_float_eq(fraction("0.3"), 0.3, 1e-15);
    static const char *const wrong[] = {"",     ".",    "-0.5", "+0.5", "1.01", "0.5x",
                                        "0..5", "1e-1", " 0.5", "nan",  "0x1"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        cr_expect_eq(fraction(wrong[i]), -2, "%s", wrong[i]);
    cr_expect_eq(fraction(NULL), -2);
}
