/* The images of one request on their way through decoder, batcher and back.
 *
 * Life: made on the HTTP thread when the body is complete; its images are decoded there or in the decode
 * pool, each row goes to the batcher, done() comes on the control loop. Two counts keep it together: left:
 * images whose fate is open, and one for the HTTP thread until the connection is suspended. Whoever brings it
 *         to 0 resumes the connection, so a resumption never comes before its suspension.
 *   refs: one for the HTTP side and one for each image whose fate is open. Whoever brings it to 0 frees, so a
 * request that was given up (a stop) does not pull the memory away under the batcher. */
#ifndef CONVOY_SERVER_CLASSIFICATION_H
#define CONVOY_SERVER_CLASSIFICATION_H

#include "engine/base/error.h"
#include "server/batcher.h"
#include "server/decode_pool.h"
#include "server/model.h"
#include "server/multipart.h"
#include "server/text.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct MHD_Connection;
struct convoy_http;
struct convoy_request;

struct convoy_classify_image {
    struct convoy_part part; /* within the request's body */
    int status;              /* HTTP status of an image that never reached the batcher; 0: item tells */
    char *error;             /* its sentence, malloc'd; NULL when memory was out */
    uint64_t decode_us;
    struct convoy_item item;
};

struct convoy_classification {
    struct convoy_http *http;
    struct MHD_Connection *mhd;
    _Atomic uint32_t left, refs;
    atomic_bool resumed; /* someone resumes, or has resumed, the connection */
    /* In the list of the suspended, under its lock. */
    struct convoy_classification *next, *previous;

    struct convoy_decode_job job; /* when the pool decodes */

    struct convoy_model_view view;
    struct convoy_batcher *batcher;
    uint8_t *body;        /* taken over from the request: images that the pool still decodes point into it */
    size_t body_capacity; /* of body, as counted in body_memory.h */
    uint64_t deadline_us;
    uint32_t top;
    bool profile;
    bool alone; /* the body was an image, not a form */
    uint32_t count;
    float *outputs; /* count times outputs_per_row */
    struct convoy_classify_image images[];
};

/* Memory for count images of view's model, which is taken over (also on failure, NULL). refs is 1, left is
 * count + 1. */
struct convoy_classification *convoy_classification_new(const struct convoy_model_view *view, uint32_t count);
void convoy_classification_drop(struct convoy_classification *classification);

/* Decodes and hands over all images, which the batcher has admitted, and suspends the connection when answers
 * are not there yet. Returns true when they are: the caller answers now. On the HTTP thread. */
bool convoy_classification_run(struct convoy_classification *classification);

/* True once every image's fate is known. */
bool convoy_classification_complete(struct convoy_classification *classification);

/* Resumes all connections that are still suspended, for a stop; returns when none is. */
void convoy_classification_resume_all(struct convoy_http *http);

/* Status and sentence of image i: 200 with NULL, or why not. The sentence lives as long as the
 * classification. */
int convoy_classification_outcome(const struct convoy_classification *classification, uint32_t i,
                                  const char **sentence);

/* The status of the whole: 200 if any image was classified, else the first image's. */
int convoy_classification_status(const struct convoy_classification *classification);

/* Sum over the images. */
uint64_t convoy_classification_decode_us(const struct convoy_classification *classification);

/* The answer's JSON. complete_us: when the body's last byte had come. */
void convoy_classification_write(const struct convoy_classification *classification, uint64_t complete_us,
                                 struct convoy_text *text);

#endif
