/* Where whole_net puts what the last of its layers computes: into the output, or as fp16 where a matrix
 * product over all images finds it (fused_product.cuh). */
#ifndef CONVOY_KERNELS_FUSED_RESULT_CUH
#define CONVOY_KERNELS_FUSED_RESULT_CUH

#include "kernels/fused_net/fused_words.cuh"

/* Of an image. Made where it is needed, not kept: registers are what these kernels are short of. */
struct fused_result {
    float *y;             /* C x H x W */
    uint32_t *vector;     /* or its first cell of struct fused_vector; NULL: into y */
    int place_words, end; /* of a place of the vector and of all */

    __device__ __forceinline__ fused_result(const struct fused_job &job, int image)
        : y(job.y + image * job.y_stride), vector(nullptr), place_words(job.vector.place_words),
          end(job.vector.cells * FUSED_CELL)
    {
        if (job.vector.images != nullptr)
            vector = job.vector.images +
                     ((int64_t)(image / FUSED_VECTOR_IMAGES) * job.vector.cells * FUSED_VECTOR_IMAGES +
                      image % FUSED_VECTOR_IMAGES) *
                         FUSED_CELL;
    }

    __device__ __forceinline__ uint32_t *word(int at) const
    {
        return vector + at / FUSED_CELL * (FUSED_VECTOR_IMAGES * FUSED_CELL) + at % FUSED_CELL;
    }

    /* By all threads of the block: what lies behind the last place is multiplied too, by zero. */
    __device__ __forceinline__ void clear_end(int places) const
    {
        int at = places * place_words + (int)threadIdx.x;
        if (vector != nullptr && at < end)
            *word(at) = 0;
    }

    /* Two maps of a place, of which the first is even. Those past the last are what zero weights make. */
    __device__ __forceinline__ void put_two(int place, int map, float one, float other) const
    {
        if (map / 2 < place_words)
            *word(place * place_words + map / 2) = convoy_half2(one, other);
    }

    __device__ __forceinline__ void put(int place, int map, float value) const
    {
        if (map / 2 < place_words)
            reinterpret_cast<uint16_t *>(word(place * place_words + map / 2))[map % 2] =
                (uint16_t)convoy_half2(value, 0.0f);
    }
};

/* Does a kernel of these write vectors? */
template <int MATH, bool CLUSTER> static constexpr bool fused_has_vectors = fused_pairs<MATH> && !CLUSTER;

/* A lane's sums: rows lane / 4 and 8 on of each tile, two adjacent maps. */
template <bool VECTORS, int MT, int NT>
static __device__ __forceinline__ void
fused_give(const struct fused_step &step, const struct fused_task &task, const struct fused_result &result,
           const float (&sum)[MT * NT][4])
{
    int places = step.places, row = task.tile * 16 + threadIdx.x % 32 / 4;
    int first = task.map * 8 + threadIdx.x % 4 * 2, maps = step.maps;
    float *to = result.y + first * places + row;
#pragma unroll
    for (int i = 0; i < MT * 2; i++) {
        bool there = row + i * 8 < places;
#pragma unroll
        for (int j = 0; j < NT; j++) {
            float one = sum[i / 2 * NT + j][i % 2 * 2], other = sum[i / 2 * NT + j][i % 2 * 2 + 1];
            if (VECTORS && result.vector != nullptr) {
                if (there)
                    result.put_two(row + i * 8, first + j * 8, one, other);
                continue;
            }
            if (there && first + j * 8 < maps)
                to[j * 8 * places + i * 8] = one;
            if (there && first + j * 8 + 1 < maps)
                to[(j * 8 + 1) * places + i * 8] = other;
        }
    }
}

/* The greatest of each 2 x 2, of which a lane has one map (tensor_pool). */
template <bool VECTORS, int MT, int NT>
static __device__ __forceinline__ void
fused_give_pooled(const struct fused_step &step, const struct fused_task &task,
                  const struct fused_result &result, const float (&pooled)[MT * NT][1])
{
    int lane = threadIdx.x % 32, places = step.places, maps = step.maps;
    int unit = task.tile * 4 + lane / 8, first = task.map * 8 + lane % 4 * 2 + lane / 4 % 2;
    float *to = result.y + first * places + unit;
#pragma unroll
    for (int i = 0; i < MT; i++)
#pragma unroll
        for (int j = 0; j < NT; j++) {
            bool there = unit + i * 4 < places;
            if (VECTORS && result.vector != nullptr) {
                if (there)
                    result.put(unit + i * 4, first + j * 8, pooled[i * NT + j][0]);
            } else if (there && first + j * 8 < maps) {
                to[j * 8 * places + i * 4] = pooled[i * NT + j][0];
            }
        }
}

#endif
