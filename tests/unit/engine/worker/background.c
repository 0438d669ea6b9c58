/* Work in the background: the caller serves when the doorbell rings and sleeps otherwise. */
#include "engine/worker/background.h"

#include <criterion/criterion.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define RINGS   100
#define WORK_NS 50000000 /* as good as any: only a caller that polls by time notices it */

struct scene {
    int doorbell, ringer;          /* connected sockets */
    struct convoy_channel channel; /* without memory */
    pthread_t caller;
    atomic_int rung, served, empty; /* rings; slots that were served; calls that found nothing */
    bool worked_elsewhere;
    sem_t found_nothing;
};

static bool serve(void *context)
{
    struct scene *scene = context;
    if (atomic_load(&scene->served) < atomic_load(&scene->rung)) {
        atomic_fetch_add(&scene->served, 1);
        return true;
    }
    atomic_fetch_add(&scene->empty, 1);
    sem_post(&scene->found_nothing);
    return false;
}

static void ring(struct scene *scene)
{
    atomic_fetch_add(&scene->rung, 1);
    cr_assert_eq(send(scene->ringer, "", 1, MSG_DONTWAIT), 1);
}

static void open_scene(struct scene *scene, struct convoy_background *background)
{
    struct convoy_error error;
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    *scene = (struct scene){.doorbell = pair[0],
                            .ringer = pair[1],
                            .channel = {.doorbell_fd = pair[0]},
                            .caller = pthread_self()};
    sem_init(&scene->found_nothing, 0, 0);
    cr_assert_eq(convoy_background_open(background, serve, scene, &scene->channel, &error), 0);
}

static void close_scene(struct scene *scene, struct convoy_background *background)
{
    convoy_background_close(background);
    close(scene->doorbell);
    close(scene->ringer);
    sem_destroy(&scene->found_nothing);
}

/* Every ring comes when the caller has found nothing: it is about to sleep, or sleeps already. */
static void ring_often(void *argument)
{
    struct scene *scene = argument;
    scene->worked_elsewhere = !pthread_equal(pthread_self(), scene->caller);
    for (int i = 0; i < RINGS; i++) {
        sem_wait(&scene->found_nothing);
        ring(scene);
    }
    sem_wait(&scene->found_nothing);
}

Test(background, serves_each_ring)
{
    struct scene scene;
    struct convoy_background background;
    open_scene(&scene, &background);
    convoy_background_run(&background, ring_often, &scene);
    cr_assert(scene.worked_elsewhere);
    cr_assert_eq(atomic_load(&scene.served), RINGS);
    close_scene(&scene, &background);
}

static void take_long(void *argument)
{
    struct scene *scene = argument;
    scene->worked_elsewhere = !pthread_equal(pthread_self(), scene->caller);
    struct timespec left = {.tv_nsec = WORK_NS};
    nanosleep(&left, NULL);
}

Test(background, sleeps_while_nothing_is_to_be_served)
{
    struct scene scene;
    struct convoy_background background;
    open_scene(&scene, &background);
    for (int i = 1; i <= 2; i++) { /* the second run must not be woken by what the first one left behind */
        convoy_background_run(&background, take_long, &scene);
        cr_assert(scene.worked_elsewhere);
        cr_assert_leq(atomic_load(&scene.empty), i, "%d calls found nothing to serve in %d runs",
                      atomic_load(&scene.empty), i);
    }
    close_scene(&scene, &background);
}

/* Both ends of a channel: the worker's takes slots, and attends before it has work in the background. */
struct both_ends {
    struct convoy_channel front, worker;
    sem_t found_nothing;
    int taken;
};

static bool take_slot(void *context)
{
    struct both_ends *ends = context;
    uint32_t slot;
    if (convoy_channel_take_submitted(&ends->worker, &slot)) {
        ends->taken++;
        return true;
    }
    sem_post(&ends->found_nothing);
    return false;
}

/* Each slot comes when none was found: the caller is about to say that it sleeps, or has said so. */
static void submit_often(void *argument)
{
    struct both_ends *ends = argument;
    for (int i = 0; i < RINGS; i++) {
        sem_wait(&ends->found_nothing);
        convoy_channel_submit(&ends->front, 0);
        convoy_channel_ring(&ends->front);
    }
    sem_wait(&ends->found_nothing);
}

Test(background, serves_each_slot_of_a_channel, .timeout = 20)
{
    const struct convoy_channel_size size = {.slots = 2, .input_bytes = 64, .output_bytes = 64};
    struct both_ends ends = {.taken = 0};
    struct convoy_background background;
    struct convoy_error error;
    sem_init(&ends.found_nothing, 0, 0);
    cr_assert_eq(convoy_channel_create(&ends.front, &error), 0);
    cr_assert_eq(convoy_channel_lay_out(&ends.front, &size, &error), 0);
    cr_assert_eq(convoy_channel_attach(&ends.worker, dup(ends.front.memory_fd),
                                       dup(ends.front.worker_doorbell_fd), &size, &error),
                 0);
    cr_assert_eq(convoy_background_open(&background, take_slot, &ends, &ends.worker, &error), 0);
    convoy_channel_attend(&ends.worker, true);
    convoy_background_run(&background, submit_often, &ends);
    cr_assert_eq(ends.taken, RINGS);
    convoy_background_close(&background);
    convoy_channel_destroy(&ends.worker);
    convoy_channel_destroy(&ends.front);
    sem_destroy(&ends.found_nothing);
}
