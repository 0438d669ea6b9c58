/* The library nvJPEG, opened at run time: libnvjpeg.so.13 is part of the CUDA Toolkit and may be absent. */
#ifndef CONVOY_ENGINE_CUDA_NVJPEG_H
#define CONVOY_ENGINE_CUDA_NVJPEG_H

#include "engine/base/error.h"
#include "engine/cuda/decode/nvjpeg_abi.h"

/* All zero: not open. */
struct convoy_nvjpeg {
    void *handle;
    convoy_nvjpeg_get_property get_property;
    convoy_nvjpeg_create create;
    convoy_nvjpeg_destroy destroy;
    convoy_nvjpeg_state_create state_create;
    convoy_nvjpeg_state_destroy state_destroy;
    convoy_nvjpeg_get_image_info get_image_info;
    convoy_nvjpeg_batch_initialize batch_initialize;
    convoy_nvjpeg_batch_decode batch_decode;
};

/* Looks where the dynamic loader looks, then in the folders of the CUDA Toolkit. -ENOENT: there is no such
 * library; -ENOSYS: it lacks a function. The sentence says what was missing. Any thread. */
int convoy_nvjpeg_open(struct convoy_nvjpeg *nvjpeg, struct convoy_error *error);
void convoy_nvjpeg_close(struct convoy_nvjpeg *nvjpeg);

/* A status in words. Static. */
const char *convoy_nvjpeg_status_text(int status);

#endif
