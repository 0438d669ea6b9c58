/* The check of kernels/fit_images.h: pictures of random samples, sizes, samplings and weights, beside a plain
 * reference. It has to be the same to the bit. */
#include "kernels/check/check_operators.h"
#include "kernels/fit_images.h"

#include <stdlib.h>
#include <string.h>

#define MOST_ROWS 4

/* A picture with what it is made of on the host. */
struct made {
    struct convoy_fit_picture picture;
    struct convoy_check_buffer planes[3], tables[2]; /* tables: x, y */
};

/* Lines that a decoder did not write. */
static const uint8_t pattern[2] = {0, 255};

static void *zeroed(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (!memory)
        exit(1);
    return memory;
}

static struct convoy_check_buffer make_plane(struct convoy_check *check, int width, int height, int *pitch)
{
    *pitch = width + convoy_check_between(check, 0, 2) * 5;
    struct convoy_check_buffer buffer = convoy_check_buffer(((int64_t)*pitch * height + 3) / 4, 0);
    uint8_t *bytes = (uint8_t *)buffer.host;
    bool extreme = convoy_check_between(check, 0, 3) == 0;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++)
            bytes[y * *pitch + x] = (uint8_t)(extreme ? 255 * convoy_check_between(check, 0, 1)
                                                      : convoy_check_between(check, 0, 255));
    convoy_check_upload(&buffer);
    return buffer;
}

/* Windows that go from one end of the source to the other, with weights of either sign. */
static struct convoy_check_buffer make_axis(struct convoy_check *check, int in, int size,
                                            struct convoy_fit_axis *axis)
{
    axis->out = convoy_check_between(check, 0, 2) ? size : convoy_check_between(check, 1, size);
    axis->before = (size - axis->out) / 2;
    axis->taps = convoy_check_between(check, 1, convoy_check_between(check, 0, 4) ? 5 : 40);
    struct convoy_check_buffer buffer = convoy_check_buffer((int64_t)axis->out * (axis->taps + 2), 0);
    int32_t *entry = (int32_t *)buffer.host;
    for (int i = 0; i < axis->out; i++, entry += axis->taps + 2) {
        int first = axis->out > 1 ? (int)((int64_t)i * (in - 1) / (axis->out - 1)) : 0;
        int count = axis->taps < in - first ? axis->taps : in - first;
        entry[0] = first;
        entry[1] = count;
        double raw[40], sum = 0;
        for (int k = 0; k < count; k++)
            sum += raw[k] = convoy_check_random(check, k == 0 ? 0.5 : -0.1, 1);
        for (int k = 0; k < axis->taps; k++)
            entry[2 + k] = k < count ? (int32_t)(raw[k] / sum * (1 << CONVOY_FIT_WEIGHT_BITS)) : 0;
    }
    convoy_check_upload(&buffer);
    axis->table = (const int32_t *)buffer.device;
    return buffer;
}

static struct made make_picture(struct convoy_check *check, const struct convoy_fit_job *job)
{
    struct made made = {0};
    struct convoy_fit_picture *picture = &made.picture;
    picture->form = (enum convoy_fit_form)convoy_check_between(check, 0, 9);
    if (picture->form > CONVOY_FIT_YCC)
        picture->form = CONVOY_FIT_YCC;
    if (picture->form == CONVOY_FIT_MISSING)
        return made;
    picture->width = convoy_check_between(check, 1, convoy_check_between(check, 0, 2) ? 9 : 60);
    picture->height = convoy_check_between(check, 1, convoy_check_between(check, 0, 2) ? 70 : 7);
    picture->half_x = convoy_check_between(check, 0, 1);
    picture->half_y = convoy_check_between(check, 0, 1);
    picture->chroma_width = (picture->width + picture->half_x) >> picture->half_x;
    picture->chroma_height = (picture->height + picture->half_y) >> picture->half_y;
    picture->orientation = convoy_check_between(check, 1, 8);
    picture->rows_first = convoy_check_between(check, 0, 1);
    for (int i = 0; i < (picture->form == CONVOY_FIT_YCC ? 3 : 1); i++) {
        made.planes[i] = make_plane(check, i ? picture->chroma_width : picture->width,
                                    i ? picture->chroma_height : picture->height, &picture->pitch[i]);
        picture->planes[i] = (const uint8_t *)made.planes[i].device;
    }
    bool turned = picture->orientation >= 5;
    made.tables[0] = make_axis(check, turned ? picture->height : picture->width, job->width, &picture->x);
    made.tables[1] = make_axis(check, turned ? picture->width : picture->height, job->height, &picture->y);
    return made;
}

