/* Decoded pictures to rows of 8-bit pixels: fit_images.h.
 *
 * A block makes a tile of one row: TILE_A pixels along the axis that is resized first, TILE_B along the
 * other. It goes through the source lines that the tile needs, up to LINES at a time. First its threads make
 * upright R, G, B of the samples, in shared memory, two pixels at a time; then each resizes along the first
 * axis, 8 bits a channel, again into shared memory; then it adds its own pixel's share of these lines. So the
 * memory does not depend on how much a picture shrinks, and the sums are whole numbers: their order does not
 * matter. Lines that two tiles need are computed twice: with a bilinear filter a quarter of them. Floor: the
 * source's planes are read once, 1.5 bytes a pixel: 64 pictures of 500 x 375 are 18 MB, 5 us. Predicted: 70
 * us, of which most is the conversion: 50 instructions a pixel. Not timed by itself yet (docs/kernels.md). */
#include "kernels/device/launch.cuh"
#include "kernels/fit_images.h"

#define TILE_A  CONVOY_FIT_TILE
#define TILE_B  8
#define THREADS (TILE_A * TILE_B)
#define LINES   16
#define HALF    (1 << (CONVOY_FIT_WEIGHT_BITS - 1))

static __device__ __forceinline__ int clamped(int value, int most)
{
    return value < 0 ? 0 : value > most ? most : value;
}

static __device__ __forceinline__ int level(int sum)
{
    return clamped(sum >> CONVOY_FIT_WEIGHT_BITS, 255);
}

/* How Cb and Cr come to the size of Y: libjpeg-turbo's fancy upsampling (jdsample.c), which weighs a sample
 * and its neighbour 3 to 1 along each halved axis, with its rounding. At an edge the neighbour is the sample
 * itself. Planes up to two samples wide it only repeats along x. All forms are one formula with other
 * weights: of two pixels beside each other, the first at an even place, even = (even_own own + even_left left
 * + even_bias) >> shift odd = (odd_own own + odd_right right + odd_bias) >> shift where each term is
 * near_weight times a sample of the nearer line and far_weight times one of the other. */
struct upsampling {
    bool half_x;
    int even_own, even_left, odd_own, odd_right, near_weight, far_weight, shift;
};

static __device__ __forceinline__ struct upsampling upsampling_of(const struct convoy_fit_picture &picture)
{
    bool repeats = picture.half_x && picture.chroma_width < 3;
    bool weighs_x = picture.half_x && !repeats, weighs_y = picture.half_y && !repeats;
    return {picture.half_x != 0, weighs_x ? 3 : 1, weighs_x ? 1 : 0, weighs_x ? 3 : repeats ? 1 : 0,
            repeats ? 0 : 1,     weighs_y ? 3 : 1, weighs_y ? 1 : 0, 2 * (weighs_x + weighs_y)};
}

/* A line as stored. */
struct line {
    const uint8_t *luma, *near[2], *far[2]; /* near, far: of Cb and Cr */
    int even_bias, odd_bias;
};

static __device__ __forceinline__ struct line line_of(const struct convoy_fit_picture &picture,
                                                      const struct upsampling &up, int y)
{
    struct line line = {};
    line.luma = picture.planes[0] + (int64_t)y * picture.pitch[0];
    if (picture.form == CONVOY_FIT_GREY)
        return line;
    int own = picture.half_y ? y >> 1 : y;
    int other = picture.half_y ? clamped(y & 1 ? own + 1 : own - 1, picture.chroma_height - 1) : own;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        line.near[i] = picture.planes[1 + i] + (int64_t)own * picture.pitch[1 + i];
        line.far[i] = picture.planes[1 + i] + (int64_t)other * picture.pitch[1 + i];
    }
    /* 8 and 7 of 16 where both axes are halved; 1 and 2 of 4 by turns along the one that is. */
    bool along_x = up.even_left != 0;
    line.even_bias = up.shift == 4 ? 8 : up.shift == 0 ? 0 : along_x || y % 2 == 0 ? 1 : 2;
    line.odd_bias = up.shift == 4 ? 7 : up.shift == 0 ? 0 : along_x || y % 2 != 0 ? 2 : 1;
    return line;
}

/* R, G, B as libjpeg converts them (jdcolor.c), or their luma, 8 bits each. */
template <int channels> static __device__ __forceinline__ uint32_t colored(int luma, int blue, int red)
{
    /* 1.402, 1.772, 0.71414 and 0.34414 times 2^16, rounded. */
    int r = clamped(luma + ((91881 * red + 32768) >> 16), 255);
    int g = clamped(luma + ((-46802 * red - 22554 * blue + 32768) >> 16), 255);
    int b = clamped(luma + ((116130 * blue + 32768) >> 16), 255);
    if (channels == 1)
        return (uint32_t)(19595 * r + 38470 * g + 7471 * b + 32768) >> 16;
    return (uint32_t)(r | g << 8 | b << 16);
}

