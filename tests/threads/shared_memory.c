/* Regions of shared memory under many threads: a copy that has begun is of the object that was registered,
 * whichever thread unregisters meanwhile and whatever is opened then under the same descriptor. */
#include "server/inference/shared_memory.h"
#include "tests/threads/check.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define READERS 3
#define COPIES  400 /* of each reader */
#define BYTES   (256u << 10)

static struct convoy_shared_memory *memory;
static char ours[64], others[64]; /* objects: one is all 'x', the other all 'y' */
static atomic_uint at_work = READERS;

static void unlink_both(void)
{
    shm_unlink(ours);
    shm_unlink(others);
}

static void make_object(const char *key, char byte)
{
    static char bytes[BYTES];
    int fd = shm_open(key, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    CHECK(fd >= 0);
    memset(bytes, byte, sizeof bytes);
    CHECK(write(fd, bytes, sizeof bytes) == BYTES);
    close(fd);
}

/* Reads and writes 'x', until that came to pass often enough. */
static void *copy(void *context)
{
    char *bytes = malloc(BYTES);
    struct convoy_error error;

    (void)context;
    CHECK(bytes != NULL);
    for (int done = 0; done < COPIES;) {
        memset(bytes, 'z', BYTES);
        int code = convoy_shared_memory_read(memory, "ours", 0, BYTES, bytes, &error);
        CHECK(code == 0 || code == -ENOENT);
        if (code == 0)
            CHECK(bytes[0] == 'x' && memcmp(bytes, bytes + 1, BYTES - 1) == 0);
        memset(bytes, 'x', BYTES);
        code = convoy_shared_memory_write(memory, "ours", 0, BYTES, bytes, &error);
        CHECK(code == 0 || code == -ENOENT);
        done += code == 0;
    }
    free(bytes);
    atomic_fetch_sub(&at_work, 1);
    return NULL;
}

/* While they do: the region goes, its descriptor's number is the other object's, and it comes again. */
static void change(void)
{
    struct convoy_json_writer json = {0};
    struct convoy_error error;

    while (atomic_load(&at_work) > 0) {
        CHECK(convoy_shared_memory_register(memory, "ours", ours, 0, BYTES, &error) == 0);
        CHECK(convoy_shared_memory_write_status(memory, NULL, &json, &error) == 0);
        json.length = 0;
        sched_yield();
        convoy_shared_memory_unregister(memory, "ours");
        CHECK(convoy_shared_memory_register(memory, "others", others, 0, BYTES, &error) == 0);
        sched_yield();
        convoy_shared_memory_unregister_all(memory);
    }
    CHECK(!json.failed);
    convoy_json_writer_free(&json);
}

int main(void)
{
    static char bytes[BYTES];
    pthread_t readers[READERS];
    struct convoy_error error;

    snprintf(ours, sizeof ours, "/convoy-threads-%d-ours", (int)getpid());
    snprintf(others, sizeof others, "/convoy-threads-%d-others", (int)getpid());
    atexit(unlink_both);
    make_object(ours, 'x');
    make_object(others, 'y');
    static const struct convoy_shared_memory_config config = {.enabled = true};
    CHECK(convoy_shared_memory_new(&config, &memory, &error) == 0);
    for (int i = 0; i < READERS; i++)
        CHECK(pthread_create(&readers[i], NULL, copy, NULL) == 0);
    change();
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    CHECK(convoy_shared_memory_register(memory, "others", others, 0, BYTES, &error) == 0);
    CHECK(convoy_shared_memory_read(memory, "others", 0, BYTES, bytes, &error) == 0);
    CHECK(bytes[0] == 'y' && memcmp(bytes, bytes + 1, BYTES - 1) == 0);
    convoy_shared_memory_free(memory);
    puts("passed");
    return 0;
}
