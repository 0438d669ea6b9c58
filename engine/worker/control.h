/* The worker's end of the control socket: JSON objects, one a line.
 *
 * Threads: send from any thread (lines never mix); receive from one. */
#ifndef CONVOY_ENGINE_WORKER_CONTROL_H
#define CONVOY_ENGINE_WORKER_CONTROL_H

#include "engine/ipc/line_reader.h"

#include <cjson/cJSON.h>
#include <pthread.h>
#include <stdbool.h>

struct convoy_control {
    int fd;
    pthread_mutex_t send_lock;
    struct convoy_line_reader lines; /* received */
    bool closed;
};

void convoy_control_open(struct convoy_control *control, int fd);

/* Sends message as one line and frees it. A front that is gone is noticed by receive, not here. */
void convoy_control_send(struct convoy_control *control, cJSON *message);

/* A log line, which the front writes in its own format. level: "debug", "info", "warning", "error". */
__attribute__((format(printf, 3, 4))) void convoy_control_log(struct convoy_control *control,
                                                              const char *level, const char *format, ...);

/* For a front that follows another one, which has perhaps read the beginning of a line (line_reader.h). */
void convoy_control_cut(struct convoy_control *control);

/* Reads what is there without waiting and calls handle for each whole message, which handle frees. Sets
 * control->closed when the front closed its end or sent a line that is not a JSON object. */
void convoy_control_receive(struct convoy_control *control, void (*handle)(void *context, cJSON *message),
                            void *context);

#endif
