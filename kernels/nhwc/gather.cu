/* Rows in another order, left out, repeated, or put side by side, with or without numbers added: one image of
 * a tensor in 16 bits, channels last, from another one by a table of pieces. A thread takes 16 bytes. Floor:
 * both tensors once through device memory; the table and what is added are the same for all images and come
 * from L2. */
#include "kernels/nhwc/nhwc_cells.cuh"

__global__ void __launch_bounds__(NHWC_THREADS)
    nhwc_gather(struct convoy_nhwc_gather job, int cells, const convoy_fp16 *x, const float *add,
                convoy_fp16 *y, struct convoy_overflow overflow)
{
    /* An image's cells, which the table counts in 32 bits. */
    unsigned row_cells = (unsigned)cells * (unsigned)job.pieces;
    int64_t image_cells = job.rows * row_cells;
    convoy_let_next_begin();
    convoy_wait_for_previous();
    for (int64_t i = convoy_first(); i < job.n * image_cells; i += convoy_step()) {
        int64_t n = i / image_cells;
        unsigned in_image = (unsigned)(i - n * image_cells);
        unsigned piece = in_image / (unsigned)cells, cell = in_image - piece * (unsigned)cells;
        unsigned row = piece / (unsigned)job.pieces, column = in_image - row * row_cells;
        int from = __ldg(job.pieces_of + piece);
        uint4 words = make_uint4(0, 0, 0, 0);
        if (from >= 0)
            words =
                *reinterpret_cast<const uint4 *>(x + n * job.x_image + ((int64_t)from + cell) * NHWC_CELL);
        convoy_fp16 *to = y + (n * job.rows + row) * job.y_pixel + column * NHWC_CELL;
        if (add != nullptr) {
            float values[NHWC_CELL];
            const float4 *more = reinterpret_cast<const float4 *>(add) + (int64_t)in_image * (NHWC_CELL / 4);
            float4 low = __ldg(more), high = __ldg(more + 1);
            const float added[NHWC_CELL] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
            nhwc_unpack(words, values);
#pragma unroll
            for (int e = 0; e < NHWC_CELL; e++)
                values[e] += added[e];
            nhwc_store_new(to, values, overflow, n);
        } else {
            *reinterpret_cast<uint4 *>(to) = words;
        }
    }
}

cudaError_t convoy_launch_nhwc_gather(const struct convoy_nhwc_gather *gather, const convoy_fp16 *x,
                                      const float *add, convoy_fp16 *y, struct convoy_overflow overflow,
                                      cudaStream_t stream)
{
    if (gather->width < NHWC_CELL || gather->width % NHWC_CELL != 0 || gather->pieces < 1)
        return cudaErrorInvalidValue;
    int cells = gather->width / NHWC_CELL;
    int64_t image = gather->rows * gather->pieces * cells, all = gather->n * image;
    if (image > INT32_MAX)
        return cudaErrorInvalidValue;
    return convoy_launch_early(nhwc_gather, convoy_grid(all, NHWC_THREADS), NHWC_THREADS, 0, stream, *gather,
                               cells, x, add, y, overflow);
}
