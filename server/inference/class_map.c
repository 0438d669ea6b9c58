#include "server/inference/class_map.h"

#include "server/image/image.h"
#include "server/image/png_write.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static uint32_t shortened(uint32_t side, uint32_t longest)
{
    if (longest <= CONVOY_CLASS_MAP_SIDE)
        return side;
    uint32_t scaled = (uint32_t)lrint((double)side * CONVOY_CLASS_MAP_SIDE / longest);
    return scaled > 0 ? scaled : 1;
}

/* Where the middle of pixel `at` of `out` lies among `in` values: between value *first and the next, at this
 * part of the way. Beyond the outer values' middles nothing changes. */
static double place(uint32_t at, uint32_t out, uint32_t in, uint32_t *first)
{
    double where = (at + 0.5) * in / out - 0.5;
    where = where < 0 ? 0 : where > in - 1.0 ? in - 1.0 : where;
    *first = (uint32_t)where < in - 1 ? (uint32_t)where : in > 1 ? in - 2 : 0;
    return in > 1 ? where - *first : 0;
}

static void find_range(const struct convoy_item *item, float *low, float *high)
{
    uint32_t values = item->map_height * item->map_width;
    *low = INFINITY;
    *high = -INFINITY;
    for (uint32_t i = 0; i < values; i++) {
        float value = item->class_map[i];
        if (!isfinite(value))
            continue;
        *low = value < *low ? value : *low;
        *high = value > *high ? value : *high;
    }
    if (*low > *high)
        *low = *high = 0;
}

static uint8_t level(double value, double low, double high)
{
    double part = high > low ? (value - low) / (high - low) : 0;
    return part >= 0 ? (uint8_t)lrint(255 * (part < 1 ? part : 1)) : 0; /* NaN is not >= 0 */
}

static void enlarge(const struct convoy_item *item, double low, double high, uint32_t width, uint32_t height,
                    uint8_t *pixels)
{
    uint32_t row_step = item->map_height > 1 ? item->map_width : 0, column_step = item->map_width > 1;
    for (uint32_t y = 0; y < height; y++) {
        uint32_t row;
        double down = place(y, height, item->map_height, &row);
        const float *upper = item->class_map + (size_t)row * item->map_width, *lower = upper + row_step;
        for (uint32_t x = 0; x < width; x++) {
            uint32_t column, next;
            double right = place(x, width, item->map_width, &column);
            next = column + column_step;
            double above = (1 - right) * (double)upper[column] + right * (double)upper[next];
            double below = (1 - right) * (double)lower[column] + right * (double)lower[next];
            *pixels++ = level((1 - down) * above + down * below, low, high);
        }
    }
}

int convoy_class_map_draw(const struct convoy_inference_request *inference, uint32_t i,
                          struct convoy_class_map_picture *picture, struct convoy_error *error)
{
    const struct convoy_item *item = &inference->samples[i].item;
    const struct convoy_model_shape *shape = &inference->view.shape;
    uint32_t longest = shape->width > shape->height ? shape->width : shape->height;
    uint32_t width = shortened(shape->width, longest), height = shortened(shape->height, longest);

    if (item->class_map == NULL || item->map_height != shape->map_height ||
        item->map_width != shape->map_width || item->map_class >= shape->output_elements[0])
        return convoy_fail(error, -EPROTO, "the worker sent no class activation map: try again");
    uint8_t *pixels = malloc((size_t)width * height);
    if (pixels == NULL)
        return convoy_fail(error, -ENOMEM, "the server is out of memory: try again later");
    find_range(item, &picture->low, &picture->high);
    enlarge(item, (double)picture->low, (double)picture->high, width, height, pixels);
    int code = convoy_png_write_grey(pixels, width, height, &picture->png, &picture->length, error);
    free(pixels);
    return code;
}

bool convoy_class_map_box(const struct convoy_inference_request *inference, uint32_t i,
                          struct convoy_image_box *box)
{
    const struct convoy_sample_input input = {.layout = inference->layout,
                                              .shape = &inference->view.shape,
                                              .resizing = &inference->view.resizing,
                                              .max_pixels = inference->pipeline->max_pixels};
    return convoy_sample_box(&input, &inference->samples[i], box);
}
