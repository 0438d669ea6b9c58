/* One sample of an inference request: an image file, pixels or a float tensor, on its way to the row of
 * numbers that a slot takes. */
#ifndef CONVOY_SERVER_SAMPLE_H
#define CONVOY_SERVER_SAMPLE_H

#include "engine/base/input_layout.h"
#include "server/batching/batcher.h"
#include "server/http/multipart.h"
#include "server/image/coverage.h"
#include "server/image/jpeg_header.h"
#include "server/inference/decode_pool.h"
#include "server/inference/response_cache.h"
#include "server/models/model.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What decoding a sample costs, by its image's header. */
struct convoy_sample_size {
    uint64_t pixels;
    uint64_t memory; /* bytes, at most; 0 where that and the pixels are few, which counts for nothing */
    struct convoy_jpeg_header file; /* of one that a device may decode; components 0: it is none */
};

#define CONVOY_DECODE_SMALL (1u << 20)
/* Bytes a pixel that decoding takes at most: see convoy_image_to_row(). */
#define CONVOY_DECODE_BYTES 12u
/* So many images of the greatest size may be decoded at a time. */
#define CONVOY_DECODE_LARGEST 8u

struct convoy_sample {
    struct convoy_part part; /* the bytes as the client sent them */
    int status;              /* HTTP status of a sample that never reached the batcher; 0: item tells */
    char *error;             /* its sentence, malloc'd; NULL when memory was out */
    struct convoy_sample_size size; /* convoy_sample_measure(), where measured */
    uint64_t decode_us;
    bool measured;
    bool file;                /* a device decodes it; unchanged once the request runs */
    bool undecoded;           /* the device gave the file back: the front decodes it */
    _Atomic bool waits_again; /* for that, in again */
    struct convoy_decode_job again;
    bool cached;                      /* the outputs are the response cache's, item is all 0 */
    struct convoy_response *response; /* what will be inserted there; NULL: nothing */
    struct convoy_item item;
};

/* What the samples of a request are, and what they become. Float32 values are little-endian, at any address.
 */
struct convoy_sample_input {
    enum convoy_input_layout layout; /* as the client sent them */
    const struct convoy_model_shape *shape;
    const struct convoy_resizing *resizing; /* how an image comes to the model's shape */
    uint64_t deadline_us;                   /* images are not decoded after it */
    uint64_t max_pixels;                    /* of an image, as the configuration allows */
    enum convoy_scaling scaling;            /* which images are decoded in a part of their size */
};

/* The layout in which a slot takes samples that a client sent in layout, and that the front decoded. */
static inline enum convoy_input_layout convoy_sample_slot_layout(enum convoy_input_layout layout)
{
    return layout == CONVOY_LAYOUT_F32_CHW ? CONVOY_LAYOUT_F32_CHW : CONVOY_LAYOUT_U8_HWC;
}

/* True if such samples are only copied or rearranged, not decoded. */
static inline bool convoy_sample_is_raw(enum convoy_input_layout layout)
{
    return layout != CONVOY_LAYOUT_ENCODED;
}

/* The *length bytes that a slot takes, within part, in room (as many bytes), or, where room is NULL, in the
 * calling thread's scratch memory (valid until its next call). NULL when the sample failed: its status and
 * error are then set. NULL with the sample unchanged when an image has more than max_pixels, but not more
 * than input->max_pixels. Any thread. */
const void *convoy_sample_bytes(const struct convoy_sample_input *input, struct convoy_sample *sample,
                                uint64_t max_pixels, uint8_t *room, size_t *length);

/* What decoding the sample costs, from its image's header unless it is measured: nothing for raw samples, and
 * where the image's header is bad or it has more than max_pixels. An estimate where there is no header in the
 * first 512 KiB. */
struct convoy_sample_size convoy_sample_measure(enum convoy_input_layout layout,
                                                const struct convoy_sample *sample, uint64_t max_pixels);

/* Files that are longer are not looked at as ones for a device: looking takes a tenth of a nanosecond a byte,
 * and copying it into a slot about as long, on an HTTP thread. */
#define CONVOY_SAMPLE_FILE_MOST (8u << 20)

/* Reads the header of a file that a device may decode; false where it is none. Reads the whole file once. */
bool convoy_sample_read_file(const struct convoy_sample *sample, struct convoy_jpeg_header *file);

/* Whether decoding takes memory of the pool's budget though its pixels may be few: a WebP without loss or
 * with alpha has tables. It is left to the pool. Reads no header of another format. */
bool convoy_sample_has_tables(enum convoy_input_layout layout, const struct convoy_sample *sample,
                              uint64_t max_pixels);

/* Which part of an image its row shows. False when the image's header cannot be read. */
bool convoy_sample_box(const struct convoy_sample_input *input, const struct convoy_sample *sample,
                       struct convoy_image_box *box);

/* The sample fails: its client is gone. */
void convoy_sample_gone(struct convoy_sample *sample);

/* The sample fails: its deadline passed before it was decoded. */
void convoy_sample_late(struct convoy_sample *sample);

/* Sets status, and error to a copy of sentence. */
void convoy_sample_fail(struct convoy_sample *sample, int status, const char *sentence);

#endif
