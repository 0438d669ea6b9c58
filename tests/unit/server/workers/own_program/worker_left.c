/* A worker that is ending and not dead, with this test as the master, which tells ends when it likes: another
 * process takes its place meanwhile. What is started is a child of this test that does nothing. */
#include "server/workers/environment.h"
#include "server/workers/worker_command.h"
#include "server/workers/worker_label.h"
#include "server/workers/worker_process.h"

#include "engine/base/clock.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_US 20000000u
#define LOOKS    5 /* after so many without a consequence there will be none */

char **convoy_worker_environment(void)
{
    return NULL;
}

int convoy_worker_program(char *path, size_t capacity, struct convoy_error *error)
{
    (void)error;
    snprintf(path, capacity, "convoy-worker");
    return 0;
}

/* What the master knows of what it was asked to start. */
struct started {
    pid_t pid;
    int control, doorbell; /* the worker's ends */
};

static const struct convoy_channel_size size = {.slots = 2, .input_bytes = 100, .output_bytes = 64};
static struct convoy_error error;
static uv_loop_t loop;
static struct convoy_link *to_master;
static int master; /* the other end of the link */
static struct convoy_packet packet;
static struct convoy_worker_process process;
static struct started first, spare;
static uint32_t looks, gone, left_gone, turn_when_gone;
static char reason[32], text[CONVOY_ERROR_BYTES];
static bool spare_waits;

static void on_message(void *context, struct convoy_worker_process *of,
                       const struct convoy_worker_message *message)
{
    (void)context, (void)of, (void)message;
}

static bool on_finished_slots(void *context, struct convoy_worker_process *of)
{
    (void)context, (void)of;
    return false;
}

static void on_gone(void *context, struct convoy_worker_process *of, const char *why, const char *how)
{
    (void)context;
    gone++;
    turn_when_gone = of->channel.turn;
    snprintf(reason, sizeof reason, "%s", why);
    snprintf(text, sizeof text, "%s", how);
}

static bool may_leave(void *context, const struct convoy_worker_process *of)
{
    (void)context;
    looks++;
    return spare_waits && !of->left.exists;
}

static void on_left_gone(void *context)
{
    (void)context;
    cr_assert(!process.left.exists);
    left_gone++;
}

static const struct convoy_worker_process_events events = {on_message, on_finished_slots, on_gone, may_leave,
                                                           on_left_gone};

static void *sleep_on(void *nothing)
{
    for (;;)
        pause();
    return nothing;
}

static pid_t stand_in(void)
{
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        pthread_t thread;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close_range(STDERR_FILENO + 1, ~0u, 0);
        pthread_create(&thread, NULL, sleep_on, NULL);
        sleep_on(NULL);
    }
    return child;
}

static bool receive(enum convoy_packet_type type, uint32_t number)
{
    convoy_packet_close(&packet);
    packet.fd_count = 0;
    return convoy_packet_receive(master, &packet) == 1 && packet.type == type && packet.number == number;
}

/* The master has started number: keeps the worker's ends. */
static void has_started(uint32_t number, struct started *started)
{
    cr_assert(receive(CONVOY_PACKET_START, number));
    started->control = packet.fds[0];
    started->doorbell = packet.fds[2];
    packet.fds[0] = packet.fds[2] = -1;
}

static void promise(uint32_t number, struct started *started)
{
    started->pid = stand_in();
    cr_assert_eq(convoy_packet_tell(master, CONVOY_PACKET_STARTED, number, (int32_t)started->pid), 0);
}

static void open_link(void)
{
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair), 0);
    cr_assert_not_null(to_master = convoy_link_new(pair[0]));
    master = pair[1];
}

/* A worker with a channel, and a spare. */
static void begin(void)
{
    static const struct convoy_worker_settings settings = {
        .device_index = 1,
        .streams = 2,
        .of = CONVOY_OF_ALL,
        .tune = "on",
        .spares = 1,
        .sandbox = {&convoy_worker_config_default, "models", false}};
    cr_assert_eq(uv_loop_init(&loop), 0);
    open_link();
    looks = gone = left_gone = 0;
    spare_waits = true;
    cr_assert_eq(
        convoy_worker_process_prepare(&process, &loop, &settings, CONVOY_MAX_MODELS, &events, NULL, &error),
        0);
    process.link = to_master;
    cr_assert_eq(convoy_channel_lay_out(&process.channel, &size, &error), 0);
    promise(1, &first);
    cr_assert_eq(convoy_worker_process_start(&process, "cuda", "on", &error), 0);
    has_started(1, &first);
    promise(2, &spare);
    convoy_worker_process_keep_spares(&process, "cuda", "on");
    has_started(2, &spare);
}
TestSuite(worker_left, .init = begin);

