#include "engine/cuda/tune/cache.h"

#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "kernels/bottleneck.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_LINE "convoyd kernel times 4\n"
#define MOST_BYTES ((size_t)4 << 20) /* some 30,000 shapes */

/* A hash of the names of all kernels, each with its final 0. */
static uint64_t kernels_fingerprint(void)
{
    int count;
    uint64_t hash = 0;
    const struct convoy_conv_kernel *const *convs = convoy_conv_kernels(&count);
    for (int i = 0; i < count; i++)
        hash = convoy_hash(hash, convs[i]->name, strlen(convs[i]->name) + 1);
    const struct convoy_gemm_kernel *const *gemms = convoy_gemm_kernels(&count);
    for (int i = 0; i < count; i++)
        hash = convoy_hash(hash, gemms[i]->name, strlen(gemms[i]->name) + 1);
    const struct convoy_fused_kernel *const *fused = convoy_fused_kernels(&count);
    for (int i = 0; i < count; i++)
        hash = convoy_hash(hash, fused[i]->name, strlen(fused[i]->name) + 1);
    const struct convoy_bottleneck_kernel *const *bottlenecks = convoy_bottleneck_kernels(&count);
    for (int i = 0; i < count; i++)
        hash = convoy_hash(hash, bottlenecks[i]->name, strlen(bottlenecks[i]->name) + 1);
    return hash;
}

int convoy_cuda_cache_open(struct convoy_cuda_cache *cache, const struct convoy_cuda_gpu *gpu,
                           const char *folder, const char *device_name, int driver,
                           struct convoy_error *error)
{
    char *file = NULL, *header = NULL;
    if (folder == NULL)
        return 0;
    cache->folder = strdup(folder);
    if (asprintf(&file, "%s/%s-%d.times", folder, device_name, gpu->index) < 0)
        file = NULL;
    if (asprintf(&header, FIRST_LINE "device %s\ndriver %d\nbuild %s %016" PRIx64 "\n", device_name, driver,
                 CONVOY_VERSION, kernels_fingerprint()) < 0)
        header = NULL;
    cache->file = file;
    cache->header = header;
    if (cache->folder == NULL || file == NULL || header == NULL)
        return convoy_fail(error, -ENOMEM, "no memory for the name of a file in %s", folder);
    for (char *letter = file + strlen(folder) + 1; *letter != '\0'; letter++)
        if (!isalnum((unsigned char)*letter) && strchr("-_.", *letter) == NULL)
            *letter = '-';
    return 0;
}

void convoy_cuda_cache_close(struct convoy_cuda_cache *cache)
{
    free(cache->folder);
    free(cache->file);
    free(cache->header);
}

/* True if the text is whole, by its last line, which is cut off. *count: the entries that it promises. */
static bool check_end(char *text, size_t *length, long *count)
{
    uint64_t expected;
    int used = 0;
    if (*length == 0 || text[*length - 1] != '\n' || memchr(text, '\0', *length) != NULL)
        return false;
    char *last = memrchr(text, '\n', *length - 1);
    if (last == NULL || sscanf(last + 1, "end %ld %16" SCNx64 "\n%n", count, &expected, &used) != 2 ||
        last + 1 + used != text + *length)
        return false;
    *length = (size_t)(last + 1 - text);
    text[*length] = '\0';
    return convoy_hash(0, text, *length) == expected;
}

/* Adds the entry of one line, which is overwritten; false if the line is malformed. */
static bool take_entry(struct convoy_cuda_kernel_choices *choices, char *line)
{
    struct convoy_cuda_key key;
    char *kernel, *text;
    float us = strtof(line, &kernel);
    if (kernel == line || *kernel != '\t' || !(us >= 0))
        return false;
    text = strchr(++kernel, '\t');
    if (text == NULL || strlen(text + 1) >= sizeof(key.text))
        return false;
    *text++ = '\0';
    memset(&key, 0, sizeof(key));
    snprintf(key.text, sizeof(key.text), "%s", text);
    return convoy_cuda_kernel_choices_set(choices, &key, kernel, us) == 0;
}

