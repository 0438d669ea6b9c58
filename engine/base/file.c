#include "engine/base/file.h"

#include "engine/base/reason.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int convoy_file_read(const char *path, size_t most, char **text, size_t *length, struct convoy_error *error)
{
    int result = 0;
    char *bytes = NULL;
    size_t count = 0;
    struct stat status;

    /* O_NONBLOCK: a FIFO in the file's place must not make the daemon wait for a writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        char reason[CONVOY_REASON_BYTES];
        result = -errno;
        return convoy_fail(error, result, "%s: cannot be opened: %s", path, convoy_reason(-result, reason));
    }
    if (fstat(fd, &status) < 0) {
        result = -errno;
        convoy_fail(error, result, "%s: cannot be read: %s", path, strerror(-result));
        goto out;
    }
    if (!S_ISREG(status.st_mode)) {
        result = convoy_fail(error, -EINVAL, "%s: is not a regular file", path);
        goto out;
    }
    if ((uint64_t)status.st_size > most) {
        result = convoy_fail(error, -EFBIG, "%s: has %lld bytes, more than the %zu that are read", path,
                             (long long)status.st_size, most);
        goto out;
    }
    /* A byte more than the size, so that a file that grows meanwhile is noticed and refused. */
    size_t capacity = (size_t)status.st_size + 1;
    bytes = malloc(capacity);
    if (bytes == NULL) {
        result = convoy_fail(error, -ENOMEM, "%s: out of memory for its %zu bytes", path, capacity);
        goto out;
    }
    while (count < capacity) {
        ssize_t got = read(fd, bytes + count, capacity - count);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            result = -errno;
            convoy_fail(error, result, "%s: cannot be read: %s", path, strerror(-result));
            goto out;
        }
        if (got == 0)
            break;
        count += (size_t)got;
    }
    if (count == capacity) {
        result = convoy_fail(error, -EAGAIN, "%s: grew while it was read; try again", path);
        goto out;
    }
    bytes[count] = '\0';
    *text = bytes;
    *length = count;
    bytes = NULL;

out:
    free(bytes);
    close(fd);
    return result;
}
