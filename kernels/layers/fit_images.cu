/* Decoded pictures to rows of 8-bit pixels: fit_images.h.
 *
 * A block makes a tile of one row: TILE_A pixels along the axis that is resized first, TILE_B along the
 * other. It goes through the source lines that the tile needs, up to LINES at a time. First its threads make
 * upright R, G, B of the samples, in shared memory, one warp a line; then each resizes along the first axis,
 * 8 bits a channel, again into shared memory; then it adds its own pixel's share of these lines. So the
 * memory does not depend on how much a picture shrinks, and the sums are whole numbers: their order does not
 * matter. Lines that two tiles need are computed twice: with a bilinear filter a quarter of them. Floor: the
 * source's planes are read once, 1.5 bytes a pixel: 64 pictures of 500 x 375 are 18 MB, 5 us. Predicted: 70
 * us, of which most is the conversion: 40 instructions a pixel. Not timed by itself yet (docs/kernels.md). */
#include "kernels/device/launch.cuh"
#include "kernels/fit_images.h"

#define TILE_A  32
#define TILE_B  8
#define THREADS (TILE_A * TILE_B)
#define LINES   16
#ifndef FIT_STAGED
#define FIT_STAGED 6144 /* source pixels; a line that is longer is converted where it is read */
#endif
#define HALF (1 << (CONVOY_FIT_WEIGHT_BITS - 1))

static __device__ __forceinline__ int clamped(int value, int most)
{
    return value < 0 ? 0 : value > most ? most : value;
}

static __device__ __forceinline__ int level(int sum)
{
    return clamped(sum >> CONVOY_FIT_WEIGHT_BITS, 255);
}

/* A chroma sample at the place of the luma sample (x, y): libjpeg-turbo's fancy upsampling (jdsample.c),
 * which weighs a sample and its neighbour 3 to 1 along each halved axis, with its rounding. At an edge the
 * neighbour is the sample itself. Planes up to two samples wide it only repeats along x. */
static __device__ int chroma(const struct convoy_fit_picture &picture, int plane, int x, int y)
{
    const uint8_t *samples = picture.planes[plane];
    int pitch = picture.pitch[plane];
    int right = picture.chroma_width - 1, bottom = picture.chroma_height - 1;
    bool half_x = picture.half_x != 0, half_y = picture.half_y != 0;
    if (half_x && right < 2)
        return samples[(int64_t)(half_y ? y >> 1 : y) * pitch + (x >> 1)];
    int column = half_x ? x >> 1 : x, line = half_y ? y >> 1 : y;
    int beside = clamped(x & 1 ? column + 1 : column - 1, right);
    int other = clamped(y & 1 ? line + 1 : line - 1, bottom);
    const uint8_t *near = samples + (int64_t)line * pitch;
    if (!half_y)
        return !half_x ? near[column] : (3 * near[column] + near[beside] + (x & 1 ? 2 : 1)) >> 2;
    const uint8_t *far = samples + (int64_t)other * pitch;
    int sum = 3 * near[column] + far[column];
    if (!half_x)
        return (sum + (y & 1 ? 2 : 1)) >> 2;
    return (3 * sum + 3 * near[beside] + far[beside] + (x & 1 ? 7 : 8)) >> 4;
}

/* Pixel (x, y) of the upright picture: R, G, B as libjpeg converts them (jdcolor.c), or their luma. */
template <int channels>
static __device__ __forceinline__ void fetch(const struct convoy_fit_picture &picture, int x, int y,
                                             int (&pixel)[channels])
{
    int orientation = picture.orientation;
    int across = orientation >= 5 ? y : x, down = orientation >= 5 ? x : y;
    if (orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8)
        across = picture.width - 1 - across;
    if (orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7)
        down = picture.height - 1 - down;
    int luma = picture.planes[0][(int64_t)down * picture.pitch[0] + across];
    if (picture.form == CONVOY_FIT_GREY) {
#pragma unroll
        for (int c = 0; c < channels; c++)
            pixel[c] = luma;
        return;
    }
    int blue = chroma(picture, 1, across, down) - 128, red = chroma(picture, 2, across, down) - 128;
    /* 1.402, 1.772, 0.71414 and 0.34414 times 2^16, rounded. */
    int rgb[3] = {clamped(luma + ((91881 * red + 32768) >> 16), 255),
                  clamped(luma + ((-46802 * red - 22554 * blue + 32768) >> 16), 255),
                  clamped(luma + ((116130 * blue + 32768) >> 16), 255)};
    int grey = (19595 * rgb[0] + 38470 * rgb[1] + 7471 * rgb[2] + 32768) >> 16;
#pragma unroll
    for (int c = 0; c < channels; c++)
        pixel[c] = channels == 1 ? grey : rgb[c];
}

/* An entry of an axis's table. */
struct taps {
    int first, end;
    const int32_t *weights;
};

static __device__ __forceinline__ struct taps taps_of(const struct convoy_fit_axis &axis, int i)
{
    const int32_t *entry = axis.table + (int64_t)i * (axis.taps + 2);
    return {entry[0], entry[0] + entry[1], entry + 2};
}

/* The tile's pixels along one axis, as places in the part of the row that the picture fills. */
static __device__ __forceinline__ struct taps reach_of(const struct convoy_fit_axis &axis, int tile, int size)
{
    int first = max(tile - axis.before, 0), last = min(tile + size - axis.before, axis.out) - 1;
    if (first > last)
        return {0, 0, nullptr};
    return {taps_of(axis, first).first, taps_of(axis, last).end, nullptr};
}

