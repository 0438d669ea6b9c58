#include "server/config/model_input.h"

#include "engine/base/cover_side.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Behind AUTO, which is not written. */
static const char *const colors[] = {"rgb", "grey", "bgr", NULL};
static const char *const resizes[] = {"stretch", "crop", "pad", NULL};
const char *const convoy_interpolations[] = {"bilinear", "bicubic", "lanczos", "nearest", NULL};
static const char *const layouts[] = {"auto", "nchw", "nhwc", NULL};
static const char *const preset_names[] = {"imagenet", "imagenet-inception", "clip", "none", NULL};

const struct convoy_model_input convoy_presets[] = {
    [CONVOY_PRESET_IMAGENET] = {.color = CONVOY_COLOR_RGB,
                                .resize = CONVOY_RESIZE_CROP,
                                .crop_fraction = 0.875,
                                .scale = 1.0 / 255.0,
                                .mean = {0.485, 0.456, 0.406},
                                .std = {0.229, 0.224, 0.225},
                                .mean_count = 3,
                                .std_count = 3,
                                .pad_color_count = 1},
    [CONVOY_PRESET_INCEPTION] = {.color = CONVOY_COLOR_RGB,
                                 .resize = CONVOY_RESIZE_CROP,
                                 .interpolation = CONVOY_INTERPOLATION_BICUBIC,
                                 .crop_fraction = 0.875,
                                 .scale = 1.0 / 255.0,
                                 .mean = {0.5},
                                 .std = {0.5},
                                 .mean_count = 1,
                                 .std_count = 1,
                                 .pad_color_count = 1},
    [CONVOY_PRESET_CLIP] = {.color = CONVOY_COLOR_RGB,
                            .resize = CONVOY_RESIZE_CROP,
                            .interpolation = CONVOY_INTERPOLATION_BICUBIC,
                            .crop_fraction = 1.0,
                            .scale = 1.0 / 255.0,
                            .mean = {0.48145466, 0.4578275, 0.40821073},
                            .std = {0.26862954, 0.26130258, 0.27577711},
                            .mean_count = 3,
                            .std_count = 3,
                            .pad_color_count = 1},
    [CONVOY_PRESET_NONE] = {.crop_fraction = 1.0,
                            .scale = 1.0,
                            .mean_count = 1,
                            .std = {1.0},
                            .std_count = 1,
                            .pad_color_count = 1},
};

const char *convoy_resize_text(enum convoy_resize resize)
{
    return resizes[resize];
}

const char *convoy_interpolation_text(enum convoy_interpolation interpolation)
{
    return convoy_interpolations[interpolation];
}

void convoy_model_input_default(struct convoy_model_input *input)
{
    *input = (struct convoy_model_input){.crop_fraction = 1.0,
                                         .scale = 1.0 / 255.0,
                                         .mean_count = 1,
                                         .std = {1.0},
                                         .std_count = 1,
                                         .pad_color_count = 1};
}

static int read_resize(const struct convoy_json *object, struct convoy_model_input *input,
                       struct convoy_error *error)
{
    unsigned resize = input->resize, interpolation = input->interpolation;
    int result;
    if ((result = convoy_json_choice(object, "resize", resizes, &resize, error)) < 0 ||
        (result = convoy_json_choice(object, "interpolation", convoy_interpolations, &interpolation, error)) <
            0 ||
        (result = convoy_json_uint32(object, "resize_to", 1, 65535, &input->resize_to, error)) < 0 ||
        (result = convoy_json_double(object, "crop_fraction", 0.01, 1.0, &input->crop_fraction, error)) < 0 ||
        (result = convoy_json_doubles(object, "pad_color", 0, 255, input->pad_color, 3,
                                      &input->pad_color_count, error)) < 0)
        return result;
    input->resize = (enum convoy_resize)resize;
    input->interpolation = (enum convoy_interpolation)interpolation;
    bool has_side = convoy_json_has(object, "resize_to"), has_part = convoy_json_has(object, "crop_fraction");
    /* Who crops means to keep the sides' ratio, unless "stretch" is written. */
    bool crops = input->resize == CONVOY_RESIZE_CROP ||
                 (input->resize == CONVOY_RESIZE_STRETCH && convoy_json_has(object, "resize"));
    if ((has_side || has_part) && !crops)
        return convoy_fail(error, -EINVAL,
                           "%s: %s.%s is for \"resize\": \"crop\" or \"stretch\", which is not set",
                           object->file, object->path, has_side ? "resize_to" : "crop_fraction");
    if (input->resize == CONVOY_RESIZE_STRETCH && !has_side && !has_part) { /* a preset's is its crop's */
        input->resize_to = 0;
        input->crop_fraction = 1.0;
    }
    if (has_side && has_part)
        return convoy_fail(error, -EINVAL,
                           "%s: %s.resize_to and crop_fraction say the same: give one of them", object->file,
                           object->path);
    if (convoy_json_has(object, "pad_color") && input->resize != CONVOY_RESIZE_PAD)
        return convoy_fail(error, -EINVAL, "%s: %s.pad_color is for \"resize\": \"pad\", which is not set",
                           object->file, object->path);
    if (input->pad_color_count == 2)
        return convoy_fail(error, -EINVAL, "%s: %s.pad_color must be a number, or red, green and blue",
                           object->file, object->path);
    return 0;
}

