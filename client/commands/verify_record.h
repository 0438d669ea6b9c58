/* NAME/verify.json of a model's folder: what another program (ONNX Runtime, mostly) answered for an image
 * that lies beside it. models/from_pytorch.py writes it; docs/client.md describes it. A record may come from
 * strangers: everything in it is checked. Pure functions, any thread. */
#ifndef CONVOY_CLIENT_VERIFY_RECORD_H
#define CONVOY_CLIENT_VERIFY_RECORD_H

#include <cjson/cJSON.h>

#include "client/lib/convoy.h"

/* One output of the network for the image. */
struct client_verify_output {
    const char *name;
    double *values; /* count of them, finite */
    size_t count;   /* at least 1 */
};

/* A class with the probability that /classify has to give it. */
struct client_verify_class {
    const char *label; /* NULL: not recorded */
    long index;
    double probability;
};

struct client_verify_record {
    cJSON *document;                      /* owns the strings */
    const char *image;                    /* a file's name, in the record's folder */
    const char *input;                    /* the network's input */
    const char *version;                  /* of the model */
    double tolerance;                     /* of outputs: max|y - y'| / max|y'|, y' the recorded ones */
    double probability_tolerance;         /* of classes: |p - p'| */
    struct client_verify_output *outputs; /* output_count of them, at least 1 */
    size_t output_count;
    struct client_verify_class *classes; /* class_count of them, 0 to CLIENT_VERIFY_CLASSES */
    size_t class_count;
};

#define CLIENT_VERIFY_CLASSES 100

/* Reads the JSON text of size bytes. Returns 0, or -EINVAL or -ENOMEM with a message that names path. Call
 * client_verify_record_clear also after an error. */
int client_verify_record_read(const char *text, size_t size, const char *path,
                              struct client_verify_record *record, struct convoy_failure *failure);

void client_verify_record_clear(struct client_verify_record *record);

/* Where the daemon's outputs are farthest from the recorded ones. */
struct client_verify_difference {
    const char *output; /* belongs to the record */
    size_t element;
    double value, recorded;
    double relative; /* |value - recorded| / the output's max|y'| */
};

/* Compares with the document that POST /v2/models/NAME/infer answered. Returns 0 whatever the difference is,
 * or with a message -EDOM when an output is missing or has another size, -EPROTO when it is no list of
 * numbers. */
int client_verify_compare(const struct client_verify_record *record, const cJSON *answer,
                          struct client_verify_difference *worst, struct convoy_failure *failure);

#endif
