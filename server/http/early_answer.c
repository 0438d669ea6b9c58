#include "server/http/early_answer.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

uint64_t convoy_early_answer(int fd, const char *sentence)
{
    char text[512];
    int body = snprintf(NULL, 0, "{\"error\":\"%s\"}\n", sentence);
    int length =
        snprintf(text, sizeof text,
                 "HTTP/1.1 414 URI Too Long\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
                 "Connection: close\r\n\r\n{\"error\":\"%s\"}\n",
                 body, sentence);

    if (length > 0 && (size_t)length < sizeof text) {
        ssize_t sent = send(fd, text, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL);
        (void)sent;
    }
    return (uint64_t)body;
}
