/* What the files of an inference request share.
 *
 * inference_request.c          its memory
 * inference_request_run.c      which thread does what, and what waits
 * inference_request_samples.c  samples that the front makes the bytes of
 * inference_request_files.c    files that a device decodes, and those that come back from it
 * inference_outcome.c          statuses and times */
#ifndef CONVOY_SERVER_INFERENCE_REQUEST_INTERNAL_H
#define CONVOY_SERVER_INFERENCE_REQUEST_INTERNAL_H

#include "server/inference/inference_request.h"

/* Samples that go to the batcher together, at most. */
#define CONVOY_RUN_MOST 1024u

static inline uint64_t convoy_inference_pixel_limit(const struct convoy_inference_request *inference)
{
    return inference->pipeline->max_pixels;
}

/* The fate of a sample is known. */
void convoy_inference_finish_sample(struct convoy_inference_request *inference);
/* The sample, which was admitted, will not go to the batcher. */
void convoy_inference_end_here(struct convoy_inference_request *inference);
/* The sample ends, because the client is gone before it was decoded. */
void convoy_inference_spare(struct convoy_inference_request *inference, struct convoy_sample *sample);
/* False, with the sample ended, once the daemon stops, or when the client is gone. */
bool convoy_inference_goes_on(struct convoy_inference_request *inference, struct convoy_sample *sample);

/* A new item for the sample, whose row has this layout. */
struct convoy_item *convoy_inference_make_item(struct convoy_inference_request *inference, uint32_t index,
                                               enum convoy_input_layout layout);
/* Copies the sample's outputs from the response cache; false when they are not there, or the cache does not
 * apply. */
bool convoy_inference_look_up(struct convoy_inference_request *inference, uint32_t index,
                              enum convoy_input_layout layout, const void *bytes, size_t length);

/* Decodes an image and hands its sample to the batcher. Any thread. False, with nothing done, when it has
 * more than max_pixels but not too many for the configuration. *took_us: the time of decoding, whether it
 * succeeded or not; 0 if it was not tried. */
bool convoy_inference_decode(struct convoy_inference_request *inference, uint32_t index, uint64_t max_pixels,
                             uint64_t *took_us);
/* Images that are decoded into one buffer: their rows are not too much memory together. */
uint32_t convoy_inference_decoded_run(const struct convoy_inference_request *inference);
/* Decodes those of a run of images that no device decodes, and hands their samples to the batcher together,
 * so that they take the rows of a slot at once. Any thread, which holds the request: all of them may be done
 * before it returns. Returns the time of decoding. */
uint64_t convoy_inference_decode_run(struct convoy_inference_request *inference, uint32_t first,
                                     uint32_t count);
/* Hands a run of samples that need no decoding, at most CONVOY_RUN_MOST, to the batcher together. As above.
 */
void convoy_inference_submit_raw(struct convoy_inference_request *inference, uint32_t first, uint32_t count);

/* Hands those of the samples that a device decodes to the batcher. As above. */
void convoy_inference_submit_files(struct convoy_inference_request *inference, uint32_t first,
                                   uint32_t count);
/* The done() of all items: counts the sample as done, unless its file has come back from the device: then the
 * decode pool gets it. On the control loop, or within a submit. */
void convoy_inference_sample_done(struct convoy_item *item);
/* Ends files that came back and whose decoding has not begun: their client is gone, or their deadline has
 * passed. On the HTTP thread. */
void convoy_inference_withdraw_files(struct convoy_inference_request *inference, bool gone);

#endif
