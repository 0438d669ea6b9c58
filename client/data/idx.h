/* Reads IDX files, the format of MNIST: two zero bytes, the type (8: unsigned bytes), the number of
 * dimensions, each dimension as a big-endian 32-bit number, then the data (Y. LeCun, C. Cortes, C. Burges,
 * THE MNIST DATABASE of handwritten digits). Plain or gzip. Use a struct client_idx from one thread at a
 * time. */
#ifndef CONVOY_CLIENT_IDX_H
#define CONVOY_CLIENT_IDX_H

#include <stdint.h>

#include "client/lib/convoy.h"

/* Images and their labels. */
struct client_idx {
    void *file;      /* zlib's gzFile of the images */
    char *path;      /* of the images */
    uint8_t *labels; /* count of them */
    uint32_t count, height, width;
    uint32_t next; /* index of the next image */
};

/* Opens an images file and reads its labels file. If labels_path is NULL, the labels file is found by name:
 * ".../x-images-idx3-ubyte.gz" has ".../x-labels-idx1-ubyte.gz". Call client_idx_close also after an error.
 * Returns 0, or a negative errno with a message that names the file: -EINVAL when it is not an IDX file of
 * bytes or the two files do not match. */
int client_idx_open(const char *path, const char *labels_path, struct client_idx *idx,
                    struct convoy_failure *failure);

/* Reads the next image's height x width pixels and its label. Returns 1, 0 at the end, or a negative errno
 * when the file is truncated or damaged. */
int client_idx_next(struct client_idx *idx, uint8_t *pixels, uint8_t *label, struct convoy_failure *failure);

void client_idx_close(struct client_idx *idx);

#endif
