#include "engine/cuda/decode/jpeg_room.h"

#include "engine/cuda/runtime/calls.h"

#include <string.h>

int convoy_jpeg_room_make(struct convoy_jpeg_room *room, struct convoy_error *error)
{
    return CONVOY_CUDA_BESIDE(error, cudaEventCreateWithFlags, (&room->taken, cudaEventDisableTiming));
}

void convoy_jpeg_room_free(struct convoy_jpeg_room *room)
{
    struct convoy_error ignored;
    void *const memory[] = {room->images, room->wanted, room->swap};
    for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
        if (memory[i] != NULL)
            (void)CONVOY_CUDA_BESIDE(&ignored, cudaFree, (memory[i]));
    if (room->taken != NULL)
        (void)CONVOY_CUDA_BESIDE(&ignored, cudaEventDestroy, (room->taken));
    memset(room, 0, sizeof(*room));
}

int convoy_jpeg_room_reserve(struct convoy_jpeg_room *room, size_t bytes, struct convoy_error *error)
{
    struct convoy_error ignored;
    uint8_t *images = NULL;
    if (bytes <= room->bytes)
        return 0;
    int failed = CONVOY_CUDA_BESIDE(error, cudaMalloc, ((void **)&images, bytes));
    if (failed)
        return failed;
    if (room->wanted != NULL) /* no task came since */
        (void)CONVOY_CUDA_BESIDE(&ignored, cudaFree, (room->wanted));
    room->wanted = images;
    room->bytes = bytes;
    return 0;
}

void convoy_jpeg_room_take(struct convoy_jpeg_room *room)
{
    room->held = true;
    room->swap = room->wanted;
    room->wanted = NULL;
}

int convoy_jpeg_room_begin(struct convoy_jpeg_room *room, struct convoy_error *error)
{
    uint8_t *old = room->images;
    int failed = 0;
    if (room->swap == NULL)
        return 0;
    room->images = room->swap;
    room->swap = NULL;
    if (old == NULL)
        return 0;
    if (room->was_taken)
        failed = CONVOY_CUDA_BESIDE(error, cudaEventSynchronize, (room->taken));
    return failed ? failed : CONVOY_CUDA_BESIDE(error, cudaFree, (old));
}

int convoy_jpeg_room_wait(struct convoy_jpeg_room *room, cudaStream_t stream, struct convoy_error *error)
{
    if (!room->was_taken)
        return 0;
    return CONVOY_CUDA_BESIDE(error, cudaStreamWaitEvent, (stream, room->taken, 0));
}
