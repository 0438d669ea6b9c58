#include "engine/worker/control.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define RECEIVE_STEP 4096u
#define LINE_LIMIT   (1u << 20) /* a LOAD with its path stays far below */

void convoy_control_open(struct convoy_control *control, int fd)
{
    memset(control, 0, sizeof *control);
    control->fd = fd;
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

/* Hands over every whole line and keeps the rest. */
static void take_lines(struct convoy_control *control, void (*handle)(void *, cJSON *), void *context)
{
    char *start = control->received;
    char *end = control->received + control->received_bytes;
    for (;;) {
        char *newline = memchr(start, '\n', (size_t)(end - start));
        if (newline == NULL)
            break;
        cJSON *message = cJSON_ParseWithLength(start, (size_t)(newline - start));
        if (message != NULL)
            handle(context, message);
        else
            control->closed = true;
        start = newline + 1;
    }
    control->received_bytes = (size_t)(end - start);
    memmove(control->received, start, control->received_bytes);
}

void convoy_control_receive(struct convoy_control *control, void (*handle)(void *, cJSON *), void *context)
{
    while (!control->closed) {
        if (control->received_capacity - control->received_bytes < RECEIVE_STEP) {
            size_t capacity = control->received_capacity * 2 + RECEIVE_STEP;
            char *bigger = capacity <= LINE_LIMIT * 2u ? realloc(control->received, capacity) : NULL;
            if (bigger == NULL) {
                control->closed = true;
                return;
            }
            control->received = bigger;
            control->received_capacity = capacity;
        }
        ssize_t got = recv(control->fd, control->received + control->received_bytes,
                           control->received_capacity - control->received_bytes, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return;
        if (got <= 0) {
            control->closed = true;
            return;
        }
        control->received_bytes += (size_t)got;
        take_lines(control, handle, context);
    }
}
