/* A temporary folder for a test: made, filled and removed with everything in it. */
#ifndef CONVOY_TESTS_UNIT_FOLDER_H
#define CONVOY_TESTS_UNIT_FOLDER_H

#include <criterion/criterion.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct folder {
    char path[64];
};

static inline struct folder folder_make(void)
{
    struct folder folder = {.path = "/tmp/convoy-test-XXXXXX"};
    cr_assert_not_null(mkdtemp(folder.path));
    return folder;
}

static inline int folder_remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
    (void)status, (void)type, (void)ftw;
    return remove(path);
}

static inline void folder_remove(const struct folder *folder)
{
    cr_assert_eq(nftw(folder->path, folder_remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* The path of name inside, in one of a few buffers that are used in turn. */
static inline const char *folder_path(const struct folder *folder, const char *name)
{
    static char paths[8][PATH_MAX];
    static unsigned turn;
    char *path = paths[turn++ % 8];
    snprintf(path, PATH_MAX, "%s/%s", folder->path, name);
    return path;
}

/* Makes the folders on the way to name. */
static inline void folder_make_way(const struct folder *folder, const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder->path, name);
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        cr_assert(mkdir(path, 0700) == 0 || errno == EEXIST, "%s: %s", path, strerror(errno));
        *slash = '/';
    }
}

static inline const char *folder_write_bytes(const struct folder *folder, const char *name, const char *bytes,
                                             size_t length)
{
    folder_make_way(folder, name);
    const char *path = folder_path(folder, name);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file, "%s: %s", path, strerror(errno));
    cr_assert_eq(fwrite(bytes, 1, length, file), length);
    cr_assert_eq(fclose(file), 0);
    return path;
}

static inline const char *folder_write(const struct folder *folder, const char *name, const char *text)
{
    return folder_write_bytes(folder, name, text, strlen(text));
}

/* Asserts that error's sentence contains part. */
#define assert_says(error, part)                                                                             \
    cr_assert_not_null(strstr((error).message, (part)), "the sentence \"%s\" does not say \"%s\"",           \
                       (error).message, (part))

#endif
