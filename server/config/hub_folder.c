#include "server/config/hub_folder.h"

#include "server/config/hub_preprocessor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREPROCESSOR_FILE "preprocessor_config.json"

static const cJSON *member(const struct convoy_json *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object->value, key);
}

bool convoy_hub_is(const struct convoy_json *root)
{
    return cJSON_IsString(member(root, "model_type")) || cJSON_IsArray(member(root, "architectures")) ||
           cJSON_IsObject(member(root, "pretrained_cfg"));
}

bool convoy_hub_is_multi_label(const struct convoy_json *root)
{
    const char *type = cJSON_GetStringValue(member(root, "problem_type"));
    return type != NULL && strcmp(type, "multi_label_classification") == 0;
}

/* ---- Preprocessing ---- */

/* timm's: the centre of what was brought to input_size / crop_pct, or all of it. */
static int read_timm(const struct convoy_json *root, struct convoy_model_input *input,
                     struct convoy_error *error)
{
    static const char *const modes[] = {"center", "squash", NULL};
    double size[3] = {0};
    uint32_t count = 0;
    unsigned interpolation = CONVOY_INTERPOLATION_BICUBIC, mode = 0;
    struct convoy_json object;
    int result;
    /* timm's own, where a file leaves one out. */
    *input = convoy_presets[CONVOY_PRESET_IMAGENET];
    input->color = CONVOY_COLOR_AUTO;
    if ((result = convoy_json_object(root, "pretrained_cfg", &object, error)) < 0 ||
        (result = convoy_json_doubles(&object, "input_size", 1, 65535, size, 3, &count, error)) < 0 ||
        (result = convoy_json_choice(&object, "interpolation", convoy_interpolations, &interpolation,
                                     error)) < 0 ||
        (result = convoy_json_choice(&object, "crop_mode", modes, &mode, error)) < 0 ||
        (result = convoy_json_double(&object, "crop_pct", 0.01, 1.0, &input->crop_fraction, error)) < 0 ||
        (result = convoy_model_input_read_values(&object, "mean", "std", input, error)) < 0)
        return result;
    if (count == 3) {
        input->height = (uint32_t)size[1];
        input->width = (uint32_t)size[2];
    }
    input->resize = mode == 0 ? CONVOY_RESIZE_CROP : CONVOY_RESIZE_STRETCH;
    input->interpolation = (enum convoy_interpolation)interpolation;
    input->normalises = true;
    return 0;
}

static int read_preprocessor(const char *folder, struct convoy_model_input *input, struct convoy_error *error)
{
    cJSON *document = NULL;
    struct convoy_json root;
    char *path = NULL;
    if (asprintf(&path, "%s/%s", folder, PREPROCESSOR_FILE) < 0)
        return convoy_fail(error, -ENOMEM, "%s: out of memory", folder);
    int result = convoy_json_load(path, &document, error);
    if (result == -ENOENT)
        convoy_fail(error, result, "%s is not there, which comes with config.json: download it, too", path);
    else if (result == 0 && (result = convoy_json_root(document, path, &root, error)) == 0)
        result = convoy_hub_preprocessor_read(&root, input, error);
    cJSON_Delete(document);
    free(path);
    return result;
}

int convoy_hub_input(const char *folder, const struct convoy_json *root, struct convoy_model_input *input,
                     struct convoy_error *error)
{
    struct convoy_error reason;
    int result = cJSON_IsObject(member(root, "pretrained_cfg")) ? read_timm(root, input, &reason)
                                                                : read_preprocessor(folder, input, &reason);
    if (result == 0)
        return 0;
    if (result == -ENOMEM)
        return convoy_fail(error, result, "%s", reason.message);
    return convoy_fail(
        error, result,
        "%s; or write the preprocessing as \"input\" into %s/convoyd-model.json, e.g. {\"input\": "
        "{\"preset\": \"imagenet\"}}",
        reason.message, folder);
}

/* ---- Labels ---- */

