/* The rows of one request, an image each, on their way through decoder, batcher and back.
 *
 * Life: made on the HTTP thread when the body is complete and admitted (admission.h); rows are decoded there
 * or in the decode pool, each goes to the batcher unless the response cache has its outputs, done() comes on
 * the control loop. Two counts keep it
 * together:
 *   left: rows whose fate is open, and one for the HTTP thread until the connection is suspended. Whoever
 *         brings it to 0 resumes the connection, so a resumption never comes before its suspension.
 *   refs: one for the HTTP side, one for each row whose fate is open, and one for each thread of the pool
 * while it works on them. Whoever brings it to 0 frees, so a request that was given up (a stop) does not pull
 * the memory away under the batcher. */
#ifndef CONVOY_SERVER_ROWS_H
#define CONVOY_SERVER_ROWS_H

#include "engine/base/error.h"
#include "server/batching/batcher.h"
#include "server/http/multipart.h"
#include "server/http/suspension.h"
#include "server/inference/decode_pool.h"
#include "server/inference/pipeline.h"
#include "server/inference/response_cache.h"
#include "server/models/model.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What a row's bytes are, of C x H x W elements. */
enum convoy_row_source {
    CONVOY_ROW_ENCODED, /* a JPEG or PNG file of any size */
    CONVOY_ROW_U8_HWC,  /* pixels, interleaved */
    CONVOY_ROW_U8_CHW,  /* pixels, a plane after the other */
    CONVOY_ROW_F32_CHW  /* the network's own input, little-endian, at any address */
};

struct convoy_row {
    struct convoy_part part; /* within body or tensor */
    int status;              /* HTTP status of a row that never reached the batcher; 0: item tells */
    char *error;             /* its sentence, malloc'd; NULL when memory was out */
    uint64_t decode_us;
    bool cached;                      /* outputs are the response cache's, item is all 0 */
    struct convoy_response *response; /* what will be inserted; NULL when nothing will */
    struct convoy_item item;
};

struct convoy_rows {
    const struct convoy_pipeline *pipeline;
    struct convoy_suspension suspension;
    _Atomic uint32_t left, refs;

    struct convoy_decode_job job; /* when the pool decodes */

    struct convoy_model_view view;
    enum convoy_row_source source;
    uint8_t *body;        /* taken over from the request: rows that the pool still decodes point into it */
    size_t body_capacity; /* of body, as counted in body_memory.h */
    void *tensor;         /* malloc'd: rows that were converted on their way; NULL when there are none */
    uint64_t deadline_us;
    enum convoy_priority priority;
    uint32_t top; /* /classify: how many classes to name */
    bool profile;
    bool alone; /* /classify: the body was an image, not a form */
    uint32_t count;
    float *outputs; /* count times outputs_per_row */
    struct convoy_row row[];
};

/* Memory for count rows of view's model, which is taken over (also on failure, NULL). refs is 1, left is
 * count + 1. */
struct convoy_rows *convoy_rows_new(const struct convoy_model_view *view, uint32_t count);
void convoy_rows_drop(struct convoy_rows *rows);

/* Decodes and hands over all rows, which the batcher has admitted, and suspends the connection when answers
 * are not there yet. Returns true when they are: the caller answers now. On the HTTP thread. */
bool convoy_rows_run(struct convoy_rows *rows);

/* True once every row's fate is known. */
bool convoy_rows_complete(struct convoy_rows *rows);

/* Inserts into the response cache what its rows missed there and a worker computed well, at the first try. On
 * the HTTP thread, once they are complete and before the answer: whoever has read an answer and asks again
 * finds it. Not from done(), so that the control loop waits for no lock of the cache. */
void convoy_rows_remember(struct convoy_rows *rows);

/* Status and sentence of row i: 200 with NULL, or why not. The sentence lives as long as rows. */
int convoy_rows_outcome(const struct convoy_rows *rows, uint32_t i, const char **sentence);

/* Over the rows that were computed: of each stage the greatest. */
struct convoy_rows_summary {
    uint64_t queue_us;
    float input_us, compute_us, output_us;
    uint32_t retries;
    uint32_t cached;                /* how many the response cache answered */
    const struct convoy_item *last; /* of the batch that finished last; one from the response cache when all
                                       are, NULL when there is none */
};
void convoy_rows_summarise(const struct convoy_rows *rows, struct convoy_rows_summary *summary);

/* Sum over the rows. */
uint64_t convoy_rows_decode_us(const struct convoy_rows *rows);

#endif
