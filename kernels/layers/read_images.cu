/* Images as they arrive into a dense tensor N x C x H x W.
 *
 * 8-bit images lie H x W x C, interleaved. A thread takes four pixels of one image, 4 C bytes, in C loads of
 * 4 bytes that its neighbours continue, and writes four floats to each channel's plane, 16 bytes at a time
 * where planes are multiples of 4. Image starts are multiples of 16 bytes, so the loads are aligned; the last
 * of them may reach into an image's padding but not past it.
 * Float images are already C x H x W: a copy of rows that lie apart.
 * Floor: 5 bytes a value: 10,000 x 3 x 32 x 32 are 154 MB, 37 us at 4.2 TB/s.
 * Predicted: 45 us.
 * Not timed by itself yet (docs/kernels.md). */
#include "kernels/device/grid.cuh"
#include "kernels/kernels.h"

#define THREADS 256

struct read_job {
    int64_t n, pixels, groups; /* groups of 4 pixels in an image */
    int64_t image_words;       /* of 4 bytes, from image to image */
    bool wide;                 /* planes lie on 16 bytes */
    float multiply[CONVOY_KERNEL_CHANNELS], add[CONVOY_KERNEL_CHANNELS];
};

template <int channels>
__global__ void __launch_bounds__(THREADS) read_bytes(struct read_job job, const uint32_t *images, float *y)
{
    for (int64_t i = convoy_first(); i < job.n * job.groups; i += convoy_step()) {
        int64_t image = i / job.groups;
        int64_t group = i - image * job.groups;
        uint32_t word[channels];
#pragma unroll
        for (int j = 0; j < channels; j++) {
            int64_t at = group * channels + j;
            word[j] = at < job.image_words ? images[image * job.image_words + at] : 0;
        }
#pragma unroll
        for (int c = 0; c < channels; c++) {
            float value[4];
#pragma unroll
            for (int p = 0; p < 4; p++) {
                int byte = p * channels + c;
                value[p] = (float)(word[byte / 4] >> byte % 4 * 8 & 255) * job.multiply[c] + job.add[c];
            }
            float *to = y + (image * channels + c) * job.pixels + group * 4;
            if (job.wide) {
                *(float4 *)to = make_float4(value[0], value[1], value[2], value[3]);
            } else {
#pragma unroll
                for (int p = 0; p < 4; p++)
                    if (group * 4 + p < job.pixels)
                        to[p] = value[p];
            }
        }
    }
}

cudaError_t convoy_launch_read_images(const struct convoy_images *images, int n, int c, int64_t pixels,
                                      float *y, cudaStream_t stream)
{
    if (!images->u8) {
        struct convoy_strided_copy rows = {};
        rows.rank = 2;
        rows.dims[0] = n;
        rows.dims[1] = c * pixels;
        rows.x_stride[0] = images->image_bytes / (int64_t)sizeof(float);
        rows.y_stride[0] = c * pixels;
        rows.x_stride[1] = rows.y_stride[1] = 1;
        return convoy_launch_copy(&rows, (const float *)images->data, y, stream);
    }
    struct read_job job = {};
    job.n = n;
    job.pixels = pixels;
    job.groups = convoy_div_up(pixels, 4);
    job.image_words = images->image_bytes / 4;
    job.wide = pixels % 4 == 0 && convoy_aligned(y, y);
    for (int i = 0; i < CONVOY_KERNEL_CHANNELS; i++) {
        job.multiply[i] = images->multiply[i];
        job.add[i] = images->add[i];
    }
    void (*kernel)(struct read_job, const uint32_t *, float *) = nullptr;
    switch (c) {
    case 1:
        kernel = read_bytes<1>;
        break;
    case 2:
        kernel = read_bytes<2>;
        break;
    case 3:
        kernel = read_bytes<3>;
        break;
    case 4:
        kernel = read_bytes<4>;
        break;
    default:
        return cudaErrorInvalidValue;
    }
    return convoy_launch(kernel, convoy_grid(n * job.groups, THREADS), THREADS, 0, stream, job,
                         (const uint32_t *)images->data, y);
}
