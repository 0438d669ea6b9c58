/* The configuration of a model, models/NAME/config.json; every key has a default, and the file may be absent.
 *
 * Pixels are scaled first, then (x - mean) / std per channel. docs/configuration.md describes each key.
 *
 * Threads: plain data; the owner says which threads may read it. */
#ifndef CONVOY_SERVER_MODEL_CONFIG_H
#define CONVOY_SERVER_MODEL_CONFIG_H

#include "engine/base/error.h"
#include "server/config/config.h"
#include "server/config/label_file.h"
#include "server/config/version_policy.h"

#include <stdbool.h>
#include <stdint.h>

#define CONVOY_PIXEL_CHANNELS 4  /* most channels of a network that reads pixels */
#define CONVOY_MODEL_DEVICES  16 /* devices are 0 to 15 */

enum convoy_color {
    CONVOY_COLOR_AUTO, /* without the key: grey when the network has one channel, rgb when it has three */
    CONVOY_COLOR_RGB,
    CONVOY_COLOR_GREY
};
enum convoy_resize { CONVOY_RESIZE_STRETCH, CONVOY_RESIZE_CROP };
enum convoy_softmax { CONVOY_SOFTMAX_AUTO, CONVOY_SOFTMAX_ON, CONVOY_SOFTMAX_OFF };
/* The least exact arithmetic that is accepted. */
enum convoy_model_precision { CONVOY_PRECISION_FP32, CONVOY_PRECISION_TF32, CONVOY_PRECISION_FP16 };

struct convoy_model_config {
    char *file; /* config.json's path, whether or not it is there */

    enum convoy_color color;
    enum convoy_resize resize;
    double scale;
    double mean[CONVOY_PIXEL_CHANNELS], std[CONVOY_PIXEL_CHANNELS];
    uint32_t mean_count, std_count; /* 1 (for all channels) or the number of channels */
    enum convoy_softmax softmax;
    enum convoy_model_precision precision;
    struct convoy_batching batching; /* the daemon's values where the model's file has none */
    uint32_t devices;                /* bit i: loaded on device i; 0: on all */
    bool response_cache;             /* answers are kept in the response cache, where the daemon has one */
    struct convoy_version_policy versions;
    struct convoy_label_list labels; /* empty: a class's label is its index as text */
};

/* Reads folder/config.json (folder: "models/NAME"; an absent file gives the defaults) and the labels: the
 * file that "labels" names inside folder, which must exist, else labels.txt where it exists. defaults are the
 * daemon's. The caller frees *config with convoy_model_config_free(). Errors as those of
 * convoy_config_load(). */
int convoy_model_config_load(const char *folder, const struct convoy_batching *defaults,
                             struct convoy_model_config **config, struct convoy_error *error);

void convoy_model_config_free(struct convoy_model_config *config); /* NULL is allowed */

/* Compares the configuration with the network's input, after a worker has read it. Networks of 1 and 3
 * channels take images; of others, which answer /infer alone, only mean and std must fit. -EINVAL names file
 * and key. */
int convoy_model_config_check(const struct convoy_model_config *config, uint32_t channels, uint32_t height,
                              uint32_t width, struct convoy_error *error);

/* Per channel: normalised = pixel * multiply[c] + add[c] for 8-bit pixels, from ((x * scale) - mean) / std =
 * x * (scale / std) + (-mean / std), computed in double and rounded once. channels is at most
 * CONVOY_PIXEL_CHANNELS; a mean or std of one value holds for all channels. Before the number of channels is
 * known, ask for CONVOY_PIXEL_CHANNELS: those past mean_count and std_count repeat the last value. */
void convoy_model_config_transform(const struct convoy_model_config *config, uint32_t channels,
                                   float *multiply, float *add);

/* "fp32", "tf32", "fp16". */
const char *convoy_model_precision_text(enum convoy_model_precision precision);
/* As config.json writes them. */
const char *convoy_resize_text(enum convoy_resize resize);
const char *convoy_softmax_text(enum convoy_softmax softmax);

#endif
