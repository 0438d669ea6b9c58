/* The configuration of a model, models/NAME/config.json; every key has a default, and the file may be absent.
 * Where config.json is the Hugging Face hub's (hub_folder.h) it says what it can, and the keys lie in
 * models/NAME/convoyd-model.json.
 * docs/configuration.md describes each key.
 *
 * Threads: plain data; the owner says which threads may read it. */
#ifndef CONVOY_SERVER_MODEL_CONFIG_H
#define CONVOY_SERVER_MODEL_CONFIG_H

#include "engine/base/error.h"
#include "server/config/config.h"
#include "server/config/label_file.h"
#include "server/config/model_input.h"
#include "server/config/version_policy.h"

#include <stdbool.h>
#include <stdint.h>

#define CONVOY_MODEL_DEVICES 16 /* devices are 0 to 15 */

/* What makes probabilities of the first output. AUTO: softmax, unless the network ends in one, or in a
 * sigmoid. */
enum convoy_output_activation {
    CONVOY_ACTIVATION_AUTO,
    CONVOY_ACTIVATION_SOFTMAX,
    CONVOY_ACTIVATION_SIGMOID,
    CONVOY_ACTIVATION_NONE
};
/* The least exact arithmetic that is accepted. */
enum convoy_model_precision { CONVOY_PRECISION_FP32, CONVOY_PRECISION_TF32, CONVOY_PRECISION_FP16 };

struct convoy_model_config {
    /* The path of the file with convoyd's keys, else of config.json, whether or not it is there. */
    char *file;

    struct convoy_model_input input;
    enum convoy_output_activation activation;
    double threshold; /* classes of a lower probability are left out of answers; 0: none is */
    enum convoy_model_precision precision;
    struct convoy_batching batching; /* the daemon's values where the model's file has none */
    uint32_t devices;                /* bit i: loaded on device i; 0: on all */
    bool response_cache;             /* answers are kept in the response cache, where the daemon has one */
    struct convoy_version_policy versions;
    struct convoy_label_list labels; /* empty: a class's label is its index as text */
};

/* Reads folder/config.json (folder: "models/NAME"; an absent file gives the defaults) or convoyd-model.json,
 * and the labels: the file that "labels" names inside folder, which must exist, else labels.txt where it
 * exists, else those of the hub's config.json. defaults are the daemon's. The caller frees *config with
 * convoy_model_config_free(). Errors as those of convoy_config_load(). */
int convoy_model_config_load(const char *folder, const struct convoy_batching *defaults,
                             struct convoy_model_config **config, struct convoy_error *error);

void convoy_model_config_free(struct convoy_model_config *config); /* NULL is allowed */

/* "fp32", "tf32", "fp16". */
const char *convoy_model_precision_text(enum convoy_model_precision precision);
/* As config.json writes them. */
const char *convoy_activation_text(enum convoy_output_activation activation);
/* As output.softmax, the older key, writes it: "auto", "on", "off". */
const char *convoy_softmax_text(enum convoy_output_activation activation);

#endif
