/* What is in a page that a test has written: `page` is its text. */
#ifndef CONVOY_TESTS_PAGE_TEXT_H
#define CONVOY_TESTS_PAGE_TEXT_H

#include <criterion/criterion.h>
#include <stddef.h>
#include <string.h>

static size_t count_in(const char *page, const char *part)
{
    size_t found = 0;
    for (const char *at = page; (at = strstr(at, part)); at += strlen(part))
        found++;
    return found;
}

static void has_in(const char *page, const char *part)
{
    cr_expect(count_in(page, part) > 0, "no '%s' in %.6000s", part, page);
}

#endif
