#include "server/config/model_config.h"

#include "engine/base/json.h"
#include "server/config/hub_folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONFIG_FILE "config.json"
#define OWN_FILE    "convoyd-model.json"
#define LABELS_FILE "labels.txt"

static const char *const activations[] = {"auto", "softmax", "sigmoid", "none", NULL};
static const char *const softmaxes[] = {"auto", "on", "off", NULL};
static const char *const precisions[] = {"fp32", "tf32", "fp16", NULL};

const char *convoy_model_precision_text(enum convoy_model_precision precision)
{
    return precisions[precision];
}

const char *convoy_activation_text(enum convoy_output_activation activation)
{
    return activations[activation];
}

const char *convoy_softmax_text(enum convoy_output_activation activation)
{
    return activation == CONVOY_ACTIVATION_AUTO      ? "auto"
           : activation == CONVOY_ACTIVATION_SOFTMAX ? "on"
                                                     : "off";
}

void convoy_model_config_free(struct convoy_model_config *config)
{
    if (config == NULL)
        return;
    free(config->file);
    convoy_version_policy_free(&config->versions);
    convoy_label_list_free(&config->labels);
    free(config);
}

static int read_output(const struct convoy_json *root, struct convoy_model_config *config,
                       struct convoy_error *error)
{
    static const char *const known[] = {"activation", "softmax", "threshold", NULL};
    static const enum convoy_output_activation of_softmax[] = {
        CONVOY_ACTIVATION_AUTO, CONVOY_ACTIVATION_SOFTMAX, CONVOY_ACTIVATION_NONE};
    unsigned activation = config->activation, softmax = 0, precision = config->precision;
    struct convoy_json output;
    int result;
    if ((result = convoy_json_object(root, "output", &output, error)) < 0 ||
        (result = convoy_json_known(&output, known, error)) < 0 ||
        (result = convoy_json_choice(&output, "activation", activations, &activation, error)) < 0 ||
        (result = convoy_json_choice(&output, "softmax", softmaxes, &softmax, error)) < 0 ||
        (result = convoy_json_double(&output, "threshold", 0, 1, &config->threshold, error)) < 0 ||
        (result = convoy_json_choice(root, "precision", precisions, &precision, error)) < 0)
        return result;
    if (convoy_json_has(&output, "activation") && convoy_json_has(&output, "softmax"))
        return convoy_fail(error, -EINVAL,
                           "%s: output.softmax is an older name of output.activation: give one of them",
                           config->file);
    config->activation =
        convoy_json_has(&output, "softmax") ? of_softmax[softmax] : (enum convoy_output_activation)activation;
    config->precision = (enum convoy_model_precision)precision;
    return 0;
}

/* A path that cannot leave the folder that it is put behind. */
static bool stays_inside(const char *path)
{
    if (path[0] == '\0' || path[0] == '/')
        return false;
    for (const char *part = path; part != NULL; part = strchr(part, '/')) {
        part += *part == '/';
        size_t length = strcspn(part, "/");
        if (length == 2 && part[0] == '.' && part[1] == '.')
            return false;
    }
    return true;
}

/* Does the file, where it is one, lie in folder when links are followed? A link to another place would
 * publish what it points to as labels. */
static bool lies_inside(const char *folder, const char *path)
{
    char *real_folder = realpath(folder, NULL), *real_path = realpath(path, NULL);
    size_t length = real_folder != NULL ? strlen(real_folder) : 0;
    bool inside = real_path == NULL || (real_folder != NULL && strncmp(real_path, real_folder, length) == 0 &&
                                        real_path[length] == '/');
    free(real_folder);
    free(real_path);
    return inside;
}

/* name NULL: labels.txt where it is. */
static int read_labels(const char *folder, const char *name, struct convoy_model_config *config,
                       struct convoy_error *error)
{
    char *path = NULL;
    int result = 0;
    if (name != NULL && !stays_inside(name))
        return convoy_fail(error, -EINVAL,
                           "%s: labels must name a file inside the model's folder, found \"%s\"",
                           config->file, name);
    if (asprintf(&path, "%s/%s", folder, name != NULL ? name : LABELS_FILE) < 0)
        return convoy_fail(error, -ENOMEM, "%s: out of memory", config->file);
    if (!lies_inside(folder, path)) {
        free(path);
        return convoy_fail(
            error, -EINVAL,
            "%s: labels must be a file inside the model's folder, and \"%s\" is a link to another "
            "place: copy the file",
            config->file, name != NULL ? name : LABELS_FILE);
    }
    result = convoy_label_list_read(path, &config->labels, error);
    if (result == 0 && (config->labels.name = strdup(name != NULL ? name : LABELS_FILE)) == NULL)
        result = convoy_fail(error, -ENOMEM, "%s: out of memory", config->file);
    if (result == -ENOENT && name == NULL)
        result = 0;
    else if (result == -ENOENT)
        convoy_fail(error, result, "%s: labels names \"%s\", but there is no file %s", config->file, name,
                    path);
    free(path);
    return result;
}

