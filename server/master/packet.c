#include "server/master/packet.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* What is in front of the text. */
struct head {
    uint32_t type, number;
    int32_t value;
};

union control {
    char bytes[CMSG_SPACE(CONVOY_PACKET_FDS * sizeof(int))];
    struct cmsghdr alignment;
};

int convoy_packet_send(int socket, const struct convoy_packet *packet)
{
    struct head head = {packet->type, packet->number, packet->value};
    struct iovec parts[] = {{&head, sizeof head}, {(void *)(uintptr_t)packet->text, packet->length}};
    union control control = {0};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (packet->length > CONVOY_PACKET_TEXT || packet->fd_count > CONVOY_PACKET_FDS)
        return -EMSGSIZE;
    if (packet->fd_count > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(packet->fd_count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(packet->fd_count * sizeof(int));
        memcpy(CMSG_DATA(rights), packet->fds, packet->fd_count * sizeof(int));
    }
    ssize_t sent;
    do
        sent = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent >= 0 ? 0 : -errno;
}

int convoy_packet_send_within(int socket, const struct convoy_packet *packet, int limit_ms)
{
    int code;
    while ((code = convoy_packet_send(socket, packet)) == -EAGAIN) {
        struct pollfd room = {.fd = socket, .events = POLLOUT};
        int ready = poll(&room, 1, limit_ms);
        if (ready == 0 || (ready < 0 && errno != EINTR))
            return -ETIMEDOUT;
    }
    return code;
}

int convoy_packet_tell(int socket, enum convoy_packet_type type, uint32_t number, int32_t value)
{
    struct head head = {type, number, value};
    ssize_t sent;
    do
        sent = send(socket, &head, sizeof head, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent >= 0 ? 0 : -errno;
}

static void take_descriptors(struct msghdr *message, struct convoy_packet *packet)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part != NULL; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        packet->fd_count = (uint32_t)((part->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(packet->fds, CMSG_DATA(part), packet->fd_count * sizeof(int));
    }
}

int convoy_packet_receive(int socket, struct convoy_packet *packet)
{
    struct head head;
    struct iovec parts[] = {{&head, sizeof head}, {packet->text, CONVOY_PACKET_TEXT}};
    union control control;
    struct msghdr message = {.msg_iov = parts,
                             .msg_iovlen = 2,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    ssize_t got;
    do
        got = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return errno == ECONNRESET ? 0 : -errno; /* reset: it ended before it read everything */
    if (got == 0)
        return 0;
    packet->fd_count = 0;
    take_descriptors(&message, packet);
    if ((size_t)got < sizeof head || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) {
        convoy_packet_close(packet);
        return -EPROTO;
    }
    packet->type = head.type;
    packet->number = head.number;
    packet->value = head.value;
    packet->length = (uint32_t)((size_t)got - sizeof head);
    packet->text[packet->length] = '\0';
    return 1;
}

void convoy_packet_close(struct convoy_packet *packet)
{
    for (uint32_t i = 0; i < packet->fd_count; i++)
        if (packet->fds[i] >= 0)
            close(packet->fds[i]);
    packet->fd_count = 0;
}
