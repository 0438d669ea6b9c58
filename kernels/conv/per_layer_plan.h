/* How per_layer's blocks cover a layer: chosen on the host for each shape, from a small model of the time. */
#ifndef CONVOY_KERNELS_PER_LAYER_PLAN_H
#define CONVOY_KERNELS_PER_LAYER_PLAN_H

#include "kernels/conv/conv_common.h"

#define PER_LAYER_THREADS       256
#define PER_LAYER_SM_THREADS    512 /* of 128 registers each, in one multiprocessor */
#define PER_LAYER_SM_SHARED     (220 * 1024)
#define PER_LAYER_CYCLES_PER_US 1700.0

/* A block computes width columns x row_groups (of ROWS rows) x images x groups (of MAPS output channels), one
 * thread for each; input channels pass through shared memory a few at a time. */
struct per_layer_plan {
    int width, row_groups, images, groups;
    int channels;              /* input channels in shared memory at a time */
    int tile_h, tile_w, pitch; /* input under a block; floats from column to column */
    int blocks_x, blocks_y, blocks_k, all_groups;
    int step_x, step_y,
        step_c; /* from an element of the tile to the thread's next one: threads, in the tile's base */
    int threads;
    int64_t blocks;
    size_t shared_bytes;
    float estimate_us;
};

/* Floats that a thread can load at once from a column that starts at a multiple of step floats. */
static __host__ __device__ constexpr int per_layer_vector(int step)
{
    return step % 4 == 0 ? 4 : step % 2 == 0 ? 2 : 1;
}

static __host__ __device__ __forceinline__ int per_layer_tile_floats(const struct per_layer_plan *plan)
{
    return (plan->images * plan->channels * plan->tile_w * plan->pitch + 3) / 4 * 4;
}

/* Fills in what follows from width, row_groups, images and groups. False if it does not fit. */
static inline bool per_layer_complete(const struct convoy_conv_shape *s, int filter, int stride, int rows,
                                      int maps, struct per_layer_plan *plan)
{
    plan->threads =
        (int)convoy_div_up((int64_t)plan->width * plan->row_groups * plan->images * plan->groups, 32) * 32;
    if (plan->threads > PER_LAYER_THREADS)
        return false;
    plan->tile_h = (plan->row_groups * rows - 1) * stride + filter;
    plan->tile_w = (plan->width - 1) * stride + filter;
    /* An odd number of vectors from column to column: neighbouring lanes then read from different banks (with
     * stride 2 every other column counts, and two lanes share one). Reading a whole number of vectors may
     * pass the end of a column by up to three floats. */
    int vector = per_layer_vector(rows * stride);
    plan->pitch = (int)(convoy_div_up(plan->tile_h, vector) | 1) * vector;
    int taps = filter * filter * (int)convoy_div_up(maps, 4) * 4;
    int64_t channel_floats =
        (int64_t)plan->images * plan->tile_w * plan->pitch + (int64_t)plan->groups * taps;
    /* A block's share of the shared memory by its threads, so that as many blocks fit as registers allow. */
    int64_t share =
        (int64_t)plan->threads * (PER_LAYER_SM_SHARED / PER_LAYER_SM_THREADS) / (int64_t)sizeof(float);
    int64_t most = (CONVOY_STATIC_SHARED_MAX / (int64_t)sizeof(float) - 8) / channel_floats;
    if (most < 1)
        return false;
    if (most * channel_floats > share)
        most = share > channel_floats ? share / channel_floats : 1;
    int64_t passes = convoy_div_up(s->c, most);
    plan->channels = (int)convoy_div_up(s->c, passes);
    plan->shared_bytes =
        ((size_t)per_layer_tile_floats(plan) + (size_t)plan->groups * plan->channels * taps) * sizeof(float);
    plan->blocks_x = (int)convoy_div_up(s->ow, plan->width);
    plan->blocks_y = (int)convoy_div_up(s->oh, plan->row_groups * rows);
    plan->all_groups = (int)convoy_div_up(s->k, maps);
    plan->blocks_k = (int)convoy_div_up(plan->all_groups, plan->groups);
    plan->blocks =
        convoy_div_up(s->n, plan->images) * plan->blocks_y * ((int64_t)plan->blocks_x * plan->blocks_k);
    plan->step_x = plan->threads % plan->tile_w;
    plan->step_y = plan->threads / plan->tile_w % plan->tile_h;
    plan->step_c = plan->threads / plan->tile_w / plan->tile_h;
    return plan->blocks <= INT32_MAX;
}

