/* The checks of what works on images: pooling, and reading them. */
#include "kernels/check/check_operators.h"

#include "kernels/nhwc.h"

#include <math.h>
#include <stdlib.h>

static double *doubles(int64_t count)
{
    double *values = malloc((size_t)count * sizeof *values);
    if (!values)
        exit(1);
    return values;
}

/* ---- Pooling ---- */

#define USUAL 8 /* cases with which a check begins */

/* padding: what a mean finds in the padding. */
static double pool_one(const struct convoy_pool_shape *shape, const float *plane, int row, int column,
                       double padding)
{
    double result = shape->average ? 0 : -INFINITY;
    int taps = 0;
    bool empty = true;
    for (int r = 0; r < shape->window[0]; r++)
        for (int c = 0; c < shape->window[1]; c++) {
            int y = row * shape->stride[0] - shape->pad[0] + r * shape->dilation[0];
            int x = column * shape->stride[1] - shape->pad[1] + c * shape->dilation[1];
            bool inside = y >= 0 && y < shape->h && x >= 0 && x < shape->w;
            bool counts = inside || (shape->count_padding && y < shape->h + shape->pad[2] &&
                                     x < shape->w + shape->pad[3]);
            taps += counts;
            if (!inside) {
                result += shape->average && counts ? padding : 0;
                continue;
            }
            empty = false;
            double value = (double)plane[y * shape->w + x];
            result = shape->average ? result + value : convoy_check_larger(result, value);
        }
    if (empty)
        result = 0;
    else if (shape->average)
        result /= taps;
    return convoy_check_apply_unary(shape->act, result);
}

static int outputs_along(int size, int before, int after, int window, int dilation, int stride)
{
    return (size + before + after - (window - 1) * dilation - 1) / stride + 1;
}

/* Windows that every network has (2 x 2, 3 x 3, all of an image), and any others. large: images of 3 x 3
 * windows alone, so many that a thread of nhwc_pool_rows makes several rows on a GPU, too. */
static struct convoy_pool_shape any_pool(struct convoy_check *check, bool large)
{
    struct convoy_pool_shape shape = {.planes = convoy_check_between(check, 1, 13),
                                      .average = convoy_check_between(check, 0, 1),
                                      .count_padding = convoy_check_between(check, 0, 1),
                                      .act = convoy_check_any_unary(check)};
    bool usual = !large && check->cases < USUAL; /* all of: 2 x 2 or 3 x 3; maxima, means; padding counts */
    int form = large || usual ? 4 : convoy_check_between(check, 0, 5);
    int side = large ? 3 : usual ? 2 + check->cases % 2 : convoy_check_between(check, 2, 3);
    int stride = convoy_check_between(check, side == 2 ? 2 : 1, 2);
    if (usual) {
        shape.average = check->cases / 2 % 2;
        shape.count_padding = check->cases / 4;
    }
    shape.h = convoy_check_between(check, 2, 20);
    shape.w = convoy_check_between(check, 0, 1) ? convoy_check_between(check, 2, 20)
                                                : 4 * convoy_check_between(check, 1, 6);
    if (large) {
        shape.planes = 180;
        shape.h = shape.w = convoy_check_between(check, 20, 22);
    }
    for (int i = 0; i < 2; i++) {
        int size = i == 0 ? shape.h : shape.w;
        shape.window[i] = form == 0   ? 2
                          : form == 1 ? size
                          : form >= 4 ? side
                                      : convoy_check_between(check, 1, 5);
        shape.window[i] = shape.window[i] < size ? shape.window[i] : size;
        shape.stride[i] = form == 0 ? 2 : form >= 4 ? stride : convoy_check_between(check, 1, 4);
        shape.dilation[i] = 1;
        if (form >= 2) {
            bool other = form == 5 && convoy_check_between(check, 0, 2) == 0; /* than networks have it */
            bool wide =
                form >= 4 && !usual && convoy_check_between(check, 0, 3) == 0; /* so that a window is empty */
            shape.pad[i] = wide ? shape.window[i] : convoy_check_between(check, 0, shape.window[i] - 1);
            shape.pad[i + 2] = convoy_check_between(check, 0, shape.window[i] - 1);
            if (usual)
                shape.pad[i] = shape.window[i] - 1;
            if ((form == 3 || other) && (shape.window[i] - 1) * 2 < size && convoy_check_between(check, 0, 1))
                shape.dilation[i] = 2;
            else if (other)
                shape.stride[i] = convoy_check_between(check, 1, 2);
        }
    }
    shape.oh = outputs_along(shape.h, shape.pad[0], shape.pad[2], shape.window[0], shape.dilation[0],
                             shape.stride[0]);
    shape.ow = outputs_along(shape.w, shape.pad[1], shape.pad[3], shape.window[1], shape.dilation[1],
                             shape.stride[1]);
    if ((form == 3 || form == 5) &&
        convoy_check_between(check, 0, 1)) { /* rounded up: windows that begin past the border */
        shape.oh++;
        shape.ow++;
    }
    return shape;
}

