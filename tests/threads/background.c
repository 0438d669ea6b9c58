/* Work in the background, for the thread sanitizer: what the work wrote is seen by the thread that served
 * meanwhile, each ring of the doorbell is served, and runs one after the other do not disturb each other. */
#include "engine/worker/background.h"
#include "tests/threads/check.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define RUNS  2000
#define RINGS 3

struct scene {
    int doorbell, ringer; /* connected sockets */
    atomic_int rung, served;
    int result; /* not atomic: written by the work, read after the run */
};

static bool serve(void *context)
{
    struct scene *scene = context;
    if (atomic_load(&scene->served) == atomic_load(&scene->rung))
        return false;
    atomic_fetch_add(&scene->served, 1);
    return true;
}

static void work(void *argument)
{
    struct scene *scene = argument;
    for (int i = 0; i < RINGS; i++) {
        int wanted = atomic_fetch_add(&scene->rung, 1) + 1;
        CHECK(send(scene->ringer, "", 1, MSG_DONTWAIT) == 1 || errno == EAGAIN);
        while (i + 1 < RINGS && atomic_load(&scene->served) < wanted)
            ; /* ends at once, unless a ring is lost */
    }
    scene->result++;
}

int main(void)
{
    struct convoy_background background;
    struct convoy_error error;
    struct scene scene = {0};
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    scene.doorbell = pair[0];
    scene.ringer = pair[1];
    struct convoy_channel channel = {.doorbell_fd = scene.doorbell}; /* without memory */
    CHECK(convoy_background_open(&background, serve, &scene, &channel, &error) == 0);
    for (int run = 1; run <= RUNS; run++) {
        convoy_background_run(&background, work, &scene);
        CHECK(scene.result == run);
        CHECK(atomic_load(&scene.served) >=
              run * RINGS - run); /* the last ring of a run may come too late for it */
    }
    convoy_background_close(&background);
    close(scene.doorbell);
    close(scene.ringer);
    printf("%d runs, %d rings, %d served beside the work\n", RUNS, atomic_load(&scene.rung),
           atomic_load(&scene.served));
    return 0;
}