static void free_made(struct made *made)
{
    for (int i = 0; i < 3; i++)
        convoy_check_free(&made->planes[i]);
    for (int i = 0; i < 2; i++)
        convoy_check_free(&made->tables[i]);
}

static int cut(int value)
{
    return value < 0 ? 0 : value > 255 ? 255 : value;
}

/* A plane at a place whose coordinates were doubled on halved axes: three parts of the sample and one of its
 * neighbour along each, as libjpeg rounds. */
static int upsampled(const struct made *made, int plane, int x, int y)
{
    const struct convoy_fit_picture *picture = &made->picture;
    const uint8_t *bytes = (const uint8_t *)made->planes[plane].host;
    int pitch = picture->pitch[plane], w = picture->chroma_width, h = picture->chroma_height;
    if (picture->half_x && w <= 2)
        return bytes[(picture->half_y ? y / 2 : y) * pitch + x / 2];
    int columns[2] = {x, x}, lines[2] = {y, y};
    if (picture->half_x) {
        columns[0] = x / 2;
        columns[1] = x % 2 ? x / 2 + 1 : x / 2 - 1;
    }
    if (picture->half_y) {
        lines[0] = y / 2;
        lines[1] = y % 2 ? y / 2 + 1 : y / 2 - 1;
    }
    columns[1] = columns[1] < 0 ? 0 : columns[1] >= w ? w - 1 : columns[1];
    lines[1] = lines[1] < 0 ? 0 : lines[1] >= h ? h - 1 : lines[1];
    int sums[2];
    for (int i = 0; i < 2; i++)
        sums[i] = picture->half_y
                      ? 3 * bytes[lines[0] * pitch + columns[i]] + bytes[lines[1] * pitch + columns[i]]
                      : bytes[lines[0] * pitch + columns[i]];
    if (picture->half_x && picture->half_y)
        return (3 * sums[0] + sums[1] + (x % 2 ? 7 : 8)) / 16;
    if (picture->half_x)
        return (3 * sums[0] + sums[1] + (x % 2 ? 2 : 1)) / 4;
    return picture->half_y ? (sums[0] + (y % 2 ? 2 : 1)) / 4 : sums[0];
}

static int floor_shift(int64_t value)
{
    return (int)(value >= 0 ? value / 65536 : -((-value + 65535) / 65536));
}

/* The upright picture, channels bytes a pixel. */
static uint8_t *upright(const struct made *made, int channels, int *width, int *height)
{
    const struct convoy_fit_picture *picture = &made->picture;
    int w = picture->width, h = picture->height, o = picture->orientation;
    *width = o >= 5 ? h : w;
    *height = o >= 5 ? w : h;
    uint8_t *result = zeroed((size_t)w * (size_t)h, (size_t)channels);
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++) {
            int luma = ((const uint8_t *)made->planes[0].host)[y * picture->pitch[0] + x];
            int rgb[3] = {luma, luma, luma};
            if (picture->form == CONVOY_FIT_YCC) {
                int cb = upsampled(made, 1, x, y) - 128, cr = upsampled(made, 2, x, y) - 128;
                rgb[0] = cut(luma + floor_shift(91881LL * cr + 32768));
                rgb[1] = cut(luma + floor_shift(-46802LL * cr - 22554LL * cb + 32768));
                rgb[2] = cut(luma + floor_shift(116130LL * cb + 32768));
            }
            /* Where TIFF 6.0 shows row 0 and column 0. */
            int across[] = {0, x, w - 1 - x, w - 1 - x, x, y, h - 1 - y, h - 1 - y, y};
            int down[] = {0, y, y, h - 1 - y, h - 1 - y, x, x, w - 1 - x, w - 1 - x};
            uint8_t *to = result + ((size_t)down[o] * (size_t)*width + (size_t)across[o]) * (size_t)channels;
            if (channels == 1)
                to[0] = (uint8_t)(picture->form == CONVOY_FIT_GREY
                                      ? luma
                                      : (19595 * rgb[0] + 38470 * rgb[1] + 7471 * rgb[2] + 32768) >> 16);
            for (int c = 0; channels == 3 && c < 3; c++)
                to[c] = (uint8_t)rgb[c];
        }
    return result;
}

