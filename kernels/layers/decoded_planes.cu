/* Has a decoder written what it says? fit_images.h.
 *
 * Marking is a store of 16 bytes a thread: 18 MB for 64 pictures of 500 x 375, 7 us at 2.6 TB/s. Checking
 * looks at one line of each 16, a thread a line, and stops at the first sample that is none of the pattern,
 * which is nearly always the first: a few microseconds for any batch. Not timed by itself yet
 * (docs/kernels.md). */
#include "kernels/device/grid.cuh"
#include "kernels/fit_images.h"

#define THREADS 256
#define EVERY   16 /* lines */
#define LEAST   16 /* samples across: fewer may be the pattern by chance */

__global__ void __launch_bounds__(THREADS) mark_planes(int64_t count, uint4 *planes)
{
    const uint32_t pattern = 0xff00ff00u;
    for (int64_t i = convoy_first(); i < count; i += convoy_step())
        planes[i] = make_uint4(pattern, pattern, pattern, pattern);
}

cudaError_t convoy_launch_mark_planes(uint8_t *planes, int64_t bytes, cudaStream_t stream)
{
    return convoy_launch(mark_planes, convoy_grid(bytes / 16, THREADS), THREADS, 0, stream, bytes / 16,
                         (uint4 *)planes);
}

static __device__ __forceinline__ bool shows_pattern(const uint8_t *line, int width)
{
    for (int x = 0; x < width; x++)
        if (line[x] != (x % 2 != 0 ? 255 : 0))
            return false;
    return true;
}

__global__ void __launch_bounds__(THREADS)
    check_planes(const struct convoy_fit_picture *pictures, uint32_t *unwritten)
{
    const struct convoy_fit_picture &picture = pictures[blockIdx.x];
    int thread = (int)threadIdx.x;
    if (thread == 0)
        unwritten[blockIdx.x] = 0;
    __syncthreads();
    int planes = picture.form == CONVOY_FIT_MISSING ? 0 : picture.form == CONVOY_FIT_GREY ? 1 : 3;
    for (int plane = 0; plane < planes; plane++) {
        int width = plane == 0 ? picture.width : picture.chroma_width;
        int height = plane == 0 ? picture.height : picture.chroma_height;
        if (width < LEAST)
            continue;
        for (int i = thread; i * EVERY < height; i += THREADS) {
            int line = min(i * EVERY + EVERY - 1, height - 1);
            if (shows_pattern(picture.planes[plane] + (int64_t)line * picture.pitch[plane], width))
                unwritten[blockIdx.x] = 1;
        }
    }
}

cudaError_t convoy_launch_check_planes(const struct convoy_fit_picture *pictures, int rows,
                                       uint32_t *unwritten, cudaStream_t stream)
{
    return convoy_launch(check_planes, (unsigned)rows, THREADS, 0, stream, pictures, unwritten);
}
