#include "client/data/paths.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "client/lib/failure.h"

#define DEPTH_MAX 32

static int add_file(struct client_paths *paths, const char *path, struct convoy_failure *failure)
{
    if (paths->count == paths->capacity) {
        size_t capacity = paths->capacity ? paths->capacity * 2 : 64;
        char **larger = realloc(paths->paths, capacity * sizeof *larger);
        if (!larger)
            return client_fail_with(failure, -ENOMEM, "memory is out");
        paths->paths = larger;
        paths->capacity = capacity;
    }
    char *copy = strdup(path);
    if (!copy)
        return client_fail_with(failure, -ENOMEM, "memory is out");
    paths->paths[paths->count++] = copy;
    return 0;
}

static int add(struct client_paths *paths, const char *path, int depth, struct convoy_failure *failure);

// NOLINTNEXTLINE(misc-no-recursion): as deep as folders lie, at most DEPTH_MAX
static int add_folder(struct client_paths *paths, const char *path, int depth, struct convoy_failure *failure)
{
    struct dirent *entry;
    int status = 0;
    DIR *folder = opendir(path);
    if (!folder) {
        status = -errno;
        return client_fail_with(failure, status, "the folder '%s' cannot be read: %s", path,
                                strerror(-status));
    }
    // NOLINTNEXTLINE(concurrency-mt-unsafe): each folder has one reader
    while (status == 0 && (entry = readdir(folder))) {
        struct stat about;
        char *inner;
        if (entry->d_name[0] == '.')
            continue;
        if (asprintf(&inner, "%s/%s", path, entry->d_name) < 0) {
            status = client_fail_with(failure, -ENOMEM, "memory is out");
            break;
        }
        bool link = lstat(inner, &about) == 0 && S_ISLNK(about.st_mode);
        if (!link || (stat(inner, &about) == 0 && S_ISREG(about.st_mode)))
            status = add(paths, inner, depth + 1, failure);
        free(inner);
    }
    closedir(folder);
    return status;
}

// NOLINTNEXTLINE(misc-no-recursion)
static int add(struct client_paths *paths, const char *path, int depth, struct convoy_failure *failure)
{
    struct stat about;
    if (stat(path, &about)) {
        int status = -errno;
        return client_fail_with(failure, status, "'%s' cannot be read: %s", path, strerror(-status));
    }
    if (S_ISREG(about.st_mode))
        return add_file(paths, path, failure);
    if (!S_ISDIR(about.st_mode))
        return 0;
    if (depth > DEPTH_MAX)
        return client_fail_with(failure, -ELOOP, "the folders at '%s' lie more than %d deep", path,
                                DEPTH_MAX);
    return add_folder(paths, path, depth, failure);
}

static int by_name(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

int client_paths_add(struct client_paths *paths, const char *path, struct convoy_failure *failure)
{
    int status = add(paths, path, 0, failure);
    if (paths->count)
        qsort(paths->paths, paths->count, sizeof *paths->paths, by_name);
    return status;
}

void client_paths_clear(struct client_paths *paths)
{
    for (size_t i = 0; i < paths->count; i++)
        free(paths->paths[i]);
    free(paths->paths);
    memset(paths, 0, sizeof *paths);
}
