/* The intrusive list. */
#include "engine/base/list.h"

#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

struct entry {
    char letter;
    struct convoy_list link; /* not the first member: convoy_list_entry() has to find the struct */
};

static struct convoy_list list;
static struct entry a = {.letter = 'a'}, b = {.letter = 'b'}, c = {.letter = 'c'};

/* The letters from first to last; both directions have to agree. */
static const char *letters(void)
{
    static char text[8];
    size_t count = 0;
    convoy_list_for_each(at, following, &list)
        text[count++] = convoy_list_entry(at, struct entry, link)->letter;
    text[count] = '\0';
    for (const struct convoy_list *at = list.previous; at != &list; at = at->previous)
        cr_assert_eq(convoy_list_entry(at, struct entry, link)->letter, text[--count]);
    cr_assert_eq(count, 0);
    return text;
}

static void make(void)
{
    convoy_list_init(&list);
}

TestSuite(list, .init = make);

Test(list, keeps_the_order)
{
    cr_assert(convoy_list_empty(&list));
    cr_assert_str_eq(letters(), "");
    convoy_list_add_last(&list, &b.link);
    cr_assert(!convoy_list_empty(&list));
    convoy_list_add_last(&list, &c.link);
    convoy_list_add_first(&list, &a.link);
    cr_assert_str_eq(letters(), "abc");
}

Test(list, adds_before_an_entry_and_at_the_end)
{
    convoy_list_add_before(&list, &c.link);
    convoy_list_add_before(&c.link, &a.link);
    convoy_list_add_before(&c.link, &b.link);
    cr_assert_str_eq(letters(), "abc");
}

Test(list, removes_anywhere)
{
    convoy_list_add_last(&list, &a.link);
    convoy_list_add_last(&list, &b.link);
    convoy_list_add_last(&list, &c.link);
    convoy_list_remove(&b.link);
    cr_assert_str_eq(letters(), "ac");
    convoy_list_remove(&a.link);
    convoy_list_remove(&b.link); /* in no list: nothing happens */
    cr_assert_str_eq(letters(), "c");
    convoy_list_remove(&c.link);
    cr_assert(convoy_list_empty(&list));
    convoy_list_add_last(&list, &b.link); /* a removed entry can be added again */
    cr_assert_str_eq(letters(), "b");
}

Test(list, is_taken_from_the_front)
{
    convoy_list_add_last(&list, &a.link);
    convoy_list_add_last(&list, &b.link);
    cr_assert_eq(convoy_list_take_first(&list), &a.link);
    cr_assert_eq(convoy_list_take_first(&list), &b.link);
    cr_assert_null(convoy_list_take_first(&list));
}

Test(list, entries_may_be_freed_on_the_way)
{
    int freed = 0;
    for (int i = 0; i < 3; i++) {
        struct entry *entry = malloc(sizeof *entry);
        convoy_list_add_last(&list, &entry->link);
    }
    convoy_list_for_each(at, following, &list) {
        struct entry *entry = convoy_list_entry(at, struct entry, link);
        convoy_list_remove(at);
        memset(entry, 0x5a, sizeof *entry);
        free(entry);
        freed++;
    }
    cr_assert_eq(freed, 3);
    cr_assert(convoy_list_empty(&list));
}

Test(list, all_entries_move_behind_those_that_are_there)
{
    struct convoy_list other;
    convoy_list_init(&list);
    convoy_list_init(&other);
    convoy_list_move_all(&other, &list);
    cr_assert_str_eq(letters(), "");
    convoy_list_add_last(&list, &a.link);
    convoy_list_add_last(&other, &b.link);
    convoy_list_add_last(&other, &c.link);
    convoy_list_move_all(&other, &list);
    cr_assert_str_eq(letters(), "abc");
    cr_assert(convoy_list_empty(&other));
    convoy_list_move_all(&list, &other);
    cr_assert_str_eq(letters(), "");
    convoy_list_move_all(&other, &list);
    cr_assert_str_eq(letters(), "abc");
}
