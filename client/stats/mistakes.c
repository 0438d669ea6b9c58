#include "client/stats/mistakes.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Answers arrive in any order; the list does not depend on it. */
static bool comes_before(const struct client_mistake *one, const struct client_mistake *other)
{
    double a = isnan(one->probability) ? -1 : one->probability;
    double b = isnan(other->probability) ? -1 : other->probability;
    return a > b || (a == b && strcmp(one->name, other->name) < 0);
}

int client_mistakes_add(struct client_mistakes *mistakes, const struct client_mistake *mistake)
{
    struct client_mistake *items = mistakes->items, *last = &items[CLIENT_MISTAKES_MOST - 1];
    bool full = mistakes->count == CLIENT_MISTAKES_MOST;
    if (full && !comes_before(mistake, last))
        return 0;
    void *picture = NULL;
    if (mistake->size > 0 && mistake->size <= CLIENT_MISTAKES_PICTURE) {
        picture = malloc(mistake->size);
        if (!picture)
            return -ENOMEM;
        memcpy(picture, mistake->picture, mistake->size);
    }
    if (full)
        free(last->picture);
    size_t place = full ? CLIENT_MISTAKES_MOST - 1 : mistakes->count++;
    for (; place > 0 && comes_before(mistake, &items[place - 1]); place--)
        items[place] = items[place - 1];
    items[place] = *mistake;
    items[place].picture = picture;
    return 0;
}

void client_mistakes_clear(struct client_mistakes *mistakes)
{
    for (size_t i = 0; i < mistakes->count; i++)
        free(mistakes->items[i].picture);
    mistakes->count = 0;
}
