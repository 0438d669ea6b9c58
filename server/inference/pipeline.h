/* What the images and tensors of all requests pass on their way to a worker and back. One of it for the
 * daemon, made at the start (server/api/app.h). */
#ifndef CONVOY_SERVER_PIPELINE_H
#define CONVOY_SERVER_PIPELINE_H

#include "server/config/config.h"

#include <stdint.h>

struct convoy_batcher;
struct convoy_decode_pool;
struct convoy_response_cache;

struct convoy_pipeline {
    struct convoy_decode_pool *decode_pool;
    struct convoy_response_cache *response_cache; /* NULL: off */
    struct convoy_batcher *batcher;
    uint64_t max_pixels;               /* of an image, as images.max_pixels allows */
    enum convoy_scaling scaling;       /* images.scaled_decoding */
    enum convoy_image_decoder decoder; /* images.decoder */
};

#endif