static void turn_once(void)
{
    struct pollfd readable = {.fd = convoy_link_fd(to_master), .events = POLLIN};
    uv_run(&loop, UV_RUN_NOWAIT);
    if (convoy_link_waiting(to_master) || poll(&readable, 1, 1) > 0)
        cr_assert(convoy_link_dispatch(to_master));
}

static void until(const uint32_t *count, uint32_t value, const char *what)
{
    uint64_t until_us = convoy_now_us() + LIMIT_US;
    while (*count < value) {
        cr_assert_lt(convoy_now_us(), until_us, "%s", what);
        turn_once();
    }
}

static void say_lost(const struct started *started)
{
    static const char line[] = "{\"type\":\"lost\",\"reason\":\"its context is poisoned\"}\n";
    cr_assert_eq(send(started->control, line, sizeof line - 1, 0), (ssize_t)(sizeof line - 1));
}

/* No thread of it runs any more, so the kernel closes its socket. It is not waited for, which is the
 * master's.
 */
static void end_threads(const struct started *started)
{
    siginfo_t info;
    cr_assert_eq(kill(started->pid, SIGKILL), 0);
    cr_assert_eq(waitid(P_PID, (id_t)started->pid, &info, WEXITED | WNOWAIT), 0);
    close(started->control);
}

static void exits(uint32_t number, const struct started *started)
{
    int status = 0;
    kill(started->pid, SIGKILL);
    cr_assert_eq(waitpid(started->pid, &status, 0), started->pid);
    cr_assert_eq(convoy_packet_tell(master, CONVOY_PACKET_EXITED, number, status), 0);
}

/* Ends all that is left, of which the last is process's own. */
static void end_all(uint32_t number, const struct started *started)
{
    uint32_t before = gone;
    if (process.running) {
        exits(number, started);
        until(&gone, before + 1, "the end of the last one");
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&loop), 0);
    convoy_worker_process_free(&process);
    convoy_link_free(to_master);
    convoy_packet_close(&packet);
    close(master);
}

static void spare_takes_place(void)
{
    cr_assert_eq(convoy_worker_process_start(&process, "cuda", "on", &error), 0);
    cr_assert(process.running && process.was_spare && process.pid == spare.pid);
}

Test(worker_left, a_spare_takes_the_place_of_a_lost_worker_before_it_is_dead)
{
    say_lost(&first);
    until(&looks, LOOKS, "nothing looks at it");
    cr_assert(receive(CONVOY_PACKET_KILL, 1), "it is given time to end by itself");
    cr_assert_eq(gone, 0, "its threads run");
    end_threads(&first);
    until(&gone, 1, "its exit is waited for");
    cr_assert_str_eq(reason, "lost");
    cr_assert_str_eq(text, "its context is poisoned");
    cr_assert(process.left.exists && process.left.pid == first.pid);
    cr_assert(receive(CONVOY_PACKET_LABEL, 1));
    cr_assert_str_eq(packet.text, "ending 1 of=*");
    cr_assert_eq(turn_when_gone, 0, "what it has finished is looked for elsewhere");
    spare_takes_place();
    cr_assert_eq(process.channel.turn, 1, "its device writes where the next one does");
    exits(1, &first);
    until(&left_gone, 1, "its end is not told");
    cr_assert_eq(gone, 1, "its death counts twice");
    cr_assert(process.running);
    end_all(2, &spare);
}

Test(worker_left, why_it_ends_is_not_known_yet)
{
    end_threads(&first);
    until(&gone, 1, "its exit is waited for");
    cr_assert(receive(CONVOY_PACKET_KILL, 1), "it may have closed its socket itself");
    cr_assert_str_eq(reason, "unknown");
    spare_takes_place();
    exits(1, &first);
    until(&left_gone, 1, "its end is not told");
    end_all(2, &spare);
}

Test(worker_left, one_that_hangs)
{
    /* It reads that no more, and its end looks otherwise to the front. */
    cr_assert_eq(convoy_worker_process_send(&process, convoy_worker_command_memory()), 0);
    convoy_worker_process_kill(&process, "hang");
    end_threads(&first);
    until(&gone, 1, "its exit is waited for");
    cr_assert_str_eq(reason, "hang");
    spare_takes_place();
    exits(1, &first);
    until(&left_gone, 1, "its end is not told");
    end_all(2, &spare);
}

