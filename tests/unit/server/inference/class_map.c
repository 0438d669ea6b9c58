/* The picture of a class activation map, and how many requests may ask for one. */
#include "server/inference/class_map.h"
#include "server/image/image.h"
#include "server/inference/class_map_quota.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct convoy_inference_request *request;
static struct convoy_item *item;
static struct convoy_class_map_picture picture;
static uint8_t pixels[CONVOY_CLASS_MAP_SIDE * CONVOY_CLASS_MAP_SIDE];

/* A request of a model whose input has this size, with a map of these values. */
static void begin(uint32_t height, uint32_t width, float *map, uint32_t map_height, uint32_t map_width)
{
    free(request);
    request = calloc(1, sizeof *request + sizeof request->samples[0]);
    request->view.shape = (struct convoy_model_shape){.height = height,
                                                      .width = width,
                                                      .channels = 3,
                                                      .map_height = map_height,
                                                      .map_width = map_width,
                                                      .output_elements = {5}};
    item = &request->samples[0].item;
    item->class_map = map;
    item->map_height = map_height;
    item->map_width = map_width;
    item->map_class = 4;
}

/* Draws the map, whose picture must have this size, into pixels. */
static void draw(int height, int width)
{
    struct convoy_image_scratch *scratch = convoy_image_scratch_new();
    struct convoy_image_info info;
    struct convoy_error error;
    cr_assert_eq(convoy_class_map_draw(request, 0, &picture, &error), 0, "%s", error.message);
    cr_assert_eq(convoy_image_probe(picture.png, picture.length, 1 << 20, &info, &error), 0);
    cr_assert(info.height == height && info.width == width, "%d x %d", info.height, info.width);
    const struct convoy_image_target target = {.width = width, .height = height, .channels = 1};
    cr_assert_eq(convoy_image_to_row(scratch, picture.png, picture.length, 1 << 20, &target, pixels, &error),
                 0);
    free(picture.png);
    convoy_image_scratch_free(scratch);
}

static void expect(const uint8_t *expected, size_t count)
{
    for (size_t i = 0; i < count; i++)
        cr_assert_eq(pixels[i], expected[i], "[%zu]: %d, expected %d", i, pixels[i], expected[i]);
}

/* Between the middles of two values the picture goes evenly from one to the other. */
Test(class_map, is_enlarged_between_the_middles_of_its_values)
{
    float map[] = {-1, 3};
    begin(1, 8, map, 1, 2);
    draw(1, 8);
    expect((const uint8_t[]){0, 0, 32, 96, 159, 223, 255, 255}, 8);
    cr_assert(picture.low == -1 && picture.high == 3);

    begin(8, 1, map, 2, 1);
    draw(8, 1);
    expect((const uint8_t[]){0, 0, 32, 96, 159, 223, 255, 255}, 8);

    float square[] = {0, 255, 255, 0};
    begin(2, 2, square, 2, 2);
    draw(2, 2);
    expect((const uint8_t[]){0, 255, 255, 0}, 4);
}

Test(class_map, of_one_value_or_equal_ones_is_black)
{
    float one[] = {7}, equal[] = {2, 2, 2, 2};
    begin(3, 2, one, 1, 1);
    draw(3, 2);
    expect((const uint8_t[6]){0}, 6);
    cr_assert(picture.low == 7 && picture.high == 7);
    begin(3, 2, equal, 2, 2);
    draw(3, 2);
    expect((const uint8_t[6]){0}, 6);
}

Test(class_map, what_is_no_number_is_black)
{
    float map[] = {NAN, 1, 5, -INFINITY, INFINITY, 3}, none[] = {NAN, INFINITY};
    begin(1, 6, map, 1, 6);
    draw(1, 6);
    expect((const uint8_t[]){0, 0, 255, 0, 255, 128}, 6);
    cr_assert(picture.low == 1 && picture.high == 5);
    begin(1, 2, none, 1, 2);
    draw(1, 2);
    expect((const uint8_t[]){0, 0}, 2);
    cr_assert(picture.low == 0 && picture.high == 0);
}

Test(class_map, a_picture_has_a_longest_side)
{
    float map[] = {0, 1, 2, 3};
    begin(1000, 2001, map, 2, 2);
    draw(128, 256);
    cr_assert(pixels[0] == 0 && pixels[128 * 256 - 1] == 255);
    begin(60000, 3, map, 2, 2);
    draw(256, 1);
    begin(256, 255, map, 2, 2);
    draw(256, 255);
}

Test(class_map, one_that_is_not_the_models_is_refused)
{
    float map[] = {0, 1, 2, 3};
    struct convoy_error error;
    begin(4, 4, map, 2, 2);
    item->map_class = 5;
    cr_assert_eq(convoy_class_map_draw(request, 0, &picture, &error), -EPROTO);
    begin(4, 4, map, 2, 2);
    item->map_height = 1;
    cr_assert_eq(convoy_class_map_draw(request, 0, &picture, &error), -EPROTO);
    begin(4, 4, map, 2, 2);
    item->map_width = 1;
    cr_assert_eq(convoy_class_map_draw(request, 0, &picture, &error), -EPROTO);
    begin(4, 4, NULL, 2, 2);
    cr_assert_eq(convoy_class_map_draw(request, 0, &picture, &error), -EPROTO);
}

Test(class_map, requests_are_counted)
{
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < CONVOY_CLASS_MAP_REQUESTS; i++)
            cr_assert(convoy_class_map_take());
        cr_assert_not(convoy_class_map_take());
        cr_assert_not(convoy_class_map_take());
        convoy_class_map_give();
        cr_assert(convoy_class_map_take());
        for (int i = 0; i < CONVOY_CLASS_MAP_REQUESTS; i++)
            convoy_class_map_give();
    }
}

/* What the batcher says of a sample, with a map and without. */
Test(class_map, says_why_there_is_none)
{
    static const struct {
        int code, status;
        const char *words;
    } outcomes[] = {{0, 200, NULL},
                    {-EAGAIN, 503, "loaded too often"},
                    {-ESTALE, 503, "not those that it was loaded from"},
                    {-ENOMEM, 503, "memory does not suffice"},
                    {-EIO, 500, "class activation map cannot be computed"},
                    {-ETIMEDOUT, 503, "deadline"},
                    {-ENODEV, 503, "can no longer be served"}};
    float map[] = {0, 1, 2, 3};
    const char *sentence;
    begin(4, 4, map, 2, 2);
    for (size_t i = 0; i < sizeof outcomes / sizeof outcomes[0]; i++) {
        item->status = outcomes[i].code;
        request->map = CONVOY_MAP_BEST;
        cr_assert_eq(convoy_inference_request_outcome(request, 0, &sentence), outcomes[i].status);
        cr_assert(outcomes[i].words == NULL ? sentence == NULL : strstr(sentence, outcomes[i].words) != NULL,
                  "%d: %s", outcomes[i].code, sentence);
        request->map = CONVOY_MAP_NONE;
        int without = convoy_inference_request_outcome(request, 0, &sentence);
        cr_assert(without == (outcomes[i].code == 0 ? 200
                              : i < 5               ? 500
                                                    : 503),
                  "%d: %d", outcomes[i].code, without);
    }
}
