/* Packets with text and descriptors, and an end that does not read or is gone. */
#include "server/master/packet.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct convoy_packet sent, got;
static int ends[2];

static void begin(void)
{
    memset(&sent, 0, sizeof sent);
    cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
}
TestSuite(packet, .init = begin);

Test(packet, text_and_descriptors_arrive)
{
    int pipe_ends[2];
    cr_assert_eq(pipe(pipe_ends), 0);
    memset(sent.text, 'x', CONVOY_PACKET_TEXT);
    sent.type = CONVOY_PACKET_START;
    sent.number = 7;
    sent.value = -3;
    sent.length = CONVOY_PACKET_TEXT;
    sent.fd_count = 2;
    sent.fds[0] = pipe_ends[0];
    sent.fds[1] = pipe_ends[1];
    cr_assert_eq(convoy_packet_send(ends[0], &sent), 0);
    cr_assert_eq(convoy_packet_tell(ends[0], CONVOY_PACKET_DROPPED, 1, 2), 0);
    cr_assert_eq(convoy_packet_receive(ends[1], &got), 1);
    cr_assert_eq(got.type, CONVOY_PACKET_START);
    cr_assert_eq(got.number, 7);
    cr_assert_eq(got.value, -3);
    cr_assert_eq(strlen(got.text), CONVOY_PACKET_TEXT);
    cr_assert_eq(got.fd_count, 2);
    cr_assert_eq(write(got.fds[1], "!", 1), 1);
    cr_assert_eq(read(pipe_ends[0], got.text, 1), 1);
    convoy_packet_close(&got);
    cr_assert_eq(convoy_packet_receive(ends[1], &got), 1);
    cr_assert_eq(got.type, CONVOY_PACKET_DROPPED);
    cr_assert_eq(got.length, 0);
    cr_assert_eq(got.fd_count, 0);
    cr_assert_eq(convoy_packet_receive(ends[1], &got), -EAGAIN);
}

Test(packet, an_end_that_does_not_read_is_not_waited_for)
{
    int code;
    for (int i = 0; (code = convoy_packet_tell(ends[0], CONVOY_PACKET_SIGNAL, 0, 1)) == 0; i++)
        cr_assert_lt(i, 100000);
    cr_assert_eq(code, -EAGAIN);
    cr_assert_eq(convoy_packet_send_within(ends[0], &sent, 10), -ETIMEDOUT);
    close(ends[1]);
    cr_assert_lt(convoy_packet_tell(ends[0], CONVOY_PACKET_SIGNAL, 0, 1), 0);
    cr_assert_eq(convoy_packet_receive(ends[0], &got), 0, "the other end is gone");
}

Test(packet, what_is_no_packet_is_refused)
{
    cr_assert_eq(send(ends[0], "short", 5, 0), 5);
    cr_assert_eq(convoy_packet_receive(ends[1], &got), -EPROTO);
    memset(sent.text, 'x', CONVOY_PACKET_TEXT);
    cr_assert_eq(send(ends[0], &sent, sizeof sent, 0), (ssize_t)sizeof sent);
    cr_assert_eq(convoy_packet_receive(ends[1], &got), -EPROTO, "it is too long");
    sent.length = CONVOY_PACKET_TEXT + 1;
    cr_assert_eq(convoy_packet_send(ends[0], &sent), -EMSGSIZE);
}
