/* To which side a picture is scaled before a network's input is cut out of its middle. */
#ifndef CONVOY_ENGINE_BASE_COVER_SIDE_H
#define CONVOY_ENGINE_BASE_COVER_SIDE_H

#include <math.h>
#include <stdint.h>

#define CONVOY_COVER_SIDE_MAX 65535u

/* side: of the network's input. resize_to, or where that is 0, side / crop_fraction rounded down, as timm
 * counts; never less than side. crop_fraction is above 0. */
static inline uint32_t convoy_cover_side(uint32_t resize_to, double crop_fraction, uint32_t side)
{
    double cover = resize_to > 0 ? resize_to : floor(side / crop_fraction);
    return cover < side ? side : cover > CONVOY_COVER_SIDE_MAX ? CONVOY_COVER_SIDE_MAX : (uint32_t)cover;
}

#endif
