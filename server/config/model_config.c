#include "server/config/model_config.h"

#include "engine/base/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONFIG_FILE "config.json"
#define LABELS_FILE "labels.txt"

static const char *const colors[] = {"rgb", "grey", NULL};
static const char *const resizes[] = {"stretch", "crop", NULL};
static const char *const softmaxes[] = {"auto", "on", "off", NULL};
static const char *const precisions[] = {"fp32", "tf32", "fp16", NULL};

const char *convoy_model_precision_text(enum convoy_model_precision precision)
{
    return precisions[precision];
}

const char *convoy_resize_text(enum convoy_resize resize)
{
    return resizes[resize];
}

const char *convoy_softmax_text(enum convoy_softmax softmax)
{
    return softmaxes[softmax];
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

static int read_input(const struct convoy_json *root, struct convoy_model_config *config,
                      struct convoy_error *error)
{
    static const char *const known[] = {"color", "resize", "scale", "mean", "std", NULL};
    unsigned color = 0, resize = CONVOY_RESIZE_STRETCH;
    struct convoy_json input;
    int result;
    /* Within these bounds everything that convoy_model_config_transform() computes is a finite float32. */
    if ((result = convoy_json_object(root, "input", &input, error)) < 0 ||
        (result = convoy_json_known(&input, known, error)) < 0 ||
        (result = convoy_json_choice(&input, "color", colors, &color, error)) < 0 ||
        (result = convoy_json_choice(&input, "resize", resizes, &resize, error)) < 0 ||
        (result = convoy_json_double(&input, "scale", 1e-9, 1e9, &config->scale, error)) < 0 ||
        (result = convoy_json_doubles(&input, "mean", -1e9, 1e9, config->mean, CONVOY_PIXEL_CHANNELS,
                                      &config->mean_count, error)) < 0 ||
        (result = convoy_json_doubles(&input, "std", 1e-9, 1e9, config->std, CONVOY_PIXEL_CHANNELS,
                                      &config->std_count, error)) < 0)
        return result;
    if (input.value != NULL && cJSON_GetObjectItemCaseSensitive(input.value, "color") != NULL)
        config->color = color == 0 ? CONVOY_COLOR_RGB : CONVOY_COLOR_GREY;
    config->resize = (enum convoy_resize)resize;
    return 0;
}

static int read_output(const struct convoy_json *root, struct convoy_model_config *config,
                       struct convoy_error *error)
{
    static const char *const known[] = {"softmax", NULL};
    unsigned softmax = config->softmax, precision = config->precision;
    struct convoy_json output;
    int result;
    if ((result = convoy_json_object(root, "output", &output, error)) < 0 ||
        (result = convoy_json_known(&output, known, error)) < 0 ||
        (result = convoy_json_choice(&output, "softmax", softmaxes, &softmax, error)) < 0 ||
        (result = convoy_json_choice(root, "precision", precisions, &precision, error)) < 0)
        return result;
    config->softmax = (enum convoy_softmax)softmax;
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

int convoy_model_config_load(const char *folder, const struct convoy_batching *defaults,
                             struct convoy_model_config **config, struct convoy_error *error)
{
    static const char *const known[] = {"labels",         "input",          "output",
                                        "precision",      "batching",       "devices",
                                        "response_cache", "version_policy", NULL};
    cJSON *document = NULL;
    struct convoy_json root;
    const char *labels = NULL;
    int result = 0;
    struct convoy_model_config *loaded = calloc(1, sizeof *loaded);
    if (loaded == NULL)
        return convoy_fail(error, -ENOMEM, "%s: out of memory for its configuration", folder);
    loaded->scale = 1.0 / 255.0;
    loaded->mean_count = loaded->std_count = 1;
    loaded->std[0] = 1.0;
    loaded->batching = *defaults;
    loaded->response_cache = true;
    if (asprintf(&loaded->file, "%s/%s", folder, CONFIG_FILE) < 0) {
        loaded->file = NULL;
        result = convoy_fail(error, -ENOMEM, "%s: out of memory for its configuration", folder);
        goto out;
    }

    result = convoy_json_load(loaded->file, &document, error);
    if (result == 0) {
        if ((result = convoy_json_root(document, loaded->file, &root, error)) < 0 ||
            (result = convoy_json_known(&root, known, error)) < 0 ||
            (result = convoy_json_string(&root, "labels", &labels, error)) < 0 ||
            (result = read_input(&root, loaded, error)) < 0 ||
            (result = read_output(&root, loaded, error)) < 0 ||
            (result = convoy_batching_read(&root, &loaded->batching, error)) < 0 ||
            (result = convoy_json_bits(&root, "devices", CONVOY_MODEL_DEVICES - 1, &loaded->devices, error)) <
                0 ||
            (result = convoy_json_bool(&root, "response_cache", &loaded->response_cache, error)) < 0 ||
            (result = convoy_version_policy_read(&root, &loaded->versions, error)) < 0)
            goto out;
    } else if (result != -ENOENT) {
        goto out;
    }
    result = read_labels(folder, labels, loaded, error);
    if (result < 0)
        goto out;
    *config = loaded;
    loaded = NULL;

out:
    cJSON_Delete(document);
    convoy_model_config_free(loaded);
    return result;
}

static int check_count(const struct convoy_model_config *config, const char *key, uint32_t count,
                       uint32_t channels, uint32_t height, uint32_t width, struct convoy_error *error)
{
    if (count == 1 || count == channels)
        return 0;
    return convoy_fail(error, -EINVAL,
                       "%s: input.%s has %u values, but the network reads %u x %u x %u (C x H x W); give one "
                       "value for all channels, or one for each",
                       config->file, key, count, channels, height, width);
}

int convoy_model_config_check(const struct convoy_model_config *config, uint32_t channels, uint32_t height,
                              uint32_t width, struct convoy_error *error)
{
    uint32_t wanted = config->color == CONVOY_COLOR_RGB ? 3 : 1;
    if (config->color != CONVOY_COLOR_AUTO && channels != wanted)
        return convoy_fail(error, -EINVAL,
                           "%s: input.color is \"%s\" (%u channels), but the network reads %u x %u x %u "
                           "(C x H x W); %s",
                           config->file, wanted == 3 ? "rgb" : "grey", wanted, channels, height, width,
                           channels == 1   ? "write \"grey\""
                           : channels == 3 ? "write \"rgb\""
                                           : "leave input.color out: this network takes no images");
    int result = check_count(config, "mean", config->mean_count, channels, height, width, error);
    if (result == 0)
        result = check_count(config, "std", config->std_count, channels, height, width, error);
    return result;
}

void convoy_model_config_transform(const struct convoy_model_config *config, uint32_t channels,
                                   float *multiply, float *add)
{
    for (uint32_t c = 0; c < channels; c++) {
        double mean = config->mean[c < config->mean_count ? c : config->mean_count - 1];
        double std = config->std[c < config->std_count ? c : config->std_count - 1];
        multiply[c] = (float)(config->scale / std);
        add[c] = (float)(-mean / std);
    }
}
