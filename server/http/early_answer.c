#include "server/http/early_answer.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

/* TCP_ESTABLISHED of netinet/tcp.h, which cannot stand beside linux/tcp.h. */
#define ESTABLISHED 1

uint64_t convoy_early_answer(int fd, int status, const char *sentence)
{
    char text[512];
    int body = snprintf(NULL, 0, "{\"error\":\"%s\"}\n", sentence);
    int length =
        snprintf(text, sizeof text,
                 "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
                 "Connection: close\r\n\r\n{\"error\":\"%s\"}\n",
                 status, status == 414 ? "URI Too Long" : "Request Header Fields Too Large", body, sentence);

    if (length > 0 && (size_t)length < sizeof text) {
        ssize_t sent = send(fd, text, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL);
        (void)sent;
    }
    return (uint64_t)body;
}

bool convoy_early_answer_awaited(int fd)
{
    struct tcp_info info;
    socklen_t size = sizeof info;

    memset(&info, 0, sizeof info);
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
           size >= offsetof(struct tcp_info, tcpi_bytes_sent) + sizeof info.tcpi_bytes_sent &&
           info.tcpi_state == ESTABLISHED && info.tcpi_bytes_sent == 0;
}
