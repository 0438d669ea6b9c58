/* Room in device memory for the rows of one job. A task has it from when a state takes the task until it is
 * released; there are more rooms than states, so that a state goes on while rows wait for a network. The
 * compute thread makes, grows and frees rooms; a room's holder alone begins with it. Inside
 * engine/cuda/decode/ only. */
#ifndef CONVOY_ENGINE_CUDA_JPEG_ROOM_H
#define CONVOY_ENGINE_CUDA_JPEG_ROOM_H

#include "engine/base/error.h"

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

struct convoy_jpeg_room {
    uint8_t *images;
    /* Larger memory, which takes the place of images when the next task begins: made while a task may have
     * the room, under the decoder's lock. swap: the holder's own, of the task that begins. */
    uint8_t *wanted, *swap;
    size_t bytes;      /* of the largest of them; changed under the decoder's lock */
    cudaEvent_t taken; /* on another stream, behind what reads the images */
    bool was_taken;
    bool held;         /* by a task; under the decoder's lock, as what follows */
    uint64_t released; /* the greater, the later */
};

/* room is all zero before; free it also after a failure. 0 or as convoy_cuda_check(). */
int convoy_jpeg_room_make(struct convoy_jpeg_room *room, struct convoy_error *error);
void convoy_jpeg_room_free(struct convoy_jpeg_room *room);

/* Makes it hold so many bytes for later tasks. Under the decoder's lock; a task may have it. 0, -ENOMEM or
 * -EIO. */
int convoy_jpeg_room_reserve(struct convoy_jpeg_room *room, size_t bytes, struct convoy_error *error);

/* A task takes the room. Under the decoder's lock. */
void convoy_jpeg_room_take(struct convoy_jpeg_room *room);
/* By who took it, before the first row is written: memory that was made larger is exchanged, when what read
 * the former has ended. 0 or -EIO. */
int convoy_jpeg_room_begin(struct convoy_jpeg_room *room, struct convoy_error *error);
/* What is put into the stream from now on finds the images read by the network that had them before. 0 or
 * -EIO. */
int convoy_jpeg_room_wait(struct convoy_jpeg_room *room, cudaStream_t stream, struct convoy_error *error);

#endif