/* convoyd's own keys. */
static int read_keys(const struct convoy_json *root, struct convoy_model_config *config, const char **labels,
                     struct convoy_error *error)
{
    static const char *const known[] = {"labels",         "input",          "output",
                                        "precision",      "batching",       "devices",
                                        "response_cache", "version_policy", NULL};
    int result;
    if ((result = convoy_json_known(root, known, error)) < 0 ||
        (result = convoy_json_string(root, "labels", labels, error)) < 0 ||
        (result = convoy_model_input_read(root, &config->input, error)) < 0 ||
        (result = read_output(root, config, error)) < 0 ||
        (result = convoy_batching_read(root, &config->batching, error)) < 0 ||
        (result = convoy_json_bits(root, "devices", CONVOY_MODEL_DEVICES - 1, &config->devices, error)) < 0 ||
        (result = convoy_json_bool(root, "response_cache", &config->response_cache, error)) < 0)
        return result;
    return convoy_version_policy_read(root, &config->versions, error);
}

/* What a config.json of the hub says, before convoyd's own keys go over it; those have an input of their own
 * where prepared is true. */
static int read_hub(const char *folder, const struct convoy_json *root, bool prepared,
                    struct convoy_model_config *config, struct convoy_error *error)
{
    if (convoy_hub_is_multi_label(root))
        config->activation = CONVOY_ACTIVATION_SIGMOID;
    return prepared ? 0 : convoy_hub_input(folder, root, &config->input, error);
}

/* A file of the folder; *file: its path. root->value is NULL where it is not there. */
static int open_file(const char *folder, const char *name, char **file, cJSON **document,
                     struct convoy_json *root, struct convoy_error *error)
{
    *root = (struct convoy_json){0};
    if (asprintf(file, "%s/%s", folder, name) < 0) {
        *file = NULL;
        return convoy_fail(error, -ENOMEM, "%s: out of memory for its configuration", folder);
    }
    int result = convoy_json_load(*file, document, error);
    if (result == -ENOENT)
        return 0;
    return result < 0 ? result : convoy_json_root(*document, *file, root, error);
}

static int read_files(const char *folder, const struct convoy_json *common, const struct convoy_json *own,
                      struct convoy_model_config *config, struct convoy_error *error)
{
    bool hub = common->value != NULL && convoy_hub_is(common);
    const char *labels = NULL;
    int result = 0;
    if (own->value != NULL && common->value != NULL && !hub)
        return convoy_fail(error, -EINVAL,
                           "%s and %s are both convoyd's: keep one of them (the second is for folders whose "
                           "config.json is the Hugging Face hub's)",
                           common->file, own->file);
    if (hub)
        result = read_hub(folder, common, convoy_json_has(own, "input"), config, error);
    const struct convoy_json *keys = own->value != NULL ? own : hub ? NULL : common;
    if (result == 0 && keys != NULL && keys->value != NULL)
        result = read_keys(keys, config, &labels, error);
    if (result == 0)
        result = read_labels(folder, labels, config, error);
    if (result == 0 && hub && config->labels.count == 0)
        result = convoy_hub_labels(common, &config->labels, error);
    if (result == 0 && config->labels.count > 0 && config->labels.name == NULL &&
        (config->labels.name = strdup(CONFIG_FILE)) == NULL)
        result = convoy_fail(error, -ENOMEM, "%s: out of memory", config->file);
    return result;
}

int convoy_model_config_load(const char *folder, const struct convoy_batching *defaults,
                             struct convoy_model_config **config, struct convoy_error *error)
{
    cJSON *common_document = NULL, *own_document = NULL;
    struct convoy_json common, own;
    char *common_file = NULL, *own_file = NULL;
    int result = 0;
    struct convoy_model_config *loaded = calloc(1, sizeof *loaded);
    if (loaded == NULL)
        return convoy_fail(error, -ENOMEM, "%s: out of memory for its configuration", folder);
    convoy_model_input_default(&loaded->input);
    loaded->batching = *defaults;
    loaded->response_cache = true;
    if ((result = open_file(folder, CONFIG_FILE, &common_file, &common_document, &common, error)) == 0)
        result = open_file(folder, OWN_FILE, &own_file, &own_document, &own, error);
    if (result == 0) {
        char **file = own.value != NULL ? &own_file : &common_file;
        loaded->file = strdup(*file);
        result = loaded->file != NULL
                     ? read_files(folder, &common, &own, loaded, error)
                     : convoy_fail(error, -ENOMEM, "%s: out of memory for its configuration", folder);
    }
    if (result == 0) {
        *config = loaded;
        loaded = NULL;
    }
    cJSON_Delete(common_document);
    cJSON_Delete(own_document);
    free(common_file);
    free(own_file);
    convoy_model_config_free(loaded);
    return result;
}
