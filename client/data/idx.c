#include "client/data/idx.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "client/lib/failure.h"

#define UNSIGNED_BYTES 8
#define SIDE_MAX       65535
#define COUNT_MAX      100000000

static int open_file(const char *path, gzFile *file, struct convoy_failure *failure)
{
    errno = 0;
    *file = gzopen(path, "rbe");
    if (*file)
        return 0;
    int status = errno ? -errno : -ENOMEM;
    return client_fail_with(failure, status, "'%s' cannot be opened: %s", path, strerror(-status));
}

/* Reads exactly size bytes. */
static bool read_exactly(gzFile file, void *bytes, size_t size)
{
    size_t got = 0;
    while (got < size) {
        size_t wanted = size - got < (1U << 30) ? size - got : 1U << 30;
        int step = gzread(file, (uint8_t *)bytes + got, (unsigned)wanted);
        if (step <= 0)
            return false;
        got += (size_t)step;
    }
    return true;
}

static int read_header(gzFile file, const char *path, int dimensions, uint32_t *sizes,
                       struct convoy_failure *failure)
{
    uint8_t magic[4], size[4];
    if (!read_exactly(file, magic, 4) || magic[0] || magic[1])
        return client_fail_with(failure, -EINVAL,
                                "'%s' is no IDX file: it does not begin with two zero bytes", path);
    if (magic[2] != UNSIGNED_BYTES)
        return client_fail_with(failure, -EINVAL,
                                "'%s' holds IDX data of type 0x%02x, only bytes (0x08) can be read", path,
                                magic[2]);
    if (magic[3] != dimensions)
        return client_fail_with(failure, -EINVAL, "'%s' has %d dimensions, %d are expected", path, magic[3],
                                dimensions);
    for (int i = 0; i < dimensions; i++) {
        if (!read_exactly(file, size, 4))
            return client_fail_with(failure, -EINVAL, "'%s' is cut off in its header", path);
        sizes[i] = (uint32_t)size[0] << 24 | (uint32_t)size[1] << 16 | (uint32_t)size[2] << 8 | size[3];
    }
    if (sizes[0] > COUNT_MAX)
        return client_fail_with(failure, -EINVAL, "'%s' says that it has %u entries, at most %d can be", path,
                                sizes[0], COUNT_MAX);
    return 0;
}

/* Returns the path of the labels file beside the images file; NULL when the name has another form. */
static char *guess_labels(const char *path)
{
    static const char images[] = "images-idx3", labels[] = "labels-idx1";
    const char *at = NULL;
    for (const char *next = path; (next = strstr(next, images)); next++)
        at = next;
    char *guess = at ? strdup(path) : NULL;
    if (guess)
        memcpy(guess + (at - path), labels, sizeof labels - 1);
    return guess;
}

static int read_labels(const char *path, struct client_idx *idx, struct convoy_failure *failure)
{
    gzFile file;
    uint32_t count = 0;
    int status = open_file(path, &file, failure);
    if (status)
        return status;
    status = read_header(file, path, 1, &count, failure);
    if (status == 0 && count != idx->count)
        status = client_fail_with(failure, -EINVAL, "'%s' has %u labels, but '%s' has %u images", path, count,
                                  idx->path, idx->count);
    if (status == 0) {
        idx->labels = malloc((size_t)count + 1);
        if (!idx->labels)
            status = client_fail_with(failure, -ENOMEM, "memory is out");
        else if (!read_exactly(file, idx->labels, count))
            status = client_fail_with(failure, -EINVAL, "'%s' is cut off: it has fewer than its %u labels",
                                      path, count);
    }
    gzclose(file);
    return status;
}

int client_idx_open(const char *path, const char *labels_path, struct client_idx *idx,
                    struct convoy_failure *failure)
{
    gzFile file;
    uint32_t sizes[3] = {0};
    memset(idx, 0, sizeof *idx);
    idx->path = strdup(path);
    if (!idx->path)
        return client_fail_with(failure, -ENOMEM, "memory is out");
    int status = open_file(path, &file, failure);
    if (status)
        return status;
    idx->file = file;
    status = read_header(file, path, 3, sizes, failure);
    if (status)
        return status;
    idx->count = sizes[0];
    idx->height = sizes[1];
    idx->width = sizes[2];
    if (!idx->height || !idx->width || idx->height > SIDE_MAX || idx->width > SIDE_MAX)
        return client_fail_with(failure, -EINVAL, "'%s' says that its images are %u x %u, 1 to %d can be",
                                path, idx->width, idx->height, SIDE_MAX);
    char *guess = labels_path ? strdup(labels_path) : guess_labels(path);
    if (!guess)
        return client_fail_with(failure, -EINVAL,
                                "the name '%s' does not tell where its labels are: say --labels FILE", path);
    status = read_labels(guess, idx, failure);
    free(guess);
    return status;
}

int client_idx_next(struct client_idx *idx, uint8_t *pixels, uint8_t *label, struct convoy_failure *failure)
{
    if (idx->next == idx->count)
        return 0;
    if (!read_exactly(idx->file, pixels, (size_t)idx->width * idx->height))
        return client_fail_with(failure, -EINVAL, "'%s' is cut off or damaged at image %u of its %u",
                                idx->path, idx->next, idx->count);
    *label = idx->labels[idx->next++];
    return 1;
}

void client_idx_close(struct client_idx *idx)
{
    if (idx->file)
        gzclose(idx->file);
    free(idx->path);
    free(idx->labels);
    memset(idx, 0, sizeof *idx);
}
