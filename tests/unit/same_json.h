/* Are two documents the same, in every field that cJSON has? */
#ifndef CONVOY_TESTS_UNIT_SAME_JSON_H
#define CONVOY_TESTS_UNIT_SAME_JSON_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <string.h>

static inline bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static inline bool same_json(const cJSON *a, const cJSON *b)
{
    const cJSON *x = a->child, *y = b->child;

    if (a->type != b->type || a->valueint != b->valueint ||
        memcmp(&a->valuedouble, &b->valuedouble, sizeof a->valuedouble) != 0 ||
        !same_text(a->valuestring, b->valuestring) || !same_text(a->string, b->string))
        return false;
    /* The first child's prev is the last one; the document itself has neither. */
    for (const cJSON *p = NULL, *q = NULL; x != NULL && y != NULL; p = x, q = y, x = x->next, y = y->next)
        if (!same_json(x, y) || (p != NULL && (x->prev != p || y->prev != q)) ||
            (x->next == NULL && (a->child->prev != x || b->child->prev != y)))
            return false;
    return x == NULL && y == NULL;
}

#endif
