/* The list of the surest mistakes does not depend on the order in which they come. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/stats/mistakes.h"

static struct client_mistakes list;
static char picture[CLIENT_MISTAKES_PICTURE + 1];

static void add(double probability, const char *name, size_t size)
{
    struct client_mistake mistake = {1, 2, probability, .picture = picture, .size = size};
    snprintf(mistake.name, sizeof mistake.name, "%s", name);
    cr_assert_eq(client_mistakes_add(&list, &mistake), 0);
}

Test(client_mistakes, the_surest_are_kept_in_order)
{
    for (int i = 0; i < 1000; i++) {
        char name[16];
        int number = i * 377 % 1000;
        snprintf(name, sizeof name, "%d", number);
        add(number / 1000.0, name, 8);
    }
    cr_assert_eq(list.count, CLIENT_MISTAKES_MOST);
    for (size_t i = 0; i < list.count; i++)
        cr_expect_eq(atoi(list.items[i].name), 999 - (int)i, "%zu is %s", i, list.items[i].name);
    client_mistakes_clear(&list);
    cr_expect_eq(list.count, 0);
}

Test(client_mistakes, equal_ones_by_name_and_none_last)
{
    add(NAN, "none", 8);
    add(0.5, "c", 8);
    add(0.5, "a", 8);
    add(0, "zero", 8);
    add(NAN, "not", 8);
    add(0.5, "b", 8);
    static const char *const wanted[] = {"a", "b", "c", "zero", "none", "not"};
    cr_assert_eq(list.count, 6);
    for (size_t i = 0; i < list.count; i++)
        cr_expect_str_eq(list.items[i].name, wanted[i]);
    client_mistakes_clear(&list);
}

Test(client_mistakes, pictures_are_copied_up_to_a_size)
{
    memset(picture, 'x', sizeof picture);
    add(0.9, "fits", CLIENT_MISTAKES_PICTURE);
    add(0.8, "large", CLIENT_MISTAKES_PICTURE + 1);
    memset(picture, 'y', sizeof picture);
    cr_assert_not_null(list.items[0].picture);
    cr_expect_eq(((char *)list.items[0].picture)[CLIENT_MISTAKES_PICTURE - 1], 'x');
    cr_expect_null(list.items[1].picture);
    cr_expect_eq(list.items[1].size, CLIENT_MISTAKES_PICTURE + 1);
    client_mistakes_clear(&list);
}
