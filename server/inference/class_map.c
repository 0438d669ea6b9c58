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

/* Where the middle of pixel `at` of `out` lies among `in` values: between values first and next, at this part
 * of the way. Beyond the outer values' middles nothing changes. */
struct place {
    uint32_t first, next;
    double part;
};

static struct place place_of(uint32_t at, uint32_t out, uint32_t in)
{
    double where = (at + 0.5) * in / out - 0.5;
    where = where < 0 ? 0 : where > in - 1.0 ? in - 1.0 : where;
    uint32_t first = (uint32_t)where;
    return (struct place){first, first + (first + 1 < in), where - first};
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

/* The first value alone where the second has no part: it may be no number. */
static double between(double first, double second, double part)
{
    return part > 0 ? (1 - part) * first + part * second : first;
}

static void enlarge(const struct convoy_item *item, double low, double high, uint32_t width, uint32_t height,
                    uint8_t *pixels)
{
    for (uint32_t y = 0; y < height; y++) {
        struct place row = place_of(y, height, item->map_height);
        const float *upper = item->class_map + (size_t)row.first * item->map_width;
        const float *lower = item->class_map + (size_t)row.next * item->map_width;
        for (uint32_t x = 0; x < width; x++) {
            struct place column = place_of(x, width, item->map_width);
            double above = between((double)upper[column.first], (double)upper[column.next], column.part);
            double below = between((double)lower[column.first], (double)lower[column.next], column.part);
            *pixels++ = level(between(above, below, row.part), low, high);
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
