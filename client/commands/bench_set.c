/* The images that `convoy bench` sends, and the requests made of them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/commands/bench.h"
#include "client/data/paths.h"
#include "client/lib/failure.h"
#include "client/lib/file.h"

/* Limit of memory for all images; more variety would not change a measurement. */
#define IMAGES_BYTES_MAX ((size_t)1 << 30)

/* Folders may contain other files. */
static bool is_image(const void *bytes, size_t size)
{
    const char *begins = bytes;
    return (size >= 3 && memcmp(begins, "\xFF\xD8\xFF", 3) == 0) ||
           (size >= 4 && (memcmp(begins, "\x89PNG", 4) == 0 || memcmp(begins, "GIF8", 4) == 0)) ||
           (size >= 12 && memcmp(begins, "RIFF", 4) == 0 && memcmp(begins + 8, "WEBP", 4) == 0) ||
           (size >= 14 && memcmp(begins, "BM", 2) == 0 && memcmp(begins + 6, "\0\0\0\0", 4) == 0);
}

static int load_images(const struct client_bench_arguments *arguments, struct client_bench_set *set,
                       struct convoy_failure *failure)
{
    struct client_paths paths = {0};
    size_t total = 0;
    int status = 0;
    for (size_t i = 0; status == 0 && i < arguments->path_count; i++)
        status = client_paths_add(&paths, arguments->paths[i], failure);
    if (status == 0 && paths.count == 0)
        status = client_fail_with(failure, -ENOENT, "there are no files in '%s'", arguments->paths[0]);
    if (status)
        goto out;
    set->images = calloc(paths.count + 1, sizeof *set->images);
    if (!set->images) {
        status = client_fail_with(failure, -ENOMEM, "memory is out");
        goto out;
    }
    for (size_t i = 0; status == 0 && i < paths.count && total < IMAGES_BYTES_MAX; i++) {
        void *bytes = NULL;
        size_t size = 0;
        status = client_file_read(paths.paths[i], &bytes, &size, failure);
        if (status)
            break;
        if (!is_image(bytes, size)) {
            free(bytes);
            continue;
        }
        set->images[set->image_count++] = (struct convoy_image){bytes, size};
        total += size;
    }
    if (status == 0 && set->image_count == 0)
        status = client_fail_with(failure, -ENOENT, "no file in '%s' is a JPEG, PNG, WebP, BMP or GIF image",
                                  arguments->paths[0]);
out:
    client_paths_clear(&paths);
    return status;
}

/* Builds requests of `batch` images until every image is in one; the last continues with the first images.
 */
static int build_requests(const struct client_bench_arguments *arguments, struct client_bench_set *set,
                          struct convoy_failure *failure)
{
    struct convoy_options options = {.model = arguments->common.model, .version = arguments->common.version};
    size_t batch = (size_t)arguments->batch, wanted = (set->image_count + batch - 1) / batch, next = 0;
    int status = 0;
    if (set->image_count == 0)
        return client_fail_with(failure, -EINVAL, "there is no image to send");
    struct convoy_image *part = calloc(batch, sizeof *part);
    set->requests = calloc(wanted, sizeof *set->requests);
    if (!part || !set->requests) {
        free(part);
        return client_fail_with(failure, -ENOMEM, "memory is out");
    }
    while (status == 0 && set->request_count < wanted) {
        for (size_t i = 0; i < batch; i++)
            part[i] = set->images[next++ % set->image_count];
        status = client_request_build(part, batch, &options, &set->requests[set->request_count++], failure);
    }
    free(part);
    return status;
}

int client_bench_set_read(const struct client_bench_arguments *arguments, struct client_bench_set *set,
                          struct convoy_failure *failure)
{
    int status = load_images(arguments, set, failure);
    return status ? status : build_requests(arguments, set, failure);
}

void client_bench_set_clear(struct client_bench_set *set)
{
    for (size_t i = 0; i < set->request_count; i++)
        client_request_clear(&set->requests[i]);
    for (size_t i = 0; i < set->image_count; i++)
        free((void *)set->images[i].bytes);
    free(set->requests);
    free(set->images);
}
