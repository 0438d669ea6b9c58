/* Regions of shared memory that clients registered: names for stretches of objects made with shm_open(3).
 *
 * The objects are never mapped. A client may truncate its object at any time, and the next access to a
 * mapping would end the daemon with SIGBUS; so a region is an open descriptor, and bytes are copied with
 * pread(2) and pwrite(2), for which an object that has become too short is an error like any other.
 *
 * A region lives until it is unregistered and the last read or write that had begun on it is over. Until then
 * it keeps its object, also when that was unlinked or another one has been made under the same key.
 *
 * Any thread; the lock is held neither over a copy nor over a system call. Sentences are the client's: they
 * say what it must do differently. */
#ifndef CONVOY_SERVER_SHARED_MEMORY_H
#define CONVOY_SERVER_SHARED_MEMORY_H

#include "engine/base/error.h"
#include "engine/base/json_writer.h"
#include "server/config/shared_memory_config.h"

#include <stddef.h>
#include <stdint.h>

#define CONVOY_SHARED_MEMORY_REGIONS    1024 /* at most: each holds a descriptor */
#define CONVOY_SHARED_MEMORY_NAME_BYTES 255  /* at most, of a region's name and of a key */

struct convoy_shared_memory;

/* config must outlive it. Errors: -ENOMEM, -EINVAL (an owner is no user of this machine). */
int convoy_shared_memory_new(const struct convoy_shared_memory_config *config,
                             struct convoy_shared_memory **memory, struct convoy_error *error);

/* When no other call is under way any more; what is registered is given up. NULL is allowed. */
void convoy_shared_memory_free(struct convoy_shared_memory *memory);

/* Makes name stand for the byte_size bytes from offset on of the object key. A key is "/name" as for
 * shm_open(3), without further slashes; the slash may be left out. The object may be registered under several
 * names. -EINVAL: the name, the key or the size is none (byte_size is at least 1); -ENOENT, -EACCES and what
 * else shm_open(3) gives; -EACCES, too, for another prefix or owner than the configuration takes; -ENXIO: the
 * object is no regular file (symbolic links are not followed); -ERANGE: it is shorter than offset +
 * byte_size; -EEXIST: the name is taken; -ENOSPC: there are CONVOY_SHARED_MEMORY_REGIONS already. -ENOMEM,
 * -EMFILE and -ENFILE are not the client's fault. */
int convoy_shared_memory_register(struct convoy_shared_memory *memory, const char *name, const char *key,
                                  uint64_t offset, uint64_t byte_size, struct convoy_error *error);

/* A name that is not registered is no error. */
void convoy_shared_memory_unregister(struct convoy_shared_memory *memory, const char *name);
void convoy_shared_memory_unregister_all(struct convoy_shared_memory *memory);

/* Writes [{"name", "key", "offset", "byte_size"}] to json, by name, keys as they were given: of one region,
 * or of all when name is NULL. -ENOENT when name is not registered; json is then left alone. */
int convoy_shared_memory_write_status(struct convoy_shared_memory *memory, const char *name,
                                      struct convoy_json_writer *json, struct convoy_error *error);

/* Copies bytes bytes from offset of the region on into buffer. The client may write meanwhile: what comes is
 * then some of both. -ENOENT: no such region; -ERANGE: beyond what was registered; -ENODATA: the object has
 * become shorter since; else what pread(2) gives. */
int convoy_shared_memory_read(struct convoy_shared_memory *memory, const char *name, uint64_t offset,
                              size_t bytes, void *buffer, struct convoy_error *error);

/* Copies bytes bytes from buffer into the region, likewise. An object that has become shorter is not made
 * longer again, except when it is truncated between the check of its size and the write. Also -ENOSPC: the
 * machine has no shared memory left for the object's pages. */
int convoy_shared_memory_write(struct convoy_shared_memory *memory, const char *name, uint64_t offset,
                               size_t bytes, const void *buffer, struct convoy_error *error);

#endif
