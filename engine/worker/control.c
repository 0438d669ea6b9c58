#include "engine/worker/control.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define LINE_MOST (1u << 20) /* a LOAD with its path stays far below */

void convoy_control_open(struct convoy_control *control, int fd)
{
    memset(control, 0, sizeof *control);
    control->fd = fd;
    convoy_line_reader_begin(&control->lines, LINE_MOST);
    pthread_mutex_init(&control->send_lock, NULL);
}

static void send_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t sent = send(fd, bytes, length, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno == EAGAIN) {
            struct pollfd writable = {.fd = fd, .events = POLLOUT};
            poll(&writable, 1, -1);
            continue;
        }
        if (sent < 0)
            return;
        bytes += sent;
        length -= (size_t)sent;
    }
}

void convoy_control_send(struct convoy_control *control, cJSON *message)
{
    char *text = message != NULL ? cJSON_PrintUnformatted(message) : NULL;
    cJSON_Delete(message);
    if (text == NULL)
        return;
    size_t length = strlen(text);
    text[length] = '\n'; /* in place of the terminator: one send, so that lines of two threads never mix */
    pthread_mutex_lock(&control->send_lock);
    send_all(control->fd, text, length + 1);
    pthread_mutex_unlock(&control->send_lock);
    cJSON_free(text);
}

void convoy_control_cut(struct convoy_control *control)
{
    pthread_mutex_lock(&control->send_lock);
    send_all(control->fd, CONVOY_LINE_CUT, sizeof CONVOY_LINE_CUT - 1);
    pthread_mutex_unlock(&control->send_lock);
}

void convoy_control_log(struct convoy_control *control, const char *level, const char *format, ...)
{
    char text[CONVOY_ERROR_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    cJSON *message = cJSON_CreateObject();
    cJSON_AddStringToObject(message, "type", "log");
    cJSON_AddStringToObject(message, "level", level);
    cJSON_AddStringToObject(message, "message", text);
    convoy_control_send(control, message);
}

void convoy_control_receive(struct convoy_control *control, void (*handle)(void *, cJSON *), void *context)
{
    while (!control->closed) {
        cJSON *message;
        ssize_t got = convoy_line_reader_receive(&control->lines, control->fd, MSG_DONTWAIT);
        if (got == -EAGAIN)
            return;
        int code = 0;
        while (got > 0 && (code = convoy_line_reader_next(&control->lines, &message, NULL)) > 0)
            handle(context, message);
        control->closed = got <= 0 || code < 0;
    }
}
