#include "client/lib/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/lib/failure.h"

#define FILE_BYTES_MAX ((size_t)1 << 30)

/* Reads to the end, because a pipe's size is unknown; a known size is read in one call. */
static int read_all(int descriptor, size_t expected, size_t most, char **bytes, size_t *size)
{
    size_t capacity = expected + 1, filled = 0;
    char *buffer = malloc(capacity);
    if (!buffer)
        return -ENOMEM;
    for (;;) {
        if (filled == capacity) {
            char *larger = capacity > most ? NULL : realloc(buffer, capacity * 2);
            if (!larger) {
                free(buffer);
                return capacity > most ? -EFBIG : -ENOMEM;
            }
            buffer = larger;
            capacity *= 2;
        }
        ssize_t got = read(descriptor, buffer + filled, capacity - filled);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            int status = -errno;
            free(buffer);
            return status;
        }
        if (got == 0)
            break;
        filled += (size_t)got;
    }
    *bytes = buffer;
    *size = filled;
    return 0;
}

int client_file_read(const char *path, void **bytes, size_t *size, struct convoy_failure *failure)
{
    return client_file_read_most(path, FILE_BYTES_MAX, bytes, size, failure);
}

int client_file_read_most(const char *path, size_t most, void **bytes, size_t *size,
                          struct convoy_failure *failure)
{
    struct stat about;
    char *content = NULL;
    bool standard = strcmp(path, "-") == 0;
    int descriptor = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) {
        int status = -errno;
        return client_fail_with(failure, status, "'%s' cannot be opened: %s", path, strerror(-status));
    }
    int status = fstat(descriptor, &about) ? -errno : 0;
    if (status == 0 && S_ISDIR(about.st_mode))
        status = -EISDIR;
    size_t expected = 64 << 10;
    if (status == 0 && S_ISREG(about.st_mode) && about.st_size > 0)
        expected = (size_t)about.st_size > most ? most : (size_t)about.st_size;
    if (status == 0)
        status = read_all(descriptor, expected, most, &content, size);
    if (!standard)
        close(descriptor);
    if (status)
        return client_fail_with(failure, status, "'%s' cannot be read: %s",
                                standard ? "standard input" : path, strerror(-status));
    *bytes = content;
    return 0;
}