void convoy_check_pool(struct convoy_check *check)
{
    struct convoy_pool_shape shape = any_pool(check, false);
    int64_t outputs = (int64_t)shape.oh * shape.ow;
    int64_t inputs = (int64_t)shape.h * shape.w;
    int offset = convoy_check_between(check, 0, 4) ? 0 : 1;
    struct convoy_check_buffer x = convoy_check_input(check, shape.planes * inputs, offset, -1, 2);
    struct convoy_check_buffer y = convoy_check_buffer(shape.planes * outputs, 0);
    double *want = doubles(y.floats);
    for (int64_t i = 0; i < y.floats; i++)
        want[i] = pool_one(&shape, x.host + i / outputs * inputs, (int)(i % outputs / shape.ow),
                           (int)(i % shape.ow), 0);
    cudaError_t launched = convoy_launch_pool(&shape, x.device, y.device, NULL);
    convoy_check_result(
        check, launched, &y, want, NULL,
        "pool %s%s planes %lld, %d x %d into %d x %d, window %d %d stride %d %d dilation %d %d pad %d %d "
        "%d %d act %d offset %d",
        shape.average ? "average" : "max", shape.count_padding ? " with padding" : "",
        (long long)shape.planes, shape.h, shape.w, shape.oh, shape.ow, shape.window[0], shape.window[1],
        shape.stride[0], shape.stride[1], shape.dilation[0], shape.dilation[1], shape.pad[0], shape.pad[1],
        shape.pad[2], shape.pad[3], (int)shape.act.kind, offset);
    free(want);
    convoy_check_free(&x);
    convoy_check_free(&y);
}

/* ---- Pooling in 16 bits ---- */

/* Random numbers as fp16 holds them, here and there NaN; infinite: some neighbours are minus infinity. */
static struct convoy_check_buffer any_halves(struct convoy_check *check, int64_t count, bool infinite)
{
    struct convoy_check_buffer x = convoy_check_input(check, count, 0, -1, 2);
    for (int64_t i = 0; i < count; i++)
        x.host[i] = (float)convoy_check_round((double)x.host[i], CONVOY_COMPUTE_FP16);
    int64_t first = convoy_check_between(check, 0, (int)count - 1);
    for (int64_t i = first; infinite && i < first + 60 && i < count; i++)
        x.host[i] = -INFINITY;
    if (convoy_check_between(check, 0, 2) == 0)
        x.host[convoy_check_between(check, 0, (int)count - 1)] = NAN;
    convoy_check_upload(&x);
    return x;
}

