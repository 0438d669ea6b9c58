#include "server/http/half_closed.h"

#include "server/config/config.h"
#include "server/http/http_state.h"
#include "server/http/request.h"
#include "server/http/socket_send.h"

#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

bool convoy_half_closed(const struct convoy_request *request)
{
    struct pollfd client = {.fd = request->connection->fd, .events = POLLRDHUP};

    return request->http->options.config->http.half_close && poll(&client, 1, 0) > 0 &&
           client.revents == POLLRDHUP;
}

static enum MHD_Result print_header(void *context, enum MHD_ValueKind kind, const char *name,
                                    const char *value)
{
    FILE *text = context;

    (void)kind;
    if (strcasecmp(name, MHD_HTTP_HEADER_CONNECTION) != 0)
        fprintf(text, "%s: %s\r\n", name, value);
    return MHD_YES;
}

bool convoy_half_closed_answer(struct convoy_request *request, int status, struct MHD_Response *response,
                               const char *body, size_t length)
{
    char *header = NULL, date[40];
    size_t header_length = 0;
    struct tm utc;
    time_t now = time(NULL);
    FILE *text = open_memstream(&header, &header_length);

    if (text == NULL)
        return false;
    strftime(date, sizeof date, "%a, %d %b %Y %T GMT", gmtime_r(&now, &utc)); /* the locale is "C" */
    fprintf(text, "HTTP/1.1 %d %s\r\nDate: %s\r\n", status, MHD_get_reason_phrase_for((unsigned)status),
            date);
    MHD_get_response_headers(response, print_header, text);
    fprintf(text, "Connection: close\r\nContent-Length: %zu\r\n\r\n", length);
    bool written = !ferror(text);
    written = fclose(text) == 0 && written;
    if (strcmp(request->method, MHD_HTTP_METHOD_HEAD) == 0)
        length = 0;
    struct convoy_unsent *unsent = written ? malloc(sizeof *unsent + header_length + length) : NULL;
    if (unsent != NULL) {
        *unsent = (struct convoy_unsent){.request = request, .length = header_length + length};
        convoy_list_init(&unsent->link);
        memcpy(unsent->bytes, header, header_length);
        if (length > 0)
            memcpy(unsent->bytes + header_length, body, length);
        request->unsent = unsent;
    }
    free(header);
    return unsent != NULL;
}

bool convoy_half_closed_send(struct convoy_unsent *unsent)
{
    while (unsent->sent < unsent->length) {
        ssize_t sent = convoy_socket_send(unsent->request->http, unsent->request->connection,
                                          unsent->bytes + unsent->sent, unsent->length - unsent->sent);
        if (sent < 0)
            return errno != EAGAIN && errno != EINTR;
        unsent->sent += (size_t)sent;
    }
    return true;
}
