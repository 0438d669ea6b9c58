/* How a picture becomes the input of a model's network: "input" of its config.json.
 *
 * A picture is resized, its pixels (0 to 255) are scaled, then (x - mean) / std is taken per channel. docs/
 * configuration.md describes each key.
 *
 * Threads: plain data; the owner says which threads may read it. */
#ifndef CONVOY_SERVER_MODEL_INPUT_H
#define CONVOY_SERVER_MODEL_INPUT_H

#include "engine/base/error.h"
#include "engine/base/input_type.h"
#include "engine/base/json.h"

#include <stdbool.h>
#include <stdint.h>

#define CONVOY_PIXEL_CHANNELS 4 /* most channels of a network that reads pixels */

enum convoy_color {
    CONVOY_COLOR_AUTO, /* without the key: grey when the network has one channel, else rgb */
    CONVOY_COLOR_RGB,
    CONVOY_COLOR_GREY,
    CONVOY_COLOR_BGR
};
enum convoy_resize { CONVOY_RESIZE_STRETCH, CONVOY_RESIZE_CROP, CONVOY_RESIZE_PAD };
enum convoy_interpolation {
    CONVOY_INTERPOLATION_BILINEAR,
    CONVOY_INTERPOLATION_BICUBIC,
    CONVOY_INTERPOLATION_LANCZOS,
    CONVOY_INTERPOLATION_NEAREST
};

struct convoy_model_input {
    enum convoy_image_axes layout; /* of the file's input; AUTO: the file tells */
    uint32_t height, width;        /* where the file leaves them open; 0: not given */
    enum convoy_color color;
    enum convoy_resize resize;
    enum convoy_interpolation interpolation;
    /* Of what the input is cut out of the middle of: the side that the picture's shorter one is brought to
     * (stretch: both sides), or 0; else the part that is kept along each side. */
    uint32_t resize_to;
    double crop_fraction;
    /* The offset of what is cut out is rounded down, as transformers does, not half to even. */
    bool cuts_down;
    double pad_color[3];      /* R, G, B, 0 to 255 */
    uint32_t pad_color_count; /* 1 (for all three) or 3 */
    double scale;
    double mean[CONVOY_PIXEL_CHANNELS], std[CONVOY_PIXEL_CHANNELS];
    uint32_t mean_count, std_count; /* 1 (for all channels) or the number of channels */
    /* scale, mean or std, or a preset, was given. Without any a network of uint8 is given pixels as they are.
     */
    bool normalises;
};

/* What is asked of a picture's size, for one network. */
struct convoy_resizing {
    enum convoy_resize resize;
    enum convoy_interpolation interpolation;
    /* Crop: the picture is scaled until it covers this; stretch: to this. */
    uint32_t cover_width, cover_height;
    uint8_t pad_color[3]; /* R, G, B */
    bool bgr;             /* the network reads blue first */
    bool cuts_down;       /* as above */
};

/* What networks were trained with, by the names of "preset": torchvision's and timm's ImageNet classifiers,
 * timm's Inception family, OpenAI's CLIP; and pixels as they are, for networks that normalise by themselves.
 */
enum convoy_preset {
    CONVOY_PRESET_IMAGENET,
    CONVOY_PRESET_INCEPTION,
    CONVOY_PRESET_CLIP,
    CONVOY_PRESET_NONE
};
extern const struct convoy_model_input convoy_presets[];

/* The built-in values. */
void convoy_model_input_default(struct convoy_model_input *input);

/* Reads root's "input": a preset's values, then the keys beside it. -EINVAL names file and key. */
int convoy_model_input_read(const struct convoy_json *root, struct convoy_model_input *input,
                            struct convoy_error *error);

/* Reads the mean and the deviation of the channels, one or as many as there are, under these keys. */
int convoy_model_input_read_values(const struct convoy_json *object, const char *mean, const char *std,
                                   struct convoy_model_input *input, struct convoy_error *error);

/* Compares it with the network's input, after a worker has read it; file: the configuration's, for errors.
 * Networks of 1, 3 and 4 channels take pictures; of others, which answer /infer alone, only mean and std must
 * fit. -EINVAL names file and key. */
int convoy_model_input_check(const struct convoy_model_input *input, const char *file, uint32_t channels,
                             uint32_t height, uint32_t width, struct convoy_error *error);

/* For a network that reads height x width. A crop's cover size is resize_to on both sides, or each side
 * divided by crop_fraction and rounded down, as timm counts; never less than the input. */
void convoy_model_input_resizing(const struct convoy_model_input *input, uint32_t height, uint32_t width,
                                 struct convoy_resizing *resizing);

/* Per channel: normalised = pixel * multiply[c] + add[c] for 8-bit pixels, from ((x * scale) - mean) / std =
 * x * (scale / std) + (-mean / std), computed in double and rounded once. channels is at most
 * CONVOY_PIXEL_CHANNELS; a mean or std of one value holds for all channels. Before the number of channels is
 * known, ask for CONVOY_PIXEL_CHANNELS: those past mean_count and std_count repeat the last value. */
void convoy_model_input_transform(const struct convoy_model_input *input, uint32_t channels, float *multiply,
                                  float *add);

/* As config.json writes them; NULL-terminated, in the order of the enum. */
extern const char *const convoy_interpolations[];
const char *convoy_resize_text(enum convoy_resize resize);
const char *convoy_interpolation_text(enum convoy_interpolation interpolation);

#endif
