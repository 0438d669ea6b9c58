#include "client/data/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/lib/failure.h"

struct target {
    char *path;      /* without symbolic links, where the file exists */
    char *temporary; /* NULL: path is no regular file */
};

static int fail(const char *path, int status, struct convoy_failure *failure)
{
    return client_fail_with(failure, status, "'%s' cannot be written: %s", path, strerror(-status));
}

/* Of the call that has just failed: below 0. */
static int last_error(void)
{
    int code = errno;
    return code > 0 ? -code : -EIO;
}

static void clear(struct target *target)
{
    free(target->path);
    free(target->temporary);
}

/* Finds out what is at path. Call clear also after an error. Returns 0 or a negative errno. */
static int find(const char *path, struct target *target)
{
    struct stat status;
    *target = (struct target){0};
    if (!*path)
        return -ENOENT;
    if (stat(path, &status) != 0) {
        if (errno != ENOENT)
            return last_error();
        status.st_mode = S_IFREG;
        target->path = strdup(path);
    } else if (S_ISDIR(status.st_mode)) {
        return -EISDIR;
    } else if (access(path, W_OK) != 0) {
        return last_error();
    } else {
        /* What /dev/stdout names has no path, where it is a pipe. */
        target->path = S_ISREG(status.st_mode) ? realpath(path, NULL) : strdup(path);
    }
    if (!target->path)
        return last_error();
    char *temporary;
    if (!S_ISREG(status.st_mode))
        return 0;
    if (asprintf(&temporary, "%s.%ld.tmp", target->path, (long)getpid()) < 0)
        return -ENOMEM;
    target->temporary = temporary;
    return 0;
}

/* Opens what is written to. Returns a descriptor or a negative errno. */
static int begin(const struct target *target)
{
    int file = target->temporary
                   ? open(target->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666)
                   : open(target->path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    return file < 0 ? last_error() : file;
}

int client_output_file_check(const char *path, struct convoy_failure *failure)
{
    struct target target;
    int status = find(path, &target);
    /* A pipe is not opened: its reader would see the end when it is closed. */
    if (status == 0 && target.temporary) {
        int file = begin(&target);
        if (file >= 0) {
            close(file);
            unlink(target.temporary);
        } else {
            status = file;
        }
    }
    clear(&target);
    return status ? fail(path, status, failure) : 0;
}

static int write_to(int file, int (*write)(FILE *out, const void *context), const void *context)
{
    FILE *out = fdopen(file, "w");
    if (!out) {
        int status = last_error();
        close(file);
        return status;
    }
    errno = 0;
    int status = write(out, context);
    if (status == 0 && (ferror(out) || fflush(out) != 0))
        status = last_error();
    if (fclose(out) != 0 && status == 0)
        status = last_error();
    return status;
}

int client_output_file_write(const char *path, int (*write)(FILE *out, const void *context),
                             const void *context, struct convoy_failure *failure)
{
    struct target target;
    int status = find(path, &target);
    int file = status ? status : begin(&target);
    if (file < 0) {
        clear(&target);
        return fail(path, file, failure);
    }
    status = write_to(file, write, context);
    if (target.temporary) {
        if (status == 0 && rename(target.temporary, target.path) != 0)
            status = last_error();
        if (status)
            unlink(target.temporary);
    }
    clear(&target);
    return status ? fail(path, status, failure) : 0;
}