/* The pixels 2 pair and 2 pair + 1 of a stored line. */
template <int channels>
static __device__ __forceinline__ void convert(const struct convoy_fit_picture &picture,
                                               const struct upsampling &up, const struct line &line, int pair,
                                               uint32_t (&words)[2])
{
    int even[2] = {}, odd[2] = {}; /* Cb and Cr, less 128 */
    if (picture.form != CONVOY_FIT_GREY) {
        int most = picture.chroma_width - 1;
        int own = up.half_x ? pair : 2 * pair;
        int left = up.half_x ? max(pair - 1, 0) : own, right = min(own + 1, most);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int at_own = up.near_weight * line.near[i][own] + up.far_weight * line.far[i][own];
            int at_left = up.near_weight * line.near[i][left] + up.far_weight * line.far[i][left];
            int at_right = up.near_weight * line.near[i][right] + up.far_weight * line.far[i][right];
            even[i] = ((up.even_own * at_own + up.even_left * at_left + line.even_bias) >> up.shift) - 128;
            odd[i] = ((up.odd_own * at_own + up.odd_right * at_right + line.odd_bias) >> up.shift) - 128;
        }
    }
    words[0] = colored<channels>(line.luma[2 * pair], even[0], even[1]);
    words[1] = colored<channels>(line.luma[min(2 * pair + 1, picture.width - 1)], odd[0], odd[1]);
}

/* How a picture is turned until it is upright. */
struct turn {
    bool turned, mirror_x, mirror_y; /* mirrors: of the stored axes */
};

static __device__ __forceinline__ struct turn turn_of(int orientation)
{
    return {orientation >= 5, orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8,
            orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7};
}

/* Converts lines [first, first + lines) along the axis that is resized second, of each the pixels [from, from
 * + width) along the one that is resized first: source[line width + pixel]. Each warp takes stored lines,
 * several at a time where these are short, and each thread two pixels of one. */
template <int channels>
static __device__ __forceinline__ void stage(const struct convoy_fit_picture &picture,
                                             const struct upsampling &up, bool rows_first, int from,
                                             int width, int first, int lines, uint32_t *source)
{
    struct turn turn = turn_of(picture.orientation);
    bool along = turn.turned == rows_first; /* a stored line runs along the axis that is resized first */
    int across = along ? from : first, across_count = along ? width : lines;
    int down = along ? first : from, down_count = along ? lines : width;
    int left = turn.mirror_x ? picture.width - across - across_count : across;
    int top = turn.mirror_y ? picture.height - down - down_count : down;
    int first_pair = left >> 1, pairs = ((left + across_count - 1) >> 1) - first_pair + 1;
    int group = pairs > 16 ? 32 : pairs > 8 ? 16 : 8; /* threads for a line */
    int lane = (int)threadIdx.x % group;
    for (int i = (int)threadIdx.x / group; i < down_count; i += THREADS / group) {
        struct line line = line_of(picture, up, top + i);
        int to_down = turn.mirror_y ? down_count - 1 - i : i;
        for (int pair = first_pair + lane; pair < first_pair + pairs; pair += group) {
            uint32_t words[2];
            convert<channels>(picture, up, line, pair, words);
#pragma unroll
            for (int k = 0; k < 2; k++) {
                int at = 2 * pair + k - left;
                int to_across = turn.mirror_x ? across_count - 1 - at : at;
                if (at >= 0 && at < across_count)
                    source[along ? to_down * width + to_across : to_across * width + to_down] = words[k];
            }
        }
    }
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
__global__ void __launch_bounds__(THREADS, 4) fit_images(CONVOY_PARAMETER(struct convoy_fit_job) job)
{
    __shared__ uint32_t source[CONVOY_FIT_SPAN]; /* upright pixels of lines, 8 bits a channel */
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
        const struct upsampling up = upsampling_of(picture);
        int together = min(LINES, CONVOY_FIT_SPAN / max(width, 1));
#pragma unroll
        for (int c = 0; c < channels; c++)
            sums[c] = HALF;
        /* The same lines for all threads of the block. */
        for (int first = lines.first; together > 0 && first < lines.end; first += together) {
            int end = min(first + together, lines.end);
            stage<channels>(picture, up, rows_first, span.first, width, first, end - first, source);
            /* Also for what lies in resized, of the lines before these. */
            __syncthreads();
            for (int at = first + line; at < end; at += TILE_B) {
                int means[channels];
#pragma unroll
                for (int c = 0; c < channels; c++)
                    means[c] = HALF;
                int begin = (at - first) * width - span.first;
                for (int k = along.first; k < along.end; k++)
                    add<channels>(means, source[begin + k], along.weights[k - along.first]);
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
