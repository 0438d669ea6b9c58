/* Shapes for the check of bottlenecks and inverted residuals. Part of the program convoy-kernels. */
#ifndef CONVOY_KERNELS_CHECK_BOTTLENECK_SHAPES_H
#define CONVOY_KERNELS_CHECK_BOTTLENECK_SHAPES_H

#include "kernels/bottleneck.h"
#include "kernels/check/check_operators.h"

#define CHECK_INVERTED         26 /* inverted residuals that are written, for the first cases */
#define CHECK_BOTTLENECK_CASES 2  /* that a bottleneck counts for: it is computed several times */

/* Of a layer's results. */
static inline int check_outputs_of(const struct convoy_bottleneck_shape *s, int layer)
{
    return layer == CONVOY_BOTTLENECK_LAYERS - 1 ? s->k : s->mid;
}

/* Of y. */
static inline int check_maps_of(const struct convoy_bottleneck_shape *s)
{
    return check_outputs_of(s, convoy_bottleneck_end(s) - 1);
}

/* The shape of case check->cases: a written one, then any. */
void check_bottleneck_shape(struct convoy_check *check, struct convoy_bottleneck_shape *shape,
                            bool depthwise);

#endif
