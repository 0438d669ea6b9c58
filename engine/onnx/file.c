#include "engine/onnx/file.h"

#include "engine/base/reason.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Landlock refuses a file to this process that its user may read (engine/worker/confine_files.h):
 * faccessat(2) tells of the user and its capabilities alone. */
static bool is_confined_from(const char *path, int code)
{
    return code == EACCES && faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) == 0;
}

/* Opens a regular file. O_NONBLOCK: a FIFO put there must not hang the reader before fstat() can refuse it.
 */
static int open_regular(const char *path, int flags, struct stat *info, const char *shown,
                        struct convoy_error *error)
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags);
    if (file < 0) {
        char reason[CONVOY_REASON_BYTES];
        int why = errno;
        int code = errno == ENOENT || errno == ENOTDIR ? -ENOENT : errno == ENOMEM ? -ENOMEM : -EIO;
        if (is_confined_from(path, why))
            return convoy_fail(
                error, code,
                "%.200s cannot be opened: it lies, perhaps by a link, outside of what the models' "
                "folder held when this worker started, and a worker may read nothing else: name "
                "its folder in worker.readable",
                shown);
        return convoy_fail(error, code, "%.200s cannot be opened: %s", shown, convoy_reason(why, reason));
    }
    if (fstat(file, info) != 0 || !S_ISREG(info->st_mode)) {
        close(file);
        return convoy_fail(error, -EINVAL, "%.200s is not a regular file", shown);
    }
    return file;
}

static int read_fully(int file, uint64_t offset, uint8_t *data, size_t bytes, const char *shown,
                      struct convoy_error *error)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(file, data + done, bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return convoy_fail(error, -EIO, "%.200s cannot be read: %s", shown, strerror(errno));
        if (got == 0)
            return convoy_fail(error, -EINVAL, "%.200s became shorter while it was read", shown);
        done += (size_t)got;
    }
    return 0;
}

int onnx_read_file(const char *path, uint8_t **data, size_t *size, struct convoy_error *error)
{
    struct stat info;
    int file = open_regular(path, 0, &info, path, error);
    if (file < 0)
        return file;
    int status = 0;
    uint8_t *bytes = NULL;
    if (info.st_size == 0)
        status = convoy_fail(error, -EINVAL, "%.200s is empty", path);
    else if (info.st_size > INT_MAX)
        status =
            convoy_fail(error, -EINVAL,
                        "%.200s is larger than 2 GiB, the most that a protobuf file can be: export the model "
                        "with its weights as external data",
                        path);
    else if ((bytes = malloc((size_t)info.st_size)) == NULL)
        status = convoy_fail(error, -ENOMEM, "out of memory for the %lld bytes of %.200s",
                             (long long)info.st_size, path);
    else
        status = read_fully(file, 0, bytes, (size_t)info.st_size, path, error);
    close(file);
    if (status != 0) {
        free(bytes);
        return status;
    }
    *data = bytes;
    *size = (size_t)info.st_size;
    return 0;
}

char *onnx_folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        return strdup(".");
    return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

static bool has_parent_step(const char *location)
{
    for (const char *step = location; step != NULL; step = strchr(step, '/')) {
        step += *step == '/';
        if (step[0] == '.' && step[1] == '.' && (step[2] == '/' || step[2] == '\0'))
            return true;
    }
    return false;
}

/* The real path of folder/location, malloc'ed, after making sure that it lies below the real folder. */
static int resolve_inside(const char *folder, const char *location, char **resolved,
                          struct convoy_error *error)
{
    if (location[0] == '\0' || location[0] == '/' || has_parent_step(location))
        return convoy_fail(
            error, -EINVAL,
            "external data '%.120s' is not a path inside the model's own folder: put the data beside "
            "the model",
            location);
    int status = 0;
    char *joined = malloc(strlen(folder) + strlen(location) + 2);
    char *base = realpath(folder, NULL), *real = NULL;
    if (joined == NULL || base == NULL) {
        status = convoy_fail(error, joined == NULL ? -ENOMEM : -EIO, "the model's folder cannot be resolved");
        goto out;
    }
    stpcpy(stpcpy(stpcpy(joined, folder), "/"), location);
    real = realpath(joined, NULL);
    if (real == NULL) {
        status = convoy_fail(error, errno == ENOENT ? -ENOENT : -EIO,
                             "external data '%.120s' cannot be opened: %s", location, strerror(errno));
        goto out;
    }
    size_t length = strlen(base);
    if (strcmp(base, "/") != 0 && (strncmp(real, base, length) != 0 || real[length] != '/')) {
        status = convoy_fail(error, -EINVAL, "external data '%.120s' is a link out of the model's folder",
                             location);
        goto out;
    }
    *resolved = real;
    real = NULL;
out:
    free(joined);
    free(base);
    free(real);
    return status;
}

int onnx_read_external(const char *folder, const char *location, uint64_t offset, uint64_t bytes, void **data,
                       struct convoy_error *error)
{
    char *path = NULL;
    int file = -1;
    int status = resolve_inside(folder, location, &path, error);
    if (status != 0)
        return status;
    struct stat info;
    *data = NULL;
    file = open_regular(path, O_NOFOLLOW, &info, location, error);
    if (file < 0) {
        status = file;
    } else if (offset > (uint64_t)info.st_size || bytes > (uint64_t)info.st_size - offset) {
        status = convoy_fail(
            error, -EINVAL,
            "external data '%.120s' has %lld bytes, too few for the %llu bytes from %llu on that "
            "the model takes from it",
            location, (long long)info.st_size, (unsigned long long)bytes, (unsigned long long)offset);
    } else if (bytes > 0) {
        *data = malloc(bytes);
        status = *data == NULL
                     ? convoy_fail(error, -ENOMEM, "out of memory for %llu bytes of external data '%.120s'",
                                   (unsigned long long)bytes, location)
                     : read_fully(file, offset, *data, bytes, location, error);
    }
    if (status != 0) {
        free(*data);
        *data = NULL;
    }
    if (file >= 0)
        close(file);
    free(path);
    return status;
}
