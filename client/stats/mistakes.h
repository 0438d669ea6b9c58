/* The mistakes that a model was surest of. Use a list from one thread at a time. */
#ifndef CONVOY_CLIENT_MISTAKES_H
#define CONVOY_CLIENT_MISTAKES_H

#include <stddef.h>

#define CLIENT_MISTAKES_MOST    24
#define CLIENT_MISTAKES_PICTURE ((size_t)100 * 1024) /* bytes; of larger pictures the size alone is kept */

struct client_mistake {
    long truth, answer; /* classes */
    double probability; /* of the answer; NaN comes last */
    char name[256];     /* of the image */
    void *picture;      /* its bytes; NULL: too large */
    size_t size;
};

/* Zeroed, it is empty. */
struct client_mistakes {
    struct client_mistake items[CLIENT_MISTAKES_MOST]; /* by falling probability, then by name */
    size_t count;
};

/* Copies the mistake into the list if it belongs there: mistake->picture is the caller's, and is given
 * whatever its size. Returns 0 or -ENOMEM. */
int client_mistakes_add(struct client_mistakes *mistakes, const struct client_mistake *mistake);

void client_mistakes_clear(struct client_mistakes *mistakes);

#endif
