/* A labelled set of images, one after the other: a folder or an archive (tar, also compressed, or zip) with a
 * folder for each class, or IDX files. For one thread at a time. */
#ifndef CONVOY_CLIENT_DATA_SET_H
#define CONVOY_CLIENT_DATA_SET_H

#include "client/lib/convoy.h"

struct client_data_set;

struct client_labelled_image {
    void *bytes; /* an encoded image, for free() */
    size_t size;
    char name[256];  /* of the file or "image N"; cut when longer */
    char class[128]; /* the folder that it lies in, or the IDX label in decimal */
};

/* Opens what lies at path; labels is an IDX file's labels file, or NULL to find it by name. Files that lie in
 * no folder of the set have no class and are left out. *set is NULL after an error. 0 or a negative errno
 * with a sentence. */
int client_data_set_open(const char *path, const char *labels, struct client_data_set **set,
                         struct convoy_failure *failure);

/* The number of images, 0 when it shows only at the end (archives). */
size_t client_data_set_total(const struct client_data_set *set);

/* The next image: 1, 0 at the end, or a negative errno with a sentence. */
int client_data_set_next(struct client_data_set *set, struct client_labelled_image *image,
                         struct convoy_failure *failure);

void client_data_set_close(struct client_data_set *set);

#endif
