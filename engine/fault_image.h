/* How tests pick the job that goes wrong: an 8-bit image whose first pixel has a certain colour. */
#ifndef CONVOY_ENGINE_FAULT_IMAGE_H
#define CONVOY_ENGINE_FAULT_IMAGE_H

#include "engine/backend.h"

static inline bool convoy_job_has_pixel(const struct convoy_job *job, const unsigned pixel[3])
{
    if (job->layout != CONVOY_LAYOUT_U8_HWC)
        return false;
    for (uint32_t row = 0; row < job->rows; row++) {
        const uint8_t *first = (const uint8_t *)job->input + row * job->input_stride;
        if (first[0] == pixel[0] && first[1] == pixel[1] && first[2] == pixel[2])
            return true;
    }
    return false;
}

#endif
