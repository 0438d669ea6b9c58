/* Spares, with this test as the master. */
#include "server/workers/worker_spare.h"
#include "server/master/packet.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FIRST_PID 1000

static char *const as_worker[] = {"convoy-worker", "--device", "0", NULL};
static char *const otherwise[] = {"convoy-worker", "--device", "1", NULL};

static struct convoy_link *to_master;
static int master; /* the other end of the link */
static int memory[2];
static struct convoy_worker_spares spares;
static struct convoy_packet packet; /* the last that the master got, whose descriptors it holds */
static int ended;                   /* ends that exited() heard of */

static void begin(void)
{
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    cr_assert_eq(pipe(memory), 0);
    cr_assert_not_null(to_master = convoy_link_new(pair[0]));
    master = pair[1];
    memset(&spares, 0, sizeof spares);
    memset(&packet, 0, sizeof packet);
    ended = 0;
}

static void end(void)
{
    convoy_worker_spares_end(&spares);
    convoy_link_free(to_master);
    convoy_packet_close(&packet);
    close(master);
    close(memory[0]);
    close(memory[1]);
}
TestSuite(worker_spare, .init = begin, .fini = end);

/* The link numbers what it starts from 1 on. code: how the master answers; 0: with a pid. */
static void start(uint32_t wanted, uint32_t first, int code)
{
    spares.wanted = wanted;
    for (uint32_t i = 0; i < wanted; i++)
        cr_assert_eq(convoy_packet_tell(master, CONVOY_PACKET_STARTED, first + i,
                                        code != 0 ? code : (int)(FIRST_PID + first + i)),
                     0);
    convoy_worker_spares_start(&spares, to_master, as_worker, memory[0]);
}

static void receive(enum convoy_packet_type type, uint32_t number)
{
    convoy_packet_close(&packet);
    cr_assert_eq(convoy_packet_receive(master, &packet), 1);
    cr_assert(packet.type == type && packet.number == number, "a packet %u of %u, not %u of %u", packet.type,
              packet.number, (unsigned)type, number);
}

static void exits(uint32_t number)
{
    cr_assert_eq(convoy_packet_tell(master, CONVOY_PACKET_EXITED, number, 3 << 8), 0);
    cr_assert(convoy_link_dispatch(to_master));
}

static void on_exited(void *context, int status)
{
    (void)context, (void)status;
    ended++;
}

static bool take(char *const *arguments, struct convoy_link_worker *taken)
{
    return convoy_worker_spares_take(&spares, arguments, on_exited, NULL, taken);
}

static void close_taken(const struct convoy_link_worker *taken)
{
    close(taken->control);
    close(taken->doorbell);
}

Test(worker_spare, the_oldest_is_taken_and_its_end_is_the_takers_to_hear)
{
    struct convoy_link_worker taken;
    start(2, 1, 0);
    receive(CONVOY_PACKET_START, 1);
    cr_assert_str_eq(packet.text, "spare", "a label that a front could adopt");
    receive(CONVOY_PACKET_START, 2);
    cr_assert(!convoy_worker_spares_due(&spares));
    cr_assert(take(as_worker, &taken));
    cr_assert(taken.number == 1 && taken.pid == FIRST_PID + 1);
    cr_assert(convoy_worker_spares_due(&spares), "none follows the one that was taken");
    exits(1);
    cr_assert_eq(ended, 1);
    close_taken(&taken);
    cr_assert(take(as_worker, &taken));
    cr_assert(taken.number == 2 && taken.pid == FIRST_PID + 2);
    close_taken(&taken);
    cr_assert(!take(as_worker, &taken));
}

Test(worker_spare, one_that_was_started_otherwise_is_ended)
{
    struct convoy_link_worker taken;
    start(1, 1, 0);
    receive(CONVOY_PACKET_START, 1);
    int control = dup(packet.fds[0]), copy = dup(packet.fds[3]);
    char byte;
    cr_assert(!take(otherwise, &taken));
    cr_assert_eq(recv(control, &byte, 1, MSG_DONTWAIT), 0, "its socket is open");
    receive(CONVOY_PACKET_KILL, 1);
    exits(1);
    cr_assert_eq(ended, 0);
    close(control);
    close(copy);
}

Test(worker_spare, after_one_that_ends_none_is_started_at_once)
{
    struct convoy_link_worker taken;
    start(1, 1, 0);
    exits(1);
    cr_assert_eq(ended, 0);
    cr_assert(!take(as_worker, &taken));
    cr_assert(!convoy_worker_spares_due(&spares));
    cr_assert_eq(spares.each[0].failures, 1);
    spares.each[0].next_us = 0;
    start(1, 2, 0);
    exits(2);
    cr_assert_geq(spares.each[0].next_us - spares.each[0].started_us, 2 * 5000000u,
                  "the rest is not doubled");
    /* One that lived for long was no failed start. */
    spares.each[0].next_us = 0;
    start(1, 3, 0);
    spares.each[0].started_us -= 120 * UINT64_C(1000000);
    exits(3);
    cr_assert_eq(spares.each[0].failures, 1);
}

/* Closes the descriptors of the packet but for `kept`, whose other end must be closed then. */
static void assert_closed(int kept)
{
    char byte;
    for (uint32_t i = 0; i < packet.fd_count; i++) {
        if ((int)i == kept)
            continue;
        close(packet.fds[i]);
        packet.fds[i] = -1;
    }
    cr_assert_eq(recv(packet.fds[kept], &byte, 1, MSG_DONTWAIT), 0, "the other end of %d is open", kept);
}

Test(worker_spare, one_that_cannot_be_started_leaves_nothing_open)
{
    /* The worker's control socket, memory and doorbell, then the front's control socket and doorbell. */
    static const int sockets[] = {0, 2, 3, 4};
    for (uint32_t i = 0; i < sizeof(sockets) / sizeof(sockets[0]); i++) {
        spares.each[0].next_us = 0;
        start(1, i + 1, -EAGAIN);
        cr_assert(!spares.each[0].exists);
        cr_assert(!convoy_worker_spares_due(&spares));
        if (i > 0)
            receive(CONVOY_PACKET_KILL, i); /* an answer that comes too late */
        receive(CONVOY_PACKET_START, i + 1);
        assert_closed(sockets[i]);
    }
}
