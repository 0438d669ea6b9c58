/* An intrusive, circular, doubly linked list: the entries hold their links, so nothing is allocated, and an
 * entry is removed in constant time without a search.
 *
 *   struct job { int number; struct convoy_list link; };
 *   struct convoy_list jobs;
 *
 *   convoy_list_init(&jobs);
 *   convoy_list_add_last(&jobs, &job->link);
 *   convoy_list_for_each(at, following, &jobs) {
 *       struct job *job = convoy_list_entry(at, struct job, link);
 *       ...
 *   }
 *
 * The head is a link that is in no entry; an empty list is a head that points to itself. A list does not own
 * its entries. A head and the entries of a list must not be moved in memory. The owner of a list does the
 * locking. */
#ifndef CONVOY_ENGINE_BASE_LIST_H
#define CONVOY_ENGINE_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* The head of a list, or the links of one entry. */
struct convoy_list {
    struct convoy_list *next, *previous;
};

/* Makes list empty, whatever it was. An entry needs no such call before it is added. */
static inline void convoy_list_init(struct convoy_list *list)
{
    list->next = list->previous = list;
}

static inline bool convoy_list_empty(const struct convoy_list *list)
{
    return list->next == list;
}

/* Adds entry, which is in no list, in front of position: another entry, or the head for the list's end. */
static inline void convoy_list_add_before(struct convoy_list *position, struct convoy_list *entry)
{
    entry->next = position;
    entry->previous = position->previous;
    position->previous->next = entry;
    position->previous = entry;
}

static inline void convoy_list_add_first(struct convoy_list *list, struct convoy_list *entry)
{
    convoy_list_add_before(list->next, entry);
}

static inline void convoy_list_add_last(struct convoy_list *list, struct convoy_list *entry)
{
    convoy_list_add_before(list, entry);
}

/* Takes entry out of the list that it is in. Its links then point to itself: removing it again does nothing.
 */
static inline void convoy_list_remove(struct convoy_list *entry)
{
    entry->previous->next = entry->next;
    entry->next->previous = entry->previous;
    convoy_list_init(entry);
}

/* Removes and returns the first entry's links; NULL when the list is empty. */
static inline struct convoy_list *convoy_list_take_first(struct convoy_list *list)
{
    if (convoy_list_empty(list))
        return NULL;
    struct convoy_list *first = list->next;
    convoy_list_remove(first);
    return first;
}

/* Moves all entries of `from`, which is empty then, to the end of `to`, in their order and in constant time.
 */
static inline void convoy_list_move_all(struct convoy_list *from, struct convoy_list *to)
{
    if (convoy_list_empty(from))
        return;
    from->next->previous = to->previous;
    to->previous->next = from->next;
    from->previous->next = to;
    to->previous = from->previous;
    convoy_list_init(from);
}

/* The struct of this type whose member `member` is *link. */
#define convoy_list_entry(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

/* Runs the statement behind it with `at` pointing to the links of each entry, the first one first. The
 * statement may remove or free the entry at `at`, and no other entry. `following` is the macro's own. */
// NOLINTBEGIN(bugprone-macro-parentheses): names of variables cannot stand in parentheses where they are
// declared
#define convoy_list_for_each(at, following, list)                                                            \
    for (struct convoy_list *at = (list)->next, *following = at->next; at != (list);                         \
         at = following, following = at->next)
// NOLINTEND(bugprone-macro-parentheses)

#endif
