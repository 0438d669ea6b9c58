/* A job of JPEG files on its way through a decoder. */
#ifndef CONVOY_ENGINE_CUDA_JPEG_TASK_H
#define CONVOY_ENGINE_CUDA_JPEG_TASK_H

#include "engine/base/error.h"
#include "engine/base/jpeg_row.h"

#include <stdatomic.h>

struct convoy_jpeg_room;

/* Files in, rows out. The caller owns it, and what it points to, until it is released. */
struct convoy_jpeg_task {
    /* set by the caller */
    const void *input; /* as struct convoy_job has them */
    size_t input_bytes;
    uint32_t rows;
    const struct convoy_image_fitting *fitting; /* of the network */
    size_t image_bytes;                         /* from row to row of the result */
    bool wakes;                                 /* convoy_jpeg_decoder_wait() is called for it */
    /* set when it has ended */
    int code;                                      /* 0, or a negative errno: the device is lost */
    struct convoy_error error;                     /* then */
    const uint8_t *images;                         /* in device memory, valid until it is released */
    uint64_t undecoded[CONVOY_JPEG_ROWS_MAX / 64]; /* a bit for each row, as in convoy_job_times */
    float decode_us;
    /* the decoder's */
    struct convoy_jpeg_task *next;
    struct convoy_jpeg_room *room;
    atomic_bool ended;
};

#endif
