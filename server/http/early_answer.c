#include "server/http/early_answer.h"

#include "server/http/socket_send.h"

#include <stdio.h>
#include <string.h>

uint64_t convoy_early_answer(const struct convoy_http *http, const struct convoy_connection *connection,
                             const char *sentence)
{
    /* By printf and not by the JSON writer: this must work where memory is out, and the sentence is a
     * literal. */
    char body[256], text[512];
    int bytes = snprintf(body, sizeof body, "{\"error\":\"%s\"}\n", sentence);
    int length =
        snprintf(text, sizeof text,
                 "HTTP/1.1 414 URI Too Long\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
                 "Connection: close\r\n\r\n%s",
                 bytes, body);

    if (length > 0 && (size_t)length < sizeof text) {
        ssize_t sent = convoy_socket_send(http, connection, text, (size_t)length);
        (void)sent;
    }
    return (uint64_t)bytes;
}