template <int channels> static __device__ __forceinline__ uint32_t packed(const int (&pixel)[channels])
{
    uint32_t word = 0;
#pragma unroll
    for (int c = 0; c < channels; c++)
        word |= (uint32_t)pixel[c] << 8 * c;
    return word;
}

template <int channels>
static __device__ __forceinline__ void add(int (&sums)[channels], uint32_t word, int weight)
{
#pragma unroll
    for (int c = 0; c < channels; c++)
        sums[c] += weight * (int)(word >> 8 * c & 255);
}

template <int channels>
__global__ void __launch_bounds__(THREADS) fit_images(CONVOY_PARAMETER struct convoy_fit_job job)
{
    __shared__ uint32_t source[FIT_STAGED]; /* upright pixels of lines, 8 bits a channel */
    __shared__ uint32_t resized[LINES][TILE_A];
    const struct convoy_fit_picture picture = job.pictures[blockIdx.z];
    bool missing =
        picture.form == CONVOY_FIT_MISSING || (job.unwritten != nullptr && job.unwritten[blockIdx.z] != 0);
    bool rows_first = !missing && picture.rows_first;
    int size_a = rows_first ? job.height : job.width, size_b = rows_first ? job.width : job.height;
    int tile_a = (int)blockIdx.x * TILE_A, tile_b = (int)blockIdx.y * TILE_B;
    if (tile_a >= size_a || tile_b >= size_b)
        return;
    int column = (int)threadIdx.x % TILE_A, line = (int)threadIdx.x / TILE_A;
    int sums[channels] = {};
    bool inside = false;
    if (!missing) {
        const struct convoy_fit_axis &a = rows_first ? picture.y : picture.x;
        const struct convoy_fit_axis &b = rows_first ? picture.x : picture.y;
        int own_a = tile_a + column - a.before, own_b = tile_b + line - b.before;
        bool inside_a = own_a >= 0 && own_a < a.out;
        inside = inside_a && own_b >= 0 && own_b < b.out;
        struct taps along = inside_a ? taps_of(a, own_a) : taps{0, 0, nullptr};
        struct taps across = inside ? taps_of(b, own_b) : taps{0, 0, nullptr};
        struct taps span = reach_of(a, tile_a, TILE_A), lines = reach_of(b, tile_b, TILE_B);
        int width = span.end - span.first;
        bool staged = width <= FIT_STAGED;
        int together = staged ? min(LINES, FIT_STAGED / max(width, 1)) : LINES;
#pragma unroll
        for (int c = 0; c < channels; c++)
            sums[c] = HALF;
        /* The same lines for all threads of the block. */
        for (int first = lines.first; first < lines.end; first += together) {
            int end = min(first + together, lines.end);
            for (int at = first + line; staged && at < end; at += TILE_B)
                for (int k = column; k < width; k += TILE_A) {
                    int pixel[channels];
                    fetch<channels>(picture, rows_first ? at : span.first + k,
                                    rows_first ? span.first + k : at, pixel);
                    source[(at - first) * width + k] = packed<channels>(pixel);
                }
            /* Also for what lies in resized, of the lines before these. */
            __syncthreads();
            for (int at = first + line; at < end; at += TILE_B) {
                int means[channels];
#pragma unroll
                for (int c = 0; c < channels; c++)
                    means[c] = HALF;
                int begin = (at - first) * width - span.first;
                for (int k = along.first; k < along.end; k++) {
                    int weight = along.weights[k - along.first];
                    if (staged) {
                        add<channels>(means, source[begin + k], weight);
                        continue;
                    }
                    int pixel[channels];
                    fetch<channels>(picture, rows_first ? at : k, rows_first ? k : at, pixel);
                    add<channels>(means, packed<channels>(pixel), weight);
                }
#pragma unroll
                for (int c = 0; c < channels; c++)
                    means[c] = level(means[c]);
                resized[at - first][column] = packed<channels>(means);
            }
            __syncthreads();
            for (int k = max(first, across.first); k < min(end, across.end); k++)
                add<channels>(sums, resized[k - first][column], across.weights[k - across.first]);
        }
    }
    int at_a = tile_a + column, at_b = tile_b + line;
    if (at_a >= size_a || at_b >= size_b)
        return;
    int x = rows_first ? at_b : at_a, y = rows_first ? at_a : at_b;
    uint8_t *to =
        job.images + (int64_t)blockIdx.z * job.image_bytes + ((int64_t)y * job.width + x) * channels;
#pragma unroll
    for (int c = 0; c < channels; c++) {
        int from = channels == 3 && job.bgr ? 2 - c : c;
        to[c] = (uint8_t)(inside ? level(sums[from]) : missing ? 0 : job.color[c]);
    }
}

cudaError_t convoy_launch_fit_images(const struct convoy_fit_job *job, cudaStream_t stream)
{
    if (job->channels != 1 && job->channels != 3)
        return cudaErrorInvalidValue;
    /* Either axis may be the one that is resized first. */
    int longer = job->width > job->height ? job->width : job->height;
    dim3 grid((unsigned)convoy_div_up(longer, TILE_A), (unsigned)convoy_div_up(longer, TILE_B),
              (unsigned)job->rows);
    return convoy_launch(job->channels == 1 ? fit_images<1> : fit_images<3>, grid, THREADS, 0, stream, *job);
}