void convoy_check_nhwc_pool(struct convoy_check *check)
{
    static const int channels[] = {1, 8, 24, 60, 64, 72, 136, 200};
    bool large = check->cases >= USUAL && convoy_check_between(check, 0, 7) == 0;
    bool infinite = convoy_check_between(check, 0, 3) == 0;
    struct convoy_pool_shape shape = any_pool(check, large);
    if (infinite) /* of which some activations make NaN, and others do not */
        shape.act = (struct convoy_unary){CONVOY_UNARY_NONE, 0, 0};
    int64_t c = large ? 8 : CONVOY_CHECK_PICK(check, channels), padded = convoy_nhwc_channels(c);
    int64_t x_pixel = padded + 8 * convoy_check_between(check, 0, 2);
    int64_t y_pixel = padded + 8 * convoy_check_between(check, 0, 2);
    int64_t outputs = (int64_t)shape.oh * shape.ow, inputs = (int64_t)shape.h * shape.w;
    struct convoy_check_buffer x = any_halves(check, shape.planes * c * inputs, infinite);
    struct convoy_check_buffer y = convoy_check_buffer(shape.planes * c * outputs, 0);
    struct convoy_check_buffer x_half = convoy_check_buffer(shape.planes * inputs * x_pixel / 2, 0);
    struct convoy_check_buffer y_half = convoy_check_buffer(shape.planes * outputs * y_pixel / 2, 0);
    const struct convoy_nhwc_planes from = {shape.planes, c, inputs, x_pixel, false};
    const struct convoy_nhwc_planes to = {shape.planes, c, outputs, y_pixel, false};
    struct convoy_check_buffer padding = convoy_check_input(check, c, 0, -1, 2);
    bool padded_with = convoy_check_between(check, 0, 1);
    double *want = doubles(y.floats);
    for (int64_t i = 0; i < y.floats; i++)
        want[i] = pool_one(&shape, x.host + i / outputs * inputs, (int)(i % outputs / shape.ow),
                           (int)(i % shape.ow), padded_with ? (double)padding.host[i / outputs % c] : 0);
    cudaError_t launched = convoy_launch_nhwc_from_planes(&from, x.device, convoy_check_halves(&x_half),
                                                          (struct convoy_overflow){0}, NULL);
    if (launched == cudaSuccess)
        launched = convoy_launch_nhwc_pool(&shape, c, convoy_check_halves(&x_half), x_pixel,
                                           padded_with ? padding.device : NULL, convoy_check_halves(&y_half),
                                           y_pixel, NULL);
    if (launched == cudaSuccess)
        launched = convoy_launch_nhwc_to_planes(&to, convoy_check_halves(&y_half), y.device, NULL);
    check->bound = 2e-3; /* results are rounded to fp16 */
    check->has_nan = true;
    convoy_check_result(
        check, launched, &y, want, &y_half,
        "nhwc_pool %s%s%s %lld images of %lld, pixels of %lld and %lld, %d x %d into %d x %d, window %d %d "
        "stride %d %d dilation %d %d pad %d %d %d %d act %d",
        shape.average ? "average" : "max", shape.count_padding ? " with padding" : "",
        padded_with ? " of numbers" : "", (long long)shape.planes, (long long)c, (long long)x_pixel,
        (long long)y_pixel, shape.h, shape.w, shape.oh, shape.ow, shape.window[0], shape.window[1],
        shape.stride[0], shape.stride[1], shape.dilation[0], shape.dilation[1], shape.pad[0], shape.pad[1],
        shape.pad[2], shape.pad[3], (int)shape.act.kind);
    free(want);
    convoy_check_free(&x);
    convoy_check_free(&padding);
    convoy_check_free(&y);
    convoy_check_free(&x_half);
    convoy_check_free(&y_half);
}

/* ---- Images ---- */

void convoy_check_read_images(struct convoy_check *check)
{
    int n = convoy_check_between(check, 1, 9);
    bool u8 = convoy_check_between(check, 0, 3) != 0;
    int c = convoy_check_between(check, 1, u8 ? CONVOY_KERNEL_CHANNELS : 7);
    int64_t pixels = convoy_check_between(check, 0, 1) ? convoy_check_between(check, 1, 40)
                                                       : 4 * convoy_check_between(check, 1, 200);
    int64_t unit = u8 ? 16 : 4;
    int64_t values = c * pixels;
    struct convoy_images images = {.u8 = u8};
    images.image_bytes =
        ((u8 ? values : 4 * values) + unit - 1) / unit * unit + unit * convoy_check_between(check, 0, 4);
    struct convoy_check_buffer x = convoy_check_input(check, n * images.image_bytes / 4, 0, -1, 1);
    struct convoy_check_buffer y = convoy_check_buffer(n * values, 0);
    for (int i = 0; i < CONVOY_KERNEL_CHANNELS; i++) {
        images.multiply[i] = (float)convoy_check_random(check, 0.01, 0.02);
        images.add[i] = (float)convoy_check_random(check, 0.1, 3);
    }
    images.data = x.device;
    uint8_t *bytes = (uint8_t *)x.host;
    if (u8) {
        for (int64_t i = 0; i < n * images.image_bytes; i++)
            bytes[i] = (uint8_t)convoy_check_between(check, 0, 255);
        convoy_check_upload(&x);
    }
    double *want = doubles(n * values);
    for (int64_t i = 0; i < n * values; i++) {
        int64_t image = i / values;
        int channel = (int)(i / pixels % c);
        int64_t pixel = i % pixels;
        want[i] = u8 ? (double)bytes[image * images.image_bytes + pixel * c + channel] *
                               (double)images.multiply[channel] +
                           (double)images.add[channel]
                     : (double)x.host[image * images.image_bytes / 4 + channel * pixels + pixel];
    }
    cudaError_t launched = convoy_launch_read_images(&images, n, c, pixels, y.device, NULL);
    convoy_check_result(check, launched, &y, want, NULL,
                        "read_images %s n %d c %d pixels %lld image_bytes %lld", u8 ? "u8" : "float", n, c,
                        (long long)pixels, (long long)images.image_bytes);
    free(want);
    convoy_check_free(&x);
    convoy_check_free(&y);
}
