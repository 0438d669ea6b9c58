/* The checks of what works on images: pooling, and reading them. */
#include "kernels/check/check_operators.h"

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

static double pool_one(const struct convoy_pool_shape *shape, const float *plane, int row, int column)
{
    double result = shape->average ? 0 : -INFINITY;
    int taps = 0;
    bool empty = true;
    for (int r = 0; r < shape->window[0]; r++)
        for (int c = 0; c < shape->window[1]; c++) {
            int y = row * shape->stride[0] - shape->pad[0] + r * shape->dilation[0];
            int x = column * shape->stride[1] - shape->pad[1] + c * shape->dilation[1];
            bool inside = y >= 0 && y < shape->h && x >= 0 && x < shape->w;
            taps += inside ||
                    (shape->count_padding && y < shape->h + shape->pad[2] && x < shape->w + shape->pad[3]);
            if (!inside)
                continue;
            empty = false;
            double value = (double)plane[y * shape->w + x];
            result = shape->average ? result + value : fmax(result, value);
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

/* Windows that every network has, and any others. */
static struct convoy_pool_shape any_pool(struct convoy_check *check)
{
    struct convoy_pool_shape shape = {.planes = convoy_check_between(check, 1, 13),
                                      .average = convoy_check_between(check, 0, 1),
                                      .count_padding = convoy_check_between(check, 0, 1),
                                      .act = convoy_check_any_unary(check)};
    int form = convoy_check_between(check, 0, 3);
    shape.h = convoy_check_between(check, 2, 20);
    shape.w = convoy_check_between(check, 0, 1) ? convoy_check_between(check, 2, 20)
                                                : 4 * convoy_check_between(check, 1, 6);
    for (int i = 0; i < 2; i++) {
        int size = i == 0 ? shape.h : shape.w;
        shape.window[i] = form == 0   ? 2
                          : form == 1 ? size
                                      : convoy_check_between(check, 1, size < 5 ? size : 5);
        shape.stride[i] = form == 0 ? 2 : convoy_check_between(check, 1, 4);
        shape.dilation[i] = 1;
        if (form >= 2) {
            shape.pad[i] = convoy_check_between(check, 0, shape.window[i] - 1);
            shape.pad[i + 2] = convoy_check_between(check, 0, shape.window[i] - 1);
            if (form == 3 && (shape.window[i] - 1) * 2 < size)
                shape.dilation[i] = 2;
        }
    }
    shape.oh = outputs_along(shape.h, shape.pad[0], shape.pad[2], shape.window[0], shape.dilation[0],
                             shape.stride[0]);
    shape.ow = outputs_along(shape.w, shape.pad[1], shape.pad[3], shape.window[1], shape.dilation[1],
                             shape.stride[1]);
    if (form == 3 && convoy_check_between(check, 0, 1)) { /* rounded up: windows that begin past the border */
        shape.oh++;
        shape.ow++;
    }
    return shape;
}

void convoy_check_pool(struct convoy_check *check)
{
    struct convoy_pool_shape shape = any_pool(check);
    int64_t outputs = (int64_t)shape.oh * shape.ow;
    int64_t inputs = (int64_t)shape.h * shape.w;
    int offset = convoy_check_between(check, 0, 4) ? 0 : 1;
    struct convoy_check_buffer x = convoy_check_input(check, shape.planes * inputs, offset, -1, 2);
    struct convoy_check_buffer y = convoy_check_buffer(shape.planes * outputs, 0);
    double *want = doubles(y.floats);
    for (int64_t i = 0; i < y.floats; i++)
        want[i] = pool_one(&shape, x.host + i / outputs * inputs, (int)(i % outputs / shape.ow),
                           (int)(i % shape.ow));
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