/* One pass: lines of `in` pixels, step bytes apart, become lines of out pixels. */
static uint8_t *pass(const uint8_t *from, int lines, int64_t line_step, int64_t step, int channels,
                     const struct convoy_fit_axis *axis, const int32_t *table, bool along_x)
{
    uint8_t *result = zeroed((size_t)lines * (size_t)axis->out, (size_t)channels);
    for (int line = 0; line < lines; line++)
        for (int i = 0; i < axis->out; i++)
            for (int c = 0; c < channels; c++) {
                const int32_t *entry = table + (int64_t)i * (axis->taps + 2);
                int64_t sum = 1 << (CONVOY_FIT_WEIGHT_BITS - 1);
                for (int k = 0; k < entry[1]; k++)
                    sum += (int64_t)entry[2 + k] * from[line * line_step + (entry[0] + k) * step + c];
                int64_t value = sum >> CONVOY_FIT_WEIGHT_BITS;
                int64_t at = along_x ? (int64_t)line * axis->out + i : (int64_t)i * lines + line;
                result[at * channels + c] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
            }
    return result;
}

/* What a row has to be, as planes. */
static void reference(const struct convoy_fit_job *job, const struct made *made, double *want)
{
    const struct convoy_fit_picture *picture = &made->picture;
    int channels = job->channels, width, height;
    int64_t pixels = (int64_t)job->width * job->height;
    for (int c = 0; c < channels; c++)
        for (int64_t i = 0; i < pixels; i++)
            want[c * pixels + i] = picture->form == CONVOY_FIT_MISSING ? 0 : job->color[c];
    if (picture->form == CONVOY_FIT_MISSING)
        return;
    const struct convoy_fit_axis *x = &picture->x, *y = &picture->y;
    const int32_t *tables[2] = {(const int32_t *)made->tables[0].host, (const int32_t *)made->tables[1].host};
    uint8_t *source = upright(made, channels, &width, &height), *middle, *result;
    if (picture->rows_first) {
        middle = pass(source, width, channels, (int64_t)width * channels, channels, y, tables[1], false);
        result = pass(middle, y->out, (int64_t)width * channels, channels, channels, x, tables[0], true);
    } else {
        middle = pass(source, height, (int64_t)width * channels, channels, channels, x, tables[0], true);
        result = pass(middle, x->out, channels, (int64_t)x->out * channels, channels, y, tables[1], false);
    }
    for (int row = 0; row < y->out; row++)
        for (int column = 0; column < x->out; column++)
            for (int c = 0; c < channels; c++) {
                int64_t at = (int64_t)(y->before + row) * job->width + x->before + column;
                int from = channels == 3 && job->bgr ? 2 - c : c;
                want[c * pixels + at] = result[((int64_t)row * x->out + column) * channels + from];
            }
    free(source);
    free(middle);
    free(result);
}

void convoy_check_fit_images(struct convoy_check *check)
{
    struct made made[MOST_ROWS];
    struct convoy_fit_job job = {.rows = convoy_check_between(check, 1, MOST_ROWS),
                                 .width = convoy_check_between(check, 1, 70),
                                 .height = convoy_check_between(check, 1, 40),
                                 .channels = convoy_check_between(check, 0, 2) ? 3 : 1,
                                 .bgr = convoy_check_between(check, 0, 1)};
    for (int c = 0; c < 3; c++)
        job.color[c] = (uint8_t)convoy_check_between(check, 0, 255);
    int64_t pixels = (int64_t)job.width * job.height, values = pixels * job.channels;
    job.image_bytes = (values + 15) / 16 * 16 + 16 * convoy_check_between(check, 0, 2);
    struct convoy_check_buffer pictures =
        convoy_check_buffer(MOST_ROWS * (int64_t)sizeof(struct convoy_fit_picture) / 4, 0);
    struct convoy_check_buffer images = convoy_check_buffer(job.rows * job.image_bytes / 4, 0);
    struct convoy_check_buffer y = convoy_check_buffer(job.rows * values, 0);
    double *want = zeroed((size_t)(job.rows * values), sizeof *want);
    for (int i = 0; i < job.rows; i++) {
        made[i] = make_picture(check, &job);
        memcpy((char *)pictures.host + (size_t)i * sizeof made[i].picture, &made[i].picture,
               sizeof made[i].picture);
        reference(&job, &made[i], want + i * values);
    }
    convoy_check_upload(&pictures);
    job.pictures = (const struct convoy_fit_picture *)(const void *)pictures.device;
    job.images = (uint8_t *)images.device;
    cudaError_t launched = convoy_launch_fit_images(&job, NULL);
    /* As floats, which can be compared; its own check is another. */
    struct convoy_images read = {.data = images.device, .u8 = true, .image_bytes = job.image_bytes};
    for (int c = 0; c < CONVOY_KERNEL_CHANNELS; c++)
        read.multiply[c] = 1;
    if (launched == cudaSuccess)
        launched = convoy_launch_read_images(&read, job.rows, job.channels, pixels, y.device, NULL);
    double bound = check->bound;
    check->bound = 1e-9;
    const struct convoy_fit_picture *first = &made[0].picture;
    convoy_check_result(
        check, launched, &y, want, &images,
        "fit_images rows %d to %d x %d x %d, the first: form %d, %d x %d, half %d %d, orientation "
        "%d, rows first %d, taps %d %d, out %d %d",
        job.rows, job.width, job.height, job.channels, (int)first->form, first->width, first->height,
        first->half_x, first->half_y, first->orientation, (int)first->rows_first, first->x.taps,
        first->y.taps, first->x.out, first->y.out);
    check->bound = bound;
    for (int i = 0; i < job.rows; i++)
        free_made(&made[i]);
    free(want);
    convoy_check_free(&pictures);
    convoy_check_free(&images);
    convoy_check_free(&y);
}