/* Replaces known by what the text says; returns NULL, or why the text cannot be used. */
static const char *take(const struct convoy_cuda_cache *cache, struct convoy_cuda_kernel_choices *known,
                        char *text, size_t length, long *count)
{
    struct convoy_cuda_kernel_choices choices = {0};
    long taken = 0;
    size_t header = strlen(cache->header);
    if (strncmp(text, FIRST_LINE, strlen(FIRST_LINE)) != 0)
        return "is not a file of kernel times of this format";
    if (!check_end(text, &length, count))
        return "is damaged";
    if (strncmp(text, cache->header, header) != 0)
        return "was made on another device, driver or build";
    for (char *line = text + header, *end; *line != '\0'; line = end + 1, taken++) {
        end = strchr(line, '\n');
        *end = '\0'; /* the text ends with one */
        if (!take_entry(&choices, line)) {
            convoy_cuda_kernel_choices_free(&choices);
            return "is damaged";
        }
    }
    if (taken != *count) {
        convoy_cuda_kernel_choices_free(&choices);
        return "is damaged";
    }
    convoy_cuda_kernel_choices_free(known);
    *known = choices;
    return NULL;
}

void convoy_cuda_cache_read(const struct convoy_cuda_cache *cache, const struct convoy_cuda_gpu *gpu,
                            struct convoy_cuda_kernel_choices *choices)
{
    struct convoy_error error;
    char *text = NULL;
    size_t length = 0;
    long count = 0;
    if (cache->file == NULL)
        return;
    int failed = convoy_file_read(cache->file, MOST_BYTES, &text, &length, &error);
    if (failed == -ENOENT)
        return; /* nothing was written yet */
    const char *why = failed ? NULL : take(cache, choices, text, length, &count);
    if (failed)
        convoy_cuda_log(gpu, "warning", "kernel times are not known: %s", error.message);
    else if (why != NULL)
        convoy_cuda_log(gpu, "warning", "kernel times are not known: %s %s", cache->file, why);
    else
        convoy_cuda_log(gpu, "info", "%ld kernel times are known from %s", count, cache->file);
    free(text);
}

/* The file's text, malloc'd; NULL when memory is out. */
static char *compose(const struct convoy_cuda_cache *cache, const struct convoy_cuda_kernel_choices *choices,
                     size_t *length)
{
    char *text = NULL;
    FILE *stream = open_memstream(&text, length);
    if (stream == NULL)
        return NULL;
    fputs(cache->header, stream);
    for (int i = 0; i < choices->count; i++) {
        const struct convoy_cuda_kernel_choice *choice = &choices->choices[i];
        fprintf(stream, "%.2f\t%s\t%s\n", (double)choice->us, choice->kernel, choice->key.text);
    }
    fflush(stream);
    uint64_t hash = ferror(stream) ? 0 : convoy_hash(0, text, *length);
    fprintf(stream, "end %d %016" PRIx64 "\n", choices->count, hash);
    bool broken = ferror(stream) != 0;
    if (fclose(stream) != 0 || broken) {
        free(text);
        return NULL;
    }
    return text;
}

/* 0 or a negative errno. No fsync(): half a file after a power failure is detected, and tuning is done again.
 */
static int write_all(const char *path, const char *text, size_t length)
{
    int code = 0;
    (void)unlink(path); /* left by a killed process with the same number */
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return -errno;
    while (length > 0 && code == 0) {
        ssize_t written = write(fd, text, length);
        if (written < 0) {
            code = errno == EINTR ? 0 : -errno;
            continue;
        }
        text += written;
        length -= (size_t)written;
    }
    if (close(fd) != 0 && code == 0)
        code = -errno;
    return code;
}

void convoy_cuda_cache_write(const struct convoy_cuda_cache *cache, const struct convoy_cuda_gpu *gpu,
                             const struct convoy_cuda_kernel_choices *choices)
{
    char *temporary = NULL;
    size_t length = 0;
    if (cache->file == NULL)
        return;
    char *text = compose(cache, choices, &length);
    int code = text != NULL ? 0 : -ENOMEM;
    if (code == 0 && asprintf(&temporary, "%s.%d", cache->file, (int)getpid()) < 0) {
        temporary = NULL;
        code = -ENOMEM;
    }
    if (code == 0 && length > MOST_BYTES)
        code = -EFBIG;
    if (code == 0 && mkdir(cache->folder, 0755) != 0 && errno != EEXIST)
        code = -errno;
    if (code == 0) {
        code = write_all(temporary, text, length);
        if (code == 0 && rename(temporary, cache->file) != 0)
            code = -errno;
        if (code != 0)
            (void)unlink(temporary);
    }
    if (code != 0)
        convoy_cuda_log(gpu, "warning",
                        "kernel times cannot be remembered: %s: %s; see cache_dir in the configuration",
                        cache->file, strerror(-code));
    free(temporary);
    free(text);
}