/* The n names of classes 0 to n - 1; names[i] NULL: missing. */
struct names {
    const char **names;
    int count;
};

static bool set_name(struct names *names, const char *key, const cJSON *value)
{
    char *end;
    unsigned long index = strtoul(key, &end, 10);
    const char *name = cJSON_GetStringValue(value);
    if (key[0] < '0' || key[0] > '9' || *end != '\0' || index >= (unsigned long)names->count ||
        name == NULL || names->names[index] != NULL)
        return false;
    names->names[index] = name;
    return true;
}

/* {"0": "tench", ...} */
static bool names_of_object(const cJSON *object, struct names *names)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, object)
    {
        if (!set_name(names, item->string, item))
            return false;
    }
    return true;
}

static bool names_of_array(const cJSON *array, struct names *names)
{
    const cJSON *item;
    int count = 0;
    cJSON_ArrayForEach(item, array)
    {
        if ((names->names[count++] = cJSON_GetStringValue(item)) == NULL)
            return false;
    }
    return true;
}

static int by_key(const void *left, const void *right)
{
    return strcmp((*(const cJSON *const *)left)->string, (*(const cJSON *const *)right)->string);
}

/* timm's names are those of WordNet, with {"n01440764": "tench, ..."} beside them. Both may be long, so they
 * are not searched one by one. */
static int describe(const cJSON *descriptions, struct names *names)
{
    const cJSON *item, *key;
    size_t count = (size_t)cJSON_GetArraySize(descriptions), filled = 0;
    if (!cJSON_IsObject(descriptions) || count == 0)
        return 0;
    const cJSON **sorted = malloc(count * sizeof(const cJSON *));
    if (sorted == NULL)
        return -ENOMEM;
    cJSON_ArrayForEach(item, descriptions)
    {
        sorted[filled++] = item;
    }
    qsort(sorted, count, sizeof(const cJSON *), by_key);
    for (int i = 0; i < names->count; i++) {
        const cJSON wanted = {.string = (char *)(uintptr_t)names->names[i]}, *const pointer = &wanted;
        const cJSON *const *found = bsearch(&pointer, sorted, count, sizeof(const cJSON *), by_key);
        key = found != NULL ? *found : NULL;
        if (cJSON_GetStringValue(key) != NULL)
            names->names[i] = cJSON_GetStringValue(key);
    }
    free(sorted);
    return 0;
}

static bool are_all_there(const struct names *names)
{
    for (int i = 0; i < names->count; i++)
        if (names->names[i] == NULL)
            return false;
    return true;
}

static bool are_numbers(const struct names *names)
{
    char given[32];
    for (int i = 0; i < names->count; i++) {
        snprintf(given, sizeof given, "LABEL_%d", i);
        if (strcmp(names->names[i], given) != 0)
            return false;
    }
    return true;
}

int convoy_hub_labels(const struct convoy_json *root, struct convoy_label_list *labels,
                      struct convoy_error *error)
{
    const cJSON *given = member(root, "id2label");
    int result = 0;
    *labels = (struct convoy_label_list){0};
    if (!cJSON_IsObject(given))
        given = member(root, "label_names");
    struct names names = {.count = cJSON_GetArraySize(given)};
    if (names.count == 0 || (!cJSON_IsObject(given) && !cJSON_IsArray(given)))
        return 0;
    names.names = calloc((size_t)names.count, sizeof *names.names);
    if (names.names == NULL)
        return convoy_fail(error, -ENOMEM, "%s: out of memory for %d labels", root->file, names.count);
    bool whole = cJSON_IsObject(given) ? names_of_object(given, &names) : names_of_array(given, &names);
    whole = whole && are_all_there(&names);
    if (whole && describe(member(root, "label_descriptions"), &names) < 0)
        result = convoy_fail(error, -ENOMEM, "%s: out of memory for %d labels", root->file, names.count);
    else if (whole && !are_numbers(&names))
        result = convoy_label_list_of(names.names, (uint32_t)names.count, root->file, labels, error);
    free(names.names);
    return result;
}