/* Microseconds, from the instructions of a block: multiply-adds and the loads beside them, filling the tile
 * (about 22 instructions an element) and copying weights (8 for four), and waiting for memory at each barrier
 * unless other blocks fill the gap. A multiprocessor issues four warps' instructions a cycle. */
static inline float per_layer_model(const struct convoy_conv_shape *s, int filter, int stride, int rows,
                                    int maps, const struct per_layer_plan *plan)
{
    int inputs = (rows - 1) * stride + filter, maps4 = (int)convoy_div_up(maps, 4);
    double column = (double)filter * rows * maps + (double)inputs / per_layer_vector(rows * stride) +
                    (double)filter * maps4 + 4;
    double warps = plan->threads / 32;
    double tile = (double)plan->images * plan->tile_w * plan->tile_h;
    double channel =
        warps * filter * column + tile / 32 * 37 + plan->groups * filter * filter * maps4 / 32.0 * 8;
    double passes = convoy_div_up(s->c, plan->channels);
    double issue = (channel * s->c + warps * rows * maps * 8) / 4; /* cycles of a multiprocessor */
    double wait = passes * 1500;
    double per_sm = convoy_div_up(plan->blocks, CONVOY_ESTIMATE_SMS);
    double together = PER_LAYER_SM_THREADS / plan->threads;
    if (together > PER_LAYER_SM_SHARED / plan->shared_bytes)
        together = PER_LAYER_SM_SHARED / plan->shared_bytes;
    if (together > per_sm)
        together = per_sm;
    /* A block by itself issues an instruction at best every other cycle from each warp. */
    double alone = channel * s->c / warps * 2;
    if (issue < alone / together)
        issue = alone / together;
    return (float)(per_sm * (issue + wait / together) / PER_LAYER_CYCLES_PER_US);
}

/* The plan with the least time by the model; false if none fits (a 4 KiB row of input, say). */
static inline bool per_layer_make_plan(const struct convoy_conv_shape *s, int filter, int stride, int rows,
                                       int maps, struct per_layer_plan *best)
{
    bool found = false;
    int all_rows = (int)convoy_div_up(s->oh, rows), all_groups = (int)convoy_div_up(s->k, maps);
    for (int parts = 1; parts <= 16 && parts <= s->ow; parts++) {
        struct per_layer_plan plan = {};
        plan.width = (int)convoy_div_up(s->ow, parts);
        if (s->pool == 2)
            plan.width += plan.width % 2;
        for (plan.row_groups = 1; plan.row_groups <= all_rows; plan.row_groups++) {
            bool whole = plan.width >= s->ow && plan.row_groups == all_rows;
            for (plan.images = 1; plan.images <= (whole ? 32 : 1) && plan.images <= s->n; plan.images++) {
                for (plan.groups = 1; plan.groups <= all_groups; plan.groups++) {
                    if (plan.width * plan.row_groups * plan.images * plan.groups > PER_LAYER_THREADS)
                        break;
                    if (!per_layer_complete(s, filter, stride, rows, maps, &plan))
                        continue;
                    plan.estimate_us = per_layer_model(s, filter, stride, rows, maps, &plan);
                    if (!found || plan.estimate_us < best->estimate_us)
                        *best = plan;
                    found = true;
                }
            }
        }
    }
    return found;
}

#endif
