/* Reads the text of GET /metrics: the Prometheus text exposition format, version 0.0.4
 * (https://prometheus.io/docs/instrumenting/exposition_formats/). Nothing in it is trusted. Pure functions,
 * any thread. */
#ifndef CONVOY_CLIENT_EXPOSITION_H
#define CONVOY_CLIENT_EXPOSITION_H

#include "client/lib/convoy.h"

/* What has more is no convoyd's: with 1,024 models its text has some 200,000 samples, and 100 bytes of each.
 */
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
    char *own_text; /* what the names and values point into */
    struct client_label *own_labels;
};

/* Reads size bytes of text. A line that is not as it should be is passed over and counted, and so is a last
 * line without its newline: it was cut off, and half a number is a wrong one. Give exposition to
 * client_exposition_clear also after an error. 0, -EPROTO when there is too much of it, -ENOMEM. */
int client_exposition_read(const char *text, size_t size, struct client_exposition *exposition,
                           struct convoy_failure *failure);

/* The label's value, "" when the sample has no such label (which means the same to Prometheus). */
const char *client_sample_label(const struct client_sample *sample, const char *name);

void client_exposition_clear(struct client_exposition *exposition);

#endif
