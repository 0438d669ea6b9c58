/* Reads a labelled set of images one by one: a folder or an archive (tar, also compressed, or zip) with a
 * folder for each class, or IDX files. Use a set from one thread at a time. */
#ifndef CONVOY_CLIENT_DATA_SET_H
#define CONVOY_CLIENT_DATA_SET_H

#include "client/lib/convoy.h"

struct client_data_set;

struct client_labelled_image {
    void *bytes; /* an encoded image; the caller frees it */
    size_t size;
    char name[256];  /* of the file, or "image N"; truncated when longer */
    char class[128]; /* the folder that contains the file, or the IDX label in decimal */
};

/* Opens the set at path. labels is the labels file of an IDX file, or NULL to find it by name. Files outside
 * the class folders have no class and are skipped. The caller owns *set, for client_data_set_close; it is
 * NULL after an error. Returns 0, or a negative errno with a message. */
int client_data_set_open(const char *path, const char *labels, struct client_data_set **set,
                         struct convoy_failure *failure);

/* Returns the number of images, 0 when it is not known before the end (archives). */
size_t client_data_set_total(const struct client_data_set *set);

/* Reads the next image. Returns 1, 0 at the end, or a negative errno with a message. */
int client_data_set_next(struct client_data_set *set, struct client_labelled_image *image,
                         struct convoy_failure *failure);

void client_data_set_close(struct client_data_set *set);

#endif
