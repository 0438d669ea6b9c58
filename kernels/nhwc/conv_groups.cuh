/* Convolutions in groups on warpgroups: a tile of N maps sums the channels of its maps' groups alone, as if
 * all of these were one group, with weights of 0 between a map and channels that are not its own. The tensor
 * cores multiply by more zeros the smaller the groups are, but inputs are read as often as they are without
 * groups, and that is what bounds them.
 *
 * A tile's reduction begins with the cell of 8 channels in which its first map's group begins, because the
 * copy engine's boxes do, and has the same number of chunks in all tiles. Groups of 1, 2, 4, ... channels up
 * to a tile's maps end where tiles end, and nothing is wasted but zeros; others take up to twice the chunks.
 */
#ifndef CONVOY_KERNELS_NHWC_CONV_GROUPS_CUH
#define CONVOY_KERNELS_NHWC_CONV_GROUPS_CUH

#include "kernels/nhwc/conv_job.cuh"

static inline int nhwc_group_maps(const struct convoy_conv_shape *s)
{
    return s->k / s->groups;
}

static inline int nhwc_group_channels(const struct convoy_conv_shape *s)
{
    return s->c / s->groups;
}

/* The cell in which the group of map `column` begins: its first channel. */
static inline int nhwc_group_cell(const struct convoy_conv_shape *s, int column)
{
    return column / nhwc_group_maps(s) * nhwc_group_channels(s) / 8 * 8;
}

/* Chunks of a tap. */
static inline int nhwc_group_chunks(const struct convoy_conv_shape *s, int n, int depth)
{
    int most = 0;
    for (int column = 0; column < s->k; column += n) {
        int last = (column + n < s->k ? column + n : s->k) - 1;
        int end = (last / nhwc_group_maps(s) + 1) * nhwc_group_channels(s);
        int channels = end - nhwc_group_cell(s, column);
        most = channels > most ? channels : most;
    }
    return (int)convoy_div_up(most, depth);
}

/* Several groups, not of a channel and a map each: those are depthwise. */
static inline bool nhwc_takes_groups(const struct convoy_conv_shape *s)
{
    struct convoy_conv_shape whole = *s;
    whole.groups = 1;
    return s->groups > 1 && (s->groups < s->c || s->groups < s->k) && s->nhwc.window == 0 &&
           nhwc_takes(&whole);
}

template <int N, int DEPTH> static inline size_t nhwc_packed_groups(const struct convoy_conv_shape *s)
{
    size_t chunks = (size_t)nhwc_taps_of(s) * (size_t)nhwc_group_chunks(s, N, DEPTH);
    return (chunks * (size_t)nhwc_columns_of(s) + NHWC_WEIGHT_SLACK) * DEPTH / 2;
}

/* As nhwc_pack(), for tiles of N maps. */
template <int N, int DEPTH>
static inline void nhwc_pack_groups(const struct convoy_conv_shape *s, const float *weights, float *packed)
{
    convoy_fp16 *to = reinterpret_cast<convoy_fp16 *>(packed);
    int maps = nhwc_group_maps(s), channels = nhwc_group_channels(s), taps = nhwc_taps_of(s);
    int columns = nhwc_columns_of(s), tap_chunks = nhwc_group_chunks(s, N, DEPTH);
    for (int chunk = 0; chunk < taps * tap_chunks; chunk++)
        for (int k = 0; k < s->k; k++) {
            int first = nhwc_group_cell(s, k / N * N) + chunk % tap_chunks * DEPTH;
            for (int i = 0; i < DEPTH; i++) {
                int within = first + i - k / maps * channels; /* the group's channel */
                bool there = within >= 0 && within < channels;
                int64_t row = (int64_t)chunk * columns + k;
                int cell = convoy_swizzled_cell<DEPTH * 2>(k, i / 8);
                to[row * DEPTH + cell * 8 + i % 8] = convoy_half(
                    there ? weights[((int64_t)k * channels + within) * taps + chunk / tap_chunks] : 0);
            }
        }
}

/* What nhwc_describe() leaves out. */
static inline void nhwc_describe_groups(const struct convoy_conv_shape *s, int n, int depth,
                                        struct nhwc_job *job)
{
    job->tap_chunks = nhwc_group_chunks(s, n, depth);
    job->chunks = nhwc_taps_of(s) * job->tap_chunks;
    job->group_maps = nhwc_group_maps(s);
    job->group_channels = nhwc_group_channels(s);
}

#endif