/* Marks memory, decodes by hand, perhaps not to the end, and asks which pictures were written. */
void convoy_check_decoded_planes(struct convoy_check *check)
{
    struct convoy_fit_picture pictures[MOST_ROWS];
    struct convoy_check_buffer planes[MOST_ROWS];
    int rows = convoy_check_between(check, 1, MOST_ROWS);
    struct convoy_check_buffer table =
        convoy_check_buffer(MOST_ROWS * (int64_t)sizeof(struct convoy_fit_picture) / 4, 0);
    struct convoy_check_buffer unwritten = convoy_check_buffer(rows, 0),
                               y = convoy_check_buffer(4L * rows, 0);
    double *want = zeroed(4 * (size_t)rows, sizeof *want);
    cudaError_t launched = cudaSuccess;
    for (int i = 0; i < rows; i++) {
        struct convoy_fit_picture *picture = &pictures[i];
        *picture =
            (struct convoy_fit_picture){.form = (enum convoy_fit_form)convoy_check_between(check, 0, 2),
                                        .width = convoy_check_between(check, 1, 60),
                                        .height = convoy_check_between(check, 1, 70)};
        picture->chroma_width = (picture->width + 1) / 2;
        picture->chroma_height = picture->height;
        int count = picture->form == CONVOY_FIT_MISSING ? 0 : picture->form == CONVOY_FIT_GREY ? 1 : 3;
        planes[i] = convoy_check_buffer(3 * 64 * 70 / 4, 0);
        launched = launched != cudaSuccess
                       ? launched
                       : convoy_launch_mark_planes((uint8_t *)planes[i].device, 3 * 64 * 70, NULL);
        uint8_t *bytes = (uint8_t *)planes[i].host;
        for (int at = 0; at < 3 * 64 * 70; at++)
            bytes[at] = pattern[at % 2];
        bool untouched = i == 0 && convoy_check_between(check, 0, 1); /* as the kernel marked it */
        int left_out = convoy_check_between(check, 0, 3) ? -1 : convoy_check_between(check, 0, 2);
        for (int plane = 0; plane < count; plane++) {
            int width = plane ? picture->chroma_width : picture->width;
            int from = untouched           ? 0
                       : plane == left_out ? convoy_check_between(check, 0, picture->height - 1)
                                           : picture->height;
            picture->planes[plane] = (uint8_t *)planes[i].device + plane * 64 * 70;
            picture->pitch[plane] = 64;
            /* A single sample that is none of the pattern is enough. */
            for (int line = 0; line < from; line++)
                bytes[plane * 64 * 70 + line * 64 + convoy_check_between(check, 0, width - 1)] = 7;
            for (int line = from; line < picture->height && width >= 16; line++)
                if (line % 16 == 15 || line == picture->height - 1)
                    want[i] = 1;
        }
        if (!untouched)
            convoy_check_upload(&planes[i]);
    }
    memcpy(table.host, pictures, (size_t)rows * sizeof pictures[0]);
    convoy_check_upload(&table);
    if (launched == cudaSuccess)
        launched = convoy_launch_check_planes((const struct convoy_fit_picture *)(const void *)table.device,
                                              rows, (uint32_t *)unwritten.device, NULL);
    /* The bytes of the answers, as four channels. */
    struct convoy_images read = {.data = unwritten.device, .u8 = true, .image_bytes = 4L * rows};
    for (int c = 0; c < CONVOY_KERNEL_CHANNELS; c++)
        read.multiply[c] = 1;
    if (launched == cudaSuccess)
        launched = convoy_launch_read_images(&read, 1, 4, rows, y.device, NULL);
    convoy_check_result(check, launched, &y, want, &unwritten, "check_planes rows %d, the first %d x %d",
                        rows, pictures[0].width, pictures[0].height);
    for (int i = 0; i < rows; i++)
        convoy_check_free(&planes[i]);
    free(want);
    convoy_check_free(&table);
    convoy_check_free(&unwritten);
    convoy_check_free(&y);
}
