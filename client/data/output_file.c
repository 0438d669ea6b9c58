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

static void clear(struct target *target)
{
    free(target->path);
    free(target->temporary);
}

/* Finds out what is at path. Call clear also after an error. Returns 0 or an errno. */
static int find(const char *path, struct target *target)
{
    struct stat status = {.st_mode = S_IFREG};
    int code = stat(path, &status) == 0 ? 0 : errno;
    *target = (struct target){0};
    if (code == 0 && S_ISDIR(status.st_mode))
        return EISDIR;
    if (code == 0)
        code = access(path, W_OK) == 0 ? 0 : errno;
    else if (code == ENOENT && *path)
        code = 0;
    if (code)
        return code;
    /* What /dev/stdout names has no path, where it is a pipe. A file that does not exist has none, either. */
    target->path = S_ISREG(status.st_mode) ? realpath(path, NULL) : NULL;
    if (!target->path)
        target->path = strdup(path);
    if (!target->path)
        return ENOMEM;
    char *temporary;
    if (!S_ISREG(status.st_mode))
        return 0;
    if (asprintf(&temporary, "%s.%ld.tmp", target->path, (long)getpid()) < 0)
        return ENOMEM;
    target->temporary = temporary;
    return 0;
}

/* Opens what is written to. Returns a descriptor or a negative errno. */
static int begin(const struct target *target)
{
    int file = target->temporary
                   ? open(target->temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666)
                   : open(target->path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    return file < 0 ? -errno : file;
}

int client_output_file_check(const char *path, struct convoy_failure *failure)
{
    struct target target;
    int code = find(path, &target), status = -code;
    /* A pipe is not opened: its reader would see the end when it is closed. */
    if (code == 0 && target.temporary) {
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
        int status = -errno;
        close(file);
        return status;
    }
    errno = 0;
    int status = write(out, context);
    if (status == 0 && ferror(out))
        status = errno ? -errno : -EIO;
    if (fclose(out) != 0 && status == 0)
        status = -errno;
    return status;
}

int client_output_file_write(const char *path, int (*write)(FILE *out, const void *context),
                             const void *context, struct convoy_failure *failure)
{
    struct target target;
    int code = find(path, &target);
    int file = code ? -code : begin(&target);
    if (file < 0) {
        clear(&target);
        return fail(path, file, failure);
    }
    int status = write_to(file, write, context);
    if (target.temporary) {
        if (status == 0 && rename(target.temporary, target.path) != 0)
            status = -errno;
        if (status)
            unlink(target.temporary);
    }
    clear(&target);
    return status ? fail(path, status, failure) : 0;
}
