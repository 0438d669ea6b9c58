#include "client/data/data_set.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/data/archive_library.h"
#include "client/data/idx.h"
#include "client/data/paths.h"
#include "client/data/png.h"
#include "client/lib/failure.h"
#include "client/lib/file.h"

#define READ_BYTES      ((size_t)64 << 10)
#define ENTRY_BYTES_MAX ((int64_t)1 << 30)

enum kind { FOLDER, ARCHIVE, IDX };

struct client_data_set {
    enum kind kind;
    char *path;
    struct client_paths paths; /* FOLDER */
    size_t next;
    struct client_archive_library library; /* ARCHIVE */
    struct archive *archive;               /* ARCHIVE */
    bool ended;                            /* ARCHIVE: libarchive must not be called after the end */
    struct client_idx idx;                 /* IDX */
    uint8_t *pixels;
};

/* Copies the name of the last folder in path; "" when there is none. */
static void read_class(const char *path, char *class, size_t size)
{
    const char *end = strrchr(path, '/');
    const char *start = end;
    while (end && start > path && start[-1] != '/')
        start--;
    int length = end ? (int)(end - start) : 0;
    snprintf(class, size, "%.*s", length == 1 && *start == '.' ? 0 : length, start ? start : "");
}

/* Returns whether path, relative to the set, is in a folder and not hidden. */
static bool has_class(const char *path)
{
    char class[8];
    const char *slash = strrchr(path, '/');
    read_class(path, class, sizeof class);
    return slash && slash[1] && slash[1] != '.' && *class;
}

static int open_folder(struct client_data_set *set, struct convoy_failure *failure)
{
    size_t prefix = strlen(set->path) + 1, kept = 0;
    int status = client_paths_add(&set->paths, set->path, failure);
    if (status)
        return status;
    for (size_t i = 0; i < set->paths.count; i++) {
        char *path = set->paths.paths[i];
        if (has_class(path + prefix))
            set->paths.paths[kept++] = path;
        else
            free(path);
    }
    set->paths.count = kept;
    if (kept == 0)
        return client_fail_with(failure, -ENOENT, "'%s' has no folders with images, one for each class",
                                set->path);
    return 0;
}

static int next_of_folder(struct client_data_set *set, struct client_labelled_image *image,
                          struct convoy_failure *failure)
{
    if (set->next == set->paths.count)
        return 0;
    const char *path = set->paths.paths[set->next++];
    snprintf(image->name, sizeof image->name, "%s", path);
    read_class(path, image->class, sizeof image->class);
    int status = client_file_read(path, &image->bytes, &image->size, failure);
    return status ? status : 1;
}

static int fail_archive(const struct client_data_set *set, struct convoy_failure *failure)
{
    const char *why = set->library.archive_error_string(set->archive);
    return client_fail_with(failure, -EIO, "'%s' cannot be read as a tar, zip or IDX file: %s", set->path,
                            why ? why : "it is damaged");
}

static int open_archive(struct client_data_set *set, struct convoy_failure *failure)
{
    int status = client_archive_library_open(&set->library, failure);
    if (status)
        return status;
    set->archive = set->library.archive_read_new();
    if (!set->archive)
        return client_fail_with(failure, -ENOMEM, "memory is out");
    set->library.archive_read_support_filter_all(set->archive);
    set->library.archive_read_support_format_tar(set->archive);
    set->library.archive_read_support_format_zip(set->archive);
    if (set->library.archive_read_open_filename(set->archive, set->path, READ_BYTES) != ARCHIVE_OK)
        return fail_archive(set, failure);
    return 0;
}

/* Reads the data of the current entry. The size in its header is not trusted: the bytes are counted. */
static int read_entry(struct client_data_set *set, struct archive_entry *entry,
                      struct client_labelled_image *image, struct convoy_failure *failure)
{
    int64_t promised = set->library.archive_entry_size_is_set(entry) ? set->library.archive_entry_size(entry)
                                                                     : ENTRY_BYTES_MAX + 1;
    if (promised > ENTRY_BYTES_MAX || promised < 0)
        return client_fail_with(failure, -EFBIG, "'%s' in '%s' is larger than 1 GiB or of unknown size",
                                image->name, set->path);
    image->bytes = malloc((size_t)promised + 1);
    if (!image->bytes)
        return client_fail_with(failure, -ENOMEM, "memory is out");
    while (image->size < (size_t)promised) {
        la_ssize_t got = set->library.archive_read_data(set->archive, (char *)image->bytes + image->size,
                                                        (size_t)promised - image->size);
        if (got < 0) {
            free(image->bytes);
            image->bytes = NULL;
            return fail_archive(set, failure);
        }
        if (got == 0)
            break;
        image->size += (size_t)got;
    }
    return 1;
}

