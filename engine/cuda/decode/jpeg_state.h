/* One state of a decoder: what decodes one job at a time. Its thread alone calls convoy_jpeg_state_run(); the
 * other functions are for while that does not run. Inside engine/cuda/decode/ only. */
#ifndef CONVOY_ENGINE_CUDA_JPEG_STATE_H
#define CONVOY_ENGINE_CUDA_JPEG_STATE_H

#include "engine/cuda/decode/jpeg_room.h"
#include "engine/cuda/decode/jpeg_tables.h"
#include "engine/cuda/decode/jpeg_task.h"
#include "engine/cuda/decode/nvjpeg.h"
#include "kernels/fit_images.h"

/* Of decoded samples, for each state: a picture of 42 megapixels in 4:2:0, or of 21 in 4:4:4. Tests are
 * compiled with less. */
#ifndef CONVOY_JPEG_PLANES_BYTES
#define CONVOY_JPEG_PLANES_BYTES ((size_t)64 << 20)
#endif

/* What all states share; read by them all. */
struct convoy_jpeg_library {
    struct convoy_nvjpeg nvjpeg;
    convoy_nvjpeg_handle handle;
    int output; /* enum convoy_nvjpeg_output */
    bool takes_grey;
};

/* A file that is decoded in the round under way. */
struct convoy_jpeg_files {
    const unsigned char *data[CONVOY_JPEG_ROWS_MAX];
    size_t lengths[CONVOY_JPEG_ROWS_MAX];
    struct convoy_nvjpeg_image images[CONVOY_JPEG_ROWS_MAX];
    uint32_t rows[CONVOY_JPEG_ROWS_MAX]; /* of the job */
    uint32_t count;
};

struct convoy_jpeg_state {
    const struct convoy_jpeg_library *library;
    convoy_nvjpeg_state nvjpeg;
    uint32_t batch; /* that nvJPEG is initialized for; 0: none */
    cudaStream_t stream;
    cudaEvent_t done; /* what the thread waits for */
    uint8_t *planes;  /* in device memory, CONVOY_JPEG_PLANES_BYTES; the round's */
    size_t planes_used;
    struct convoy_fit_picture *pictures; /* pinned, one for each row of the job */
    struct convoy_fit_picture *device_pictures;
    uint32_t *unwritten; /* pinned, one for each row: its planes were not written to their end */
    uint32_t *device_unwritten;
    struct convoy_jpeg_tables tables;
    struct convoy_jpeg_files files;
};

/* Free it also after a failure. state is all zero before. 0, -ENOTSUP (nvJPEG
 * refuses), or as convoy_cuda_check(). */
int convoy_jpeg_state_make(struct convoy_jpeg_state *state, const struct convoy_jpeg_library *library,
                           struct convoy_error *error);
void convoy_jpeg_state_free(struct convoy_jpeg_state *state);

/* Decodes a job into the room that its task has, and waits for it; sets images, undecoded and decode_us of
 * task. Returns 0, or an error that loses the device. */
int convoy_jpeg_state_run(struct convoy_jpeg_state *state, struct convoy_jpeg_task *task,
                          struct convoy_error *error);

#endif
