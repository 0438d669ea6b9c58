/* The end of a patch of inverted.cu whose chunks several blocks have divided: they send their sums of the
 * last layer to each other, and each finishes some of the outputs. */
#ifndef CONVOY_KERNELS_NHWC_INVERTED_PARTS_CUH
#define CONVOY_KERNELS_NHWC_INVERTED_PARTS_CUH

#include "kernels/nhwc/conv_split.cuh"
#include "kernels/nhwc/inverted_layers.cuh"

/* What a block finishes of an output: 8 maps, from `map` on. */
template <typename TILE>
static __device__ __forceinline__ void inv_finish_cell(const struct inv_job &job, const char *x,
                                                       const struct inv_place &place, int number, int map,
                                                       float (&sum)[2][4])
{
    int line = number / INV_SIDE, column = number % INV_SIDE;
#pragma unroll
    for (int e = 0; e < NHWC_CELL; e++)
        sum[e / 4][e % 4] += job.bias[2] != nullptr ? __ldg(job.bias[2] + map + e) : 0.0f;
    if (job.residual) {
        const inv_x pixel(job, x,
                          (line + TILE::PAD - place.down) * job.box_w + column + TILE::PAD - place.right);
#pragma unroll
        for (int e = 0; e < NHWC_CELL; e += 2) {
            const float2 added = pixel.at(job, map / 8, e);
            sum[e / 4][e % 4] += added.x;
            sum[e / 4][e % 4 + 1] += added.y;
        }
    }
    uint32_t words[1][4], over[4] = {0, 0, 0, 0};
    inv_activate(job.act[2], sum, words);
    inv_collect_over(words[0], over);
    inv_tell(job, 2, nhwc_any_over(over[0] | over[1] | over[2] | over[3]), place.n);
    int64_t output = ((int64_t)place.n * job.oh + place.y + line) * job.ow + place.x + column;
    *reinterpret_cast<uint4 *>(job.out + output * job.out_pixel + map) =
        make_uint4(words[0][0], words[0][1], words[0][2], words[0][3]);
}

/* sums: what the blocks send to this one, block after block. Of all threads of all blocks. */
template <typename TILE, int NT>
static __device__ __forceinline__ void inv_add_parts(const struct inv_job &job, int number, const char *x,
                                                     float *sums, const struct inv_place &place,
                                                     const float (&sum)[NT][4])
{
    int lane = (int)threadIdx.x % 32, rows = NHWC_PIECE / job.parts;
    nhwc_send<NT>(sums, job.parts, number, inv_row(lane / 4), lane, sum);
    convoy_cluster_sync();
    for (int i = (int)threadIdx.x; i < rows * NT; i += CONVOY_WARPGROUP) {
        int row = i / NT, map = (i - row * NT) * NHWC_CELL, output = number * rows + row;
        if (map >= job.k || !inv_is_output(job, place, output))
            continue;
        float total[2][4] = {};
        for (int block = 0; block < job.parts; block++) { /* in their order */
            const float *from = sums + (block * rows + row) * TILE::MAPS + map;
#pragma unroll
            for (int e = 0; e < NHWC_CELL; e++)
                total[e / 4][e % 4] += from[e];
        }
        inv_finish_cell<TILE>(job, x, place, output, map, total);
    }
}

#endif
