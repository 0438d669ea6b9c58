/* One inference request: its samples on their way through decoder and batcher and back.
 *
 * Life: made on the HTTP thread when the body is complete and admitted (admission.h). Samples are decoded
 * there or in the decode pool. Each goes to the batcher unless the response cache has its outputs; the
 * batcher calls done() on the control loop. Two counts keep the request together: left: samples that are not
 * done, and one for the HTTP thread until the connection is suspended. The thread that brings it to 0 resumes
 * the connection, so a connection is never resumed before it is suspended. refs: one for the HTTP side, one
 * for each sample that is not done, and one for each thread of the pool that works on them. The thread that
 * brings it to 0 frees, so the memory of a request that was given up (a stop) stays while the batcher uses
 * it. */
#ifndef CONVOY_SERVER_INFERENCE_REQUEST_H
#define CONVOY_SERVER_INFERENCE_REQUEST_H

#include "engine/base/error.h"
#include "engine/base/input_layout.h"
#include "server/batching/batcher.h"
#include "server/http/suspension.h"
#include "server/inference/decode_pool.h"
#include "server/inference/pipeline.h"
#include "server/inference/prediction.h"
#include "server/inference/sample.h"
#include "server/models/model.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct convoy_inference_request {
    const struct convoy_pipeline *pipeline;
    struct convoy_suspension suspension;
    _Atomic uint32_t left, refs;
    atomic_bool abandoned;          /* the client is gone: what has not begun is not done */
    struct convoy_item_group group; /* of the samples' items */

    struct convoy_decode_job job; /* when the pool decodes */
    uint32_t run;                 /* samples of each of its parts */

    struct convoy_model_view view;
    enum convoy_input_layout layout; /* of the samples as the client sent them */
    uint8_t *body;                   /* taken over from the HTTP request: parts of samples point into it */
    size_t body_capacity;            /* of body, as counted in body_quota.h */
    size_t answer_bytes;             /* of outputs and answer, as counted there until the answer is out */
    void *tensor; /* buffer_pool.h: samples that were converted on their way; NULL when there are none */
    uint64_t deadline_us;
    enum convoy_priority priority;
    struct convoy_prediction_rule rule; /* /classify: which classes to name */
    bool profile;
    uint32_t map; /* /classify: as struct convoy_slot's; with one, convoy_class_map_give() is due */
    bool whole;   /* no image is decoded in a part of its size */
    enum convoy_image_decoder decoder; /* images.decoder, or what the request asks for */
    uint32_t files;                    /* samples that were handed to the batcher as files at once */
    bool alone;                        /* /classify: the body was an image, not a form */
    uint32_t count;
    float *outputs; /* count times outputs_per_row */
    struct convoy_sample samples[];
};

/* Memory for count samples of view's model; what view holds is taken over (also on failure, NULL). refs is 1,
 * left is count + 1. */
struct convoy_inference_request *convoy_inference_request_new(struct convoy_model_view *view, uint32_t count);
/* Gives back one reference. */
void convoy_inference_request_drop(struct convoy_inference_request *inference);

/* Decodes and hands over all samples, which the batcher has admitted, and suspends the connection when some
 * are not done then. Returns true when all are done: the caller answers now. On the HTTP thread. */
bool convoy_inference_request_run(struct convoy_inference_request *inference);

/* True once all samples are done. */
bool convoy_inference_request_complete(struct convoy_inference_request *inference);

/* Inserts into the response cache the outputs that it lacked and that a worker computed at the first try. On
 * the HTTP thread, once the request is complete and before the answer, so that a client that has read an
 * answer and asks again is answered from the cache. Not from done(), so that the control loop waits for no
 * lock of the cache. */
void convoy_inference_request_cache(struct convoy_inference_request *inference);

/* Status and sentence of sample i: 200 with NULL, or an error. The sentence lives as long as inference. */
int convoy_inference_request_outcome(const struct convoy_inference_request *inference, uint32_t i,
                                     const char **sentence);

/* Who decoded sample i, "cpu" or "gpu"; NULL where it was no image file. */
const char *convoy_inference_request_decoder(const struct convoy_inference_request *inference, uint32_t i);
/* Counts the images that were decoded, by decoder. Once, before the answer. */
void convoy_inference_request_count_decoded(const struct convoy_inference_request *inference);

/* Over the samples that were computed: the greatest time of each stage. */
struct convoy_inference_summary {
    uint64_t queue_us;
    float input_us, compute_us, output_us;
    uint32_t retries;
    uint32_t cached;                /* samples that the response cache answered */
    const struct convoy_item *last; /* of the batch that finished last; one from the response cache when all
                                       are from there; NULL when there is none */
};
void convoy_inference_request_summarise(const struct convoy_inference_request *inference,
                                        struct convoy_inference_summary *summary);

/* Of total_us, from the body's last byte until now, the time in which the request was neither decoded nor
 * with the batcher, by the sample that was done last: it waited for a decoder, for a model to be activated,
 * or for its HTTP thread. */
uint64_t convoy_inference_request_wait_us(const struct convoy_inference_request *inference,
                                          uint64_t total_us);

/* The sum over the samples; what a device decodes is in input_us of its batch. */
uint64_t convoy_inference_request_decode_us(const struct convoy_inference_request *inference);

#endif