int convoy_model_input_read_values(const struct convoy_json *object, const char *mean, const char *std,
                                   struct convoy_model_input *input, struct convoy_error *error)
{
    int result = convoy_json_doubles(object, mean, -1e9, 1e9, input->mean, CONVOY_PIXEL_CHANNELS,
                                     &input->mean_count, error);
    return result < 0 ? result
                      : convoy_json_doubles(object, std, 1e-9, 1e9, input->std, CONVOY_PIXEL_CHANNELS,
                                            &input->std_count, error);
}

int convoy_model_input_read(const struct convoy_json *root, struct convoy_model_input *input,
                            struct convoy_error *error)
{
    static const char *const known[] = {
        "preset",        "color",         "layout",    "height", "width", "resize", "resize_to",
        "crop_fraction", "interpolation", "pad_color", "scale",  "mean",  "std",    NULL};
    unsigned color = 0, preset = 0, layout = CONVOY_AXES_AUTO;
    struct convoy_json object;
    int result;
    if ((result = convoy_json_object(root, "input", &object, error)) < 0 ||
        (result = convoy_json_known(&object, known, error)) < 0 ||
        (result = convoy_json_choice(&object, "preset", preset_names, &preset, error)) < 0)
        return result;
    if (object.value == NULL)
        return 0;
    if (convoy_json_has(&object, "preset"))
        *input = convoy_presets[preset];
    /* Within these bounds everything that convoy_model_input_transform() computes is a finite float32. */
    if ((result = convoy_json_choice(&object, "color", colors, &color, error)) < 0 ||
        (result = convoy_json_choice(&object, "layout", layouts, &layout, error)) < 0 ||
        (result = convoy_json_uint32(&object, "height", 1, 65535, &input->height, error)) < 0 ||
        (result = convoy_json_uint32(&object, "width", 1, 65535, &input->width, error)) < 0 ||
        (result = read_resize(&object, input, error)) < 0 ||
        (result = convoy_json_double(&object, "scale", 1e-9, 1e9, &input->scale, error)) < 0 ||
        (result = convoy_model_input_read_values(&object, "mean", "std", input, error)) < 0)
        return result;
    if (convoy_json_has(&object, "color"))
        input->color = (enum convoy_color)(CONVOY_COLOR_RGB + color);
    input->layout = (enum convoy_image_axes)layout;
    input->normalises = convoy_json_has(&object, "preset") || convoy_json_has(&object, "scale") ||
                        convoy_json_has(&object, "mean") || convoy_json_has(&object, "std");
    return 0;
}

static int check_count(const char *file, const char *key, uint32_t count, uint32_t channels, uint32_t height,
                       uint32_t width, struct convoy_error *error)
{
    if (count == 1 || count == channels)
        return 0;
    return convoy_fail(error, -EINVAL,
                       "%s: input.%s has %u values, but the network reads %u x %u x %u (C x H x W); give one "
                       "value for all channels, or one for each",
                       file, key, count, channels, height, width);
}

int convoy_model_input_check(const struct convoy_model_input *input, const char *file, uint32_t channels,
                             uint32_t height, uint32_t width, struct convoy_error *error)
{
    uint32_t wanted = input->color == CONVOY_COLOR_GREY ? 1 : 3;
    bool has_alpha = wanted == 3 && channels == 4;
    if (input->color != CONVOY_COLOR_AUTO && channels != wanted && !has_alpha)
        return convoy_fail(error, -EINVAL,
                           "%s: input.color is \"%s\" (%u channels), but the network reads %u x %u x %u "
                           "(C x H x W); %s",
                           file, colors[input->color - CONVOY_COLOR_RGB], wanted, channels, height, width,
                           channels == 1 ? "write \"grey\""
                           : channels == 3 || channels == 4
                               ? "write \"rgb\" or \"bgr\""
                               : "leave input.color out: this network takes no images");
    if (input->resize_to > 0 && (input->resize_to < height || input->resize_to < width))
        return convoy_fail(error, -EINVAL,
                           "%s: input.resize_to is %u, but the network reads %u x %u pixels: nothing is "
                           "left to crop; give its larger side at least",
                           file, input->resize_to, height, width);
    int result = check_count(file, "mean", input->mean_count, channels, height, width, error);
    if (result == 0)
        result = check_count(file, "std", input->std_count, channels, height, width, error);
    return result;
}

static uint32_t covering(const struct convoy_model_input *input, uint32_t side)
{
    return convoy_cover_side(input->resize_to, input->crop_fraction, side);
}

void convoy_model_input_resizing(const struct convoy_model_input *input, uint32_t height, uint32_t width,
                                 struct convoy_resizing *resizing)
{
    *resizing = (struct convoy_resizing){.resize = input->resize,
                                         .interpolation = input->interpolation,
                                         .bgr = input->color == CONVOY_COLOR_BGR,
                                         .cuts_down = input->cuts_down,
                                         .cover_width = covering(input, width),
                                         .cover_height = covering(input, height)};
    for (uint32_t c = 0; c < 3; c++)
        resizing->pad_color[c] = (uint8_t)lround(input->pad_color[input->pad_color_count == 3 ? c : 0]);
}

void convoy_model_input_transform(const struct convoy_model_input *input, uint32_t channels, float *multiply,
                                  float *add)
{
    for (uint32_t c = 0; c < channels; c++) {
        double mean = input->mean[c < input->mean_count ? c : input->mean_count - 1];
        double std = input->std[c < input->std_count ? c : input->std_count - 1];
        multiply[c] = (float)(input->scale / std);
        add[c] = (float)(-mean / std);
    }
}
