/* Parses the text of GET /metrics: the Prometheus text exposition format, version 0.0.4
 * (https://prometheus.io/docs/instrumenting/exposition_formats/). The text is not trusted. Pure functions,
 * any thread. */
#ifndef CONVOY_CLIENT_EXPOSITION_H
#define CONVOY_CLIENT_EXPOSITION_H

#include "client/lib/convoy.h"

/* A text above these limits is not a convoyd's: with 1,024 models there are about 200,000 samples of 100
 * bytes. */
#define CLIENT_EXPOSITION_SAMPLES 500000
#define CLIENT_EXPOSITION_BYTES   ((size_t)64 << 20)

struct client_label {
    const char *name;
    const char *value; /* without its escapes */
};

struct client_sample {
    const char *name;
    double value; /* may be NaN or infinite */
    const struct client_label *labels;
    size_t label_count;
};

struct client_exposition {
    struct client_sample *samples; /* in the text's order */
    size_t count;
    size_t skipped; /* lines that are neither samples, comments nor empty */
    char *own_text; /* contains the names and values */
    struct client_label *own_labels;
};

/* Parses size bytes of text. A malformed line is skipped and counted, and so is a last line without a
 * newline: it was truncated, and a truncated number is wrong. Call client_exposition_clear also after an
 * error. Returns 0, -EPROTO when the text exceeds a limit, -ENOMEM. */
int client_exposition_read(const char *text, size_t size, struct client_exposition *exposition,
                           struct convoy_failure *failure);

/* Returns the label's value; "" when the sample has no such label (Prometheus treats both alike). */
const char *client_sample_label(const struct client_sample *sample, const char *name);

void client_exposition_clear(struct client_exposition *exposition);

#endif