Test(worker_left, the_second_one_waits_for_the_first_to_be_gone)
{
    say_lost(&first);
    end_threads(&first);
    until(&gone, 1, "its exit is waited for");
    spare_takes_place();
    say_lost(&spare);
    end_threads(&spare);
    looks = 0;
    until(&looks, LOOKS, "nothing looks at it");
    cr_assert_eq(gone, 1, "two are left on the device");
    cr_assert_eq(process.channel.turn, 1);
    process.look_until_us = 0; /* the first one takes longer than it is looked for one that is alone */
    looks = 0;
    until(&looks, LOOKS, "it is not looked at any more");
    exits(1, &first);
    until(&gone, 2, "its exit is waited for");
    cr_assert(process.left.exists && process.left.pid == spare.pid);
    struct started third;
    promise(3, &third);
    cr_assert_eq(convoy_worker_process_start(&process, "cuda", "on", &error), 0);
    cr_assert_eq(process.channel.turn, 0, "the first area is free");
    exits(2, &spare);
    until(&left_gone, 2, "its end is not told");
    end_all(3, &third);
}

Test(worker_left, without_a_spare_its_exit_is_waited_for)
{
    spare_waits = false;
    say_lost(&first);
    end_threads(&first);
    until(&looks, LOOKS, "nothing looks at it");
    cr_assert_eq(gone, 0);
    exits(1, &first);
    until(&gone, 1, "its exit is not told");
    cr_assert(!process.left.exists && !process.other_outputs);
    cr_assert_str_eq(reason, "lost");
    spare_takes_place();
    cr_assert_eq(process.channel.turn, 0);
    end_all(2, &spare);
}

/* Its socket is read no more, and says nothing of its threads. */
Test(worker_left, one_that_writes_a_line_without_end)
{
    static const char noise[4096] = {'x'};
    uint64_t until_us = convoy_now_us() + LIMIT_US;
    while (!process.ended) {
        cr_assert_lt(convoy_now_us(), until_us, "it is read on and on");
        (void)send(first.control, noise, sizeof noise, MSG_DONTWAIT | MSG_NOSIGNAL);
        turn_once();
    }
    until(&looks, LOOKS, "nothing looks at it");
    cr_assert_eq(gone, 0, "its threads run");
    exits(1, &first);
    until(&gone, 1, "its exit is not told");
    cr_assert_str_eq(reason, "protocol");
    spare_takes_place();
    end_all(2, &spare);
}

Test(worker_left, one_whose_socket_another_process_holds)
{
    int status = 0;
    pid_t ended = first.pid;
    say_lost(&first);
    kill(ended, SIGKILL);
    cr_assert_eq(waitpid(ended, &status, 0), ended);
    until(&looks, LOOKS, "nothing looks at it");
    cr_assert_eq(gone, 0);
    process.look_until_us = 0;
    looks = 0;
    until(&looks, 1, "nothing looks at it");
    cr_assert(gone == 0 && !uv_is_active((uv_handle_t *)&process.look), "it is looked for on and on");
    cr_assert_eq(convoy_packet_tell(master, CONVOY_PACKET_EXITED, 1, status), 0);
    until(&gone, 1, "its exit is not told");
    cr_assert_str_eq(reason, "lost");
    spare_takes_place();
    end_all(2, &spare);
}

/* What another master told of a worker of the front before. */
static void tell_worker(uint32_t number, const char *label)
{
    int pair[2];
    cr_assert_eq(pipe(pair), 0);
    struct convoy_packet *told = &packet;
    convoy_packet_close(told);
    *told = (struct convoy_packet){.type = CONVOY_PACKET_WORKER,
                                   .number = number,
                                   .value = (int32_t)first.pid,
                                   .length = (uint32_t)strlen(label),
                                   .fd_count = 3,
                                   .fds = {pair[0], pair[1], pair[1]}};
    memcpy(told->text, label, told->length);
    cr_assert_eq(convoy_packet_send(master, told), 0);
    told->fd_count = 0;
    close(pair[0]);
    close(pair[1]);
    cr_assert(convoy_link_dispatch(to_master));
}

Test(worker_left, another_front_adopts_it_as_what_it_is)
{
    struct convoy_channel_size found;
    char backend[CONVOY_BACKEND_BYTES];
    exits(1, &first);
    until(&gone, 1, "its exit is not told");
    convoy_worker_spares_end(&process.spares);
    cr_assert(receive(CONVOY_PACKET_KILL, 2));
    tell_worker(7, "ending 0 of=*");
    tell_worker(8, "ending 1 of=*");
    cr_assert_null(convoy_worker_label_find(to_master, &process.settings, "auto", &found, backend));
    convoy_worker_left_adopt(&process.left, to_master, &process.settings, on_left_gone, NULL);
    cr_assert(process.left.exists && process.left.pid == first.pid);
    convoy_link_kill_rest(to_master);
    cr_assert(receive(CONVOY_PACKET_KILL, 7), "one of another device is taken for its own");
    cr_assert_eq(convoy_packet_tell(master, CONVOY_PACKET_EXITED, 8, SIGKILL), 0);
    until(&left_gone, 1, "its end is not told");
    end_all(0, NULL);
}
