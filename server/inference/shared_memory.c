#include "server/inference/shared_memory.h"

#include "engine/base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct region {
    atomic_uint holders; /* the table, and each read, write or status that is under way */
    int fd;
    uint64_t offset, byte_size; /* offset + byte_size is an off_t */
    char name[CONVOY_SHARED_MEMORY_NAME_BYTES + 1];
    char key[CONVOY_SHARED_MEMORY_NAME_BYTES + 1]; /* as it was given */
};

struct convoy_shared_memory {
    const struct convoy_shared_memory_config *config;
    uid_t *owners;
    size_t owner_count;
    pthread_mutex_t lock; /* all below */
    uint32_t count;
    struct region *regions[CONVOY_SHARED_MEMORY_REGIONS]; /* by name */
};

int convoy_shared_memory_new(const struct convoy_shared_memory_config *config,
                             struct convoy_shared_memory **result, struct convoy_error *error)
{
    struct convoy_shared_memory *memory = calloc(1, sizeof *memory);

    if (memory == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for shared memory's regions");
    memory->config = config;
    int code = convoy_shared_memory_config_owners(config, &memory->owners, &memory->owner_count, error);
    if (code != 0) {
        free(memory);
        return code;
    }
    pthread_mutex_init(&memory->lock, NULL);
    *result = memory;
    return 0;
}

void convoy_shared_memory_free(struct convoy_shared_memory *memory)
{
    if (memory == NULL)
        return;
    convoy_shared_memory_unregister_all(memory);
    pthread_mutex_destroy(&memory->lock);
    free(memory->owners);
    free(memory);
}

/* ---- The table ---- */

/* Not under the lock: closing the last descriptor of an unlinked object frees all its pages. */
static void release(struct region *region)
{
    if (atomic_fetch_sub_explicit(&region->holders, 1, memory_order_acq_rel) != 1)
        return;
    close(region->fd);
    free(region);
}

/* Under the lock: where name stands, or where it would have to stand. */
static uint32_t place_of(const struct convoy_shared_memory *memory, const char *name, bool *there)
{
    uint32_t from = 0, to = memory->count;

    *there = false;
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        int order = strcmp(memory->regions[middle]->name, name);
        if (order == 0) {
            *there = true;
            return middle;
        }
        if (order < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

/* The region, to be released; NULL with a sentence when there is none. */
static struct region *hold(struct convoy_shared_memory *memory, const char *name, struct convoy_error *error)
{
    struct region *region = NULL;
    bool there;

    pthread_mutex_lock(&memory->lock);
    uint32_t place = place_of(memory, name, &there);
    if (there) {
        region = memory->regions[place];
        atomic_fetch_add_explicit(&region->holders, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&memory->lock);
    if (region == NULL)
        convoy_fail(error, -ENOENT,
                    "no shared memory region is registered under the name '%s': register it first", name);
    return region;
}

/* The table becomes a holder of region; when that fails, the caller still is the only one. */
static int insert(struct convoy_shared_memory *memory, struct region *region, struct convoy_error *error)
{
    int code = 0;
    bool there;

    pthread_mutex_lock(&memory->lock);
    uint32_t place = place_of(memory, region->name, &there);
    if (there) {
        code = -EEXIST;
    } else if (memory->count == CONVOY_SHARED_MEMORY_REGIONS) {
        code = -ENOSPC;
    } else {
        memmove(memory->regions + place + 1, memory->regions + place,
                (memory->count - place) * sizeof memory->regions[0]);
        memory->regions[place] = region;
        memory->count++;
    }
    pthread_mutex_unlock(&memory->lock);
    if (code == -EEXIST)
        return convoy_fail(
            error, code,
            "a shared memory region is registered under the name '%s' already: unregister it first",
            region->name);
    if (code == -ENOSPC)
        return convoy_fail(error, code,
                           "%d shared memory regions are registered, which is as many as there may be: "
                           "unregister those that are not used any more",
                           CONVOY_SHARED_MEMORY_REGIONS);
    return 0;
}

void convoy_shared_memory_unregister(struct convoy_shared_memory *memory, const char *name)
{
    struct region *region = NULL;
    bool there;

    pthread_mutex_lock(&memory->lock);
    uint32_t place = place_of(memory, name, &there);
    if (there) {
        region = memory->regions[place];
        memory->count--;
        memmove(memory->regions + place, memory->regions + place + 1,
                (memory->count - place) * sizeof memory->regions[0]);
    }
    pthread_mutex_unlock(&memory->lock);
    if (region != NULL)
        release(region);
}

void convoy_shared_memory_unregister_all(struct convoy_shared_memory *memory)
{
    struct region *regions[CONVOY_SHARED_MEMORY_REGIONS];

    pthread_mutex_lock(&memory->lock);
    uint32_t count = memory->count;
    memcpy(regions, memory->regions, count * sizeof regions[0]);
    memory->count = 0;
    pthread_mutex_unlock(&memory->lock);
    for (uint32_t i = 0; i < count; i++)
        release(regions[i]);
}

/* ---- Registering ---- */

/* The sentence for an object that cannot be opened. */
static int fail_open(int code, const char *key, struct convoy_error *error)
{
    switch (code) {
    case -ENOENT:
        return convoy_fail(error, code,
                           "there is no shared memory object '%s' on the server's machine: make it before it "
                           "is registered",
                           key);
    case -EACCES:
        return convoy_fail(
            error, code,
            "the server must be able to read and write the shared memory object '%s': run both as the same "
            "user, or name its user in shared_memory.owners and give the object mode 0666",
            key);
    case -EINVAL: /* a folder, says glibc */
    case -ELOOP:  /* a symbolic link */
        return convoy_fail(error, code, "'%s' is no shared memory object: make one with shm_open(3)", key);
    case -EMFILE:
    case -ENFILE:
        return convoy_fail(error, code, "the server has no descriptor left for '%s': try again later", key);
    default:
        return convoy_fail(error, code, "the shared memory object '%s' cannot be opened: %s", key,
                           strerror(-code));
    }
}

static int open_object(const struct convoy_shared_memory *memory, const char *key, int *fd,
                       struct convoy_error *error)
{
    char path[CONVOY_SHARED_MEMORY_NAME_BYTES + 2];
    const char *bare = key[0] == '/' ? key + 1 : key;
    size_t length = strlen(bare);

    if (length == 0 || length >= CONVOY_SHARED_MEMORY_NAME_BYTES || strchr(bare, '/') != NULL)
        return convoy_fail(error, -EINVAL,
                           "the key of a shared memory object is '/name', without another slash and of at "
                           "most %d bytes",
                           CONVOY_SHARED_MEMORY_NAME_BYTES);
    path[0] = '/';
    memcpy(path + 1, bare, length + 1);
    if (!convoy_shared_memory_config_takes(memory->config, path))
        return convoy_fail(
            error, -EACCES,
            "keys of shared memory objects must begin with '%s' here: see shared_memory.prefix "
            "of the configuration",
            memory->config->prefix);
    /* O_NONBLOCK: a process that holds a lease on the object must not block an HTTP thread. */
    *fd = shm_open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0);
    return *fd < 0 ? fail_open(-errno, key, error) : 0;
}

static bool is_owner(const struct convoy_shared_memory *memory, uid_t uid)
{
    for (size_t i = 0; i < memory->owner_count; i++)
        if (memory->owners[i] == uid)
            return true;
    return false;
}

/* What was opened is an object of shared memory of a user whose objects are taken, and the region lies
 * inside. The sentences say nothing of what else lies there. */
static int check_object(const struct convoy_shared_memory *memory, const struct region *region,
                        struct convoy_error *error)
{
    struct stat status;

    if (fstat(region->fd, &status) != 0)
        return convoy_fail(error, -errno, "the shared memory object '%s' cannot be looked at: %s",
                           region->key, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return convoy_fail(error, -ENXIO, "'%s' is no shared memory object: make one with shm_open(3)",
                           region->key);
    if (!is_owner(memory, status.st_uid))
        return convoy_fail(error, -EACCES,
                           "the shared memory object '%s' does not belong to a user whose objects are taken: "
                           "see shared_memory.owners of the configuration",
                           region->key);
    uint64_t size = (uint64_t)status.st_size;
    if (region->offset > size || region->byte_size > size - region->offset)
        return convoy_fail(error, -ERANGE,
                           "%" PRIu64 " bytes from offset %" PRIu64 " on are more than the shared memory "
                           "object has: register less, or make it longer",
                           region->byte_size, region->offset);
    return 0;
}

static int check_names(const char *name, const char *key, struct convoy_error *error)
{
    size_t length = strlen(name);

    /* The status is JSON: a name that is not UTF-8 could not be told. */
    if (length == 0 || length > CONVOY_SHARED_MEMORY_NAME_BYTES || !convoy_utf8_valid(name, length, NULL))
        return convoy_fail(error, -EINVAL,
                           "the name of a shared memory region has 1 to %d bytes and is UTF-8",
                           CONVOY_SHARED_MEMORY_NAME_BYTES);
    length = strlen(key);
    if (length > CONVOY_SHARED_MEMORY_NAME_BYTES || !convoy_utf8_valid(key, length, NULL))
        return convoy_fail(error, -EINVAL,
                           "the key of a shared memory object has at most %d bytes and is UTF-8",
                           CONVOY_SHARED_MEMORY_NAME_BYTES);
    return 0;
}

int convoy_shared_memory_register(struct convoy_shared_memory *memory, const char *name, const char *key,
                                  uint64_t offset, uint64_t byte_size, struct convoy_error *error)
{
    int code = check_names(name, key, error);

    if (code != 0)
        return code;
    if (byte_size == 0)
        return convoy_fail(error, -EINVAL, "the byte_size of a shared memory region is at least 1");
    struct region *region = calloc(1, sizeof *region);
    if (region == NULL)
        return convoy_fail(error, -ENOMEM, "the server is out of memory: try again later");
    atomic_init(&region->holders, 1);
    region->offset = offset;
    region->byte_size = byte_size;
    memcpy(region->name, name, strlen(name) + 1);
    memcpy(region->key, key, strlen(key) + 1);
    code = open_object(memory, key, &region->fd, error);
    if (code != 0) {
        free(region);
        return code;
    }
    code = check_object(memory, region, error);
    if (code == 0)
        code = insert(memory, region, error);
    if (code != 0)
        release(region);
    return code;
}

/* ---- Status ---- */

static void write_region(const struct region *region, struct convoy_json_writer *json)
{
    convoy_json_write_begin_object(json);
    convoy_json_write_key(json, "name");
    convoy_json_write_string(json, region->name);
    convoy_json_write_key(json, "key");
    convoy_json_write_string(json, region->key);
    convoy_json_write_key(json, "offset");
    convoy_json_write_unsigned(json, region->offset);
    convoy_json_write_key(json, "byte_size");
    convoy_json_write_unsigned(json, region->byte_size);
    convoy_json_write_end_object(json);
}

/* All regions, each to be released; returns how many. */
static uint32_t hold_all(struct convoy_shared_memory *memory,
                         struct region *regions[CONVOY_SHARED_MEMORY_REGIONS])
{
    pthread_mutex_lock(&memory->lock);
    uint32_t count = memory->count;
    for (uint32_t i = 0; i < count; i++) {
        regions[i] = memory->regions[i];
        atomic_fetch_add_explicit(&regions[i]->holders, 1, memory_order_relaxed);
    }
    pthread_mutex_unlock(&memory->lock);
    return count;
}

int convoy_shared_memory_write_status(struct convoy_shared_memory *memory, const char *name,
                                      struct convoy_json_writer *json, struct convoy_error *error)
{
    struct region *regions[CONVOY_SHARED_MEMORY_REGIONS];
    uint32_t count = 1;

    if (name == NULL) {
        count = hold_all(memory, regions);
    } else {
        regions[0] = hold(memory, name, error);
        if (regions[0] == NULL)
            return -ENOENT;
    }
    convoy_json_write_begin_array(json);
    for (uint32_t i = 0; i < count; i++) {
        write_region(regions[i], json);
        release(regions[i]);
    }
    convoy_json_write_end_array(json);
    return 0;
}

/* ---- Reading and writing ---- */

static int check_bounds(const struct region *region, uint64_t offset, size_t bytes,
                        struct convoy_error *error)
{
    if (offset <= region->byte_size && bytes <= region->byte_size - offset)
        return 0;
    return convoy_fail(error, -ERANGE,
                       "%zu bytes from offset %" PRIu64
                       " on are more than were registered of the shared memory "
                       "region",
                       bytes, offset);
}

static int fail_short(const struct region *region, struct convoy_error *error)
{
    return convoy_fail(error, -ENODATA,
                       "the object of the shared memory region '%s' has become shorter since it was "
                       "registered: make it as long again, or register what is left",
                       region->name);
}

static int fail_copy(int code, const char *what, const struct region *region, struct convoy_error *error)
{
    return convoy_fail(error, code, "the shared memory region '%s' cannot be %s: %s", region->name, what,
                       strerror(-code));
}

static int read_inside(const struct region *region, uint64_t offset, size_t bytes, char *buffer,
                       struct convoy_error *error)
{
    off_t at = (off_t)(region->offset + offset);

    while (bytes > 0) {
        ssize_t got = pread(region->fd, buffer, bytes, at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_copy(-errno, "read", region, error);
        if (got == 0)
            return fail_short(region, error);
        buffer += got;
        bytes -= (size_t)got;
        at += got;
    }
    return 0;
}

int convoy_shared_memory_read(struct convoy_shared_memory *memory, const char *name, uint64_t offset,
                              size_t bytes, void *buffer, struct convoy_error *error)
{
    struct region *region = hold(memory, name, error);

    if (region == NULL)
        return -ENOENT;
    int code = check_bounds(region, offset, bytes, error);
    if (code == 0)
        code = read_inside(region, offset, bytes, buffer, error);
    release(region);
    return code;
}

static int write_inside(const struct region *region, uint64_t offset, size_t bytes, const char *buffer,
                        struct convoy_error *error)
{
    off_t at = (off_t)(region->offset + offset);
    struct stat status;

    if (fstat(region->fd, &status) != 0)
        return fail_copy(-errno, "written", region, error);
    if (status.st_size < at || (uint64_t)(status.st_size - at) < bytes)
        return fail_short(region, error);
    while (bytes > 0) {
        ssize_t put = pwrite(region->fd, buffer, bytes, at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return fail_copy(put < 0 ? -errno : -EIO, "written", region, error);
        buffer += put;
        bytes -= (size_t)put;
        at += put;
    }
    return 0;
}

int convoy_shared_memory_write(struct convoy_shared_memory *memory, const char *name, uint64_t offset,
                               size_t bytes, const void *buffer, struct convoy_error *error)
{
    struct region *region = hold(memory, name, error);

    if (region == NULL)
        return -ENOENT;
    int code = check_bounds(region, offset, bytes, error);
    if (code == 0)
        code = write_inside(region, offset, bytes, buffer, error);
    release(region);
    return code;
}