static int next_of_archive(struct client_data_set *set, struct client_labelled_image *image,
                           struct convoy_failure *failure)
{
    while (!set->ended) {
        struct archive_entry *entry;
        int status = set->library.archive_read_next_header(set->archive, &entry);
        set->ended = status == ARCHIVE_EOF;
        if (set->ended)
            break;
        if (status != ARCHIVE_OK && status != ARCHIVE_WARN)
            return fail_archive(set, failure);
        const char *path = set->library.archive_entry_pathname(entry);
        if (set->library.archive_entry_filetype(entry) != AE_IFREG || !path || !has_class(path))
            continue;
        snprintf(image->name, sizeof image->name, "%s", path);
        read_class(path, image->class, sizeof image->class);
        return read_entry(set, entry, image, failure);
    }
    return 0;
}

static int open_idx(struct client_data_set *set, const char *labels, struct convoy_failure *failure)
{
    int status = client_idx_open(set->path, labels, &set->idx, failure);
    if (status)
        return status;
    set->pixels = malloc((size_t)set->idx.width * set->idx.height);
    return set->pixels ? 0 : client_fail_with(failure, -ENOMEM, "memory is out");
}

static int next_of_idx(struct client_data_set *set, struct client_labelled_image *image,
                       struct convoy_failure *failure)
{
    uint8_t label;
    uint8_t *png;
    snprintf(image->name, sizeof image->name, "image %u", set->idx.next);
    int status = client_idx_next(&set->idx, set->pixels, &label, failure);
    if (status <= 0)
        return status;
    snprintf(image->class, sizeof image->class, "%u", label);
    if (client_png_encode(set->pixels, set->idx.width, set->idx.height, &png, &image->size))
        return client_fail_with(failure, -ENOMEM, "memory is out");
    image->bytes = png;
    return 1;
}

int client_data_set_open(const char *path, const char *labels, struct client_data_set **set,
                         struct convoy_failure *failure)
{
    struct stat about;
    int status;
    *set = NULL;
    if (stat(path, &about)) {
        status = -errno;
        return client_fail_with(failure, status, "'%s' cannot be read: %s", path, strerror(-status));
    }
    struct client_data_set *made = calloc(1, sizeof *made);
    if (!made)
        return client_fail_with(failure, -ENOMEM, "memory is out");
    made->path = strdup(path);
    if (!made->path) {
        free(made);
        return client_fail_with(failure, -ENOMEM, "memory is out");
    }
    for (size_t length = strlen(made->path); length > 1 && made->path[length - 1] == '/'; length--)
        made->path[length - 1] = '\0';
    const char *slash = strrchr(made->path, '/'), *base = slash ? slash + 1 : made->path;
    made->kind = S_ISDIR(about.st_mode) ? FOLDER : labels || strstr(base, "idx") ? IDX : ARCHIVE;
    if (made->kind == FOLDER)
        status = open_folder(made, failure);
    else if (made->kind == ARCHIVE)
        status = open_archive(made, failure);
    else
        status = open_idx(made, labels, failure);
    if (status) {
        client_data_set_close(made);
        return status;
    }
    *set = made;
    return 0;
}

size_t client_data_set_total(const struct client_data_set *set)
{
    return set->kind == FOLDER ? set->paths.count : set->kind == IDX ? set->idx.count : 0;
}

int client_data_set_next(struct client_data_set *set, struct client_labelled_image *image,
                         struct convoy_failure *failure)
{
    memset(image, 0, sizeof *image);
    if (set->kind == FOLDER)
        return next_of_folder(set, image, failure);
    return set->kind == ARCHIVE ? next_of_archive(set, image, failure) : next_of_idx(set, image, failure);
}

void client_data_set_close(struct client_data_set *set)
{
    if (!set)
        return;
    client_paths_clear(&set->paths);
    if (set->archive)
        set->library.archive_read_free(set->archive);
    client_idx_close(&set->idx);
    free(set->pixels);
    free(set->path);
    free(set);
}
