#include "client/commands/verify_record.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/failure.h"
#include "client/lib/json.h"

/* Fails with "PATH is no record of answers: WHAT". */
static int unfit(const char *path, const char *what, struct convoy_failure *failure)
{
    return client_fail_with(
        failure, -EINVAL, "'%s' is no record of answers: %s; models/from_pytorch.py writes one", path, what);
}

/* A name that leads out of the folder would make the client send any file of this machine. */
static bool is_plain_name(const char *name)
{
    return *name && *name != '.' && !strchr(name, '/');
}

static double scale_of(const struct client_verify_output *output)
{
    double most = 0;
    for (size_t i = 0; i < output->count; i++)
        most = fmax(most, fabs(output->values[i]));
    return most;
}

/* Returns what is wrong, or NULL; "" when out of memory. */
static const char *read_output(const cJSON *item, struct client_verify_output *output)
{
    const cJSON *values = cJSON_GetObjectItemCaseSensitive(item, "values"), *value;
    output->name = client_json_text(item, "name");
    if (!output->name || !cJSON_IsArray(values) || cJSON_GetArraySize(values) == 0)
        return "an output has no name or no values";
    output->values = calloc((size_t)cJSON_GetArraySize(values), sizeof *output->values);
    if (!output->values)
        return "";
    cJSON_ArrayForEach(value, values)
    {
        if (!cJSON_IsNumber(value) || !isfinite(value->valuedouble))
            return "a value of an output is no finite number";
        output->values[output->count++] = value->valuedouble;
    }
    return scale_of(output) > 0 ? NULL : "all values of an output are 0";
}

static const char *read_class(const cJSON *item, struct client_verify_class *class)
{
    double index;
    class->label = client_json_text(item, "label");
    if (!client_json_number(item, "index", &index) || index > 1e9 || index != floor(index))
        return "a class has no index";
    if (!client_json_number(item, "probability", &class->probability))
        return "a class has no probability";
    class->index = (long)index;
    return NULL;
}

static const char *read_lists(const cJSON *outputs, const cJSON *classes, struct client_verify_record *record)
{
    const cJSON *item;
    const char *wrong = NULL;
    if (!cJSON_IsArray(outputs) || cJSON_GetArraySize(outputs) == 0)
        return "it has no outputs";
    if (classes && (!cJSON_IsArray(classes) || cJSON_GetArraySize(classes) > CLIENT_VERIFY_CLASSES))
        return "its classes are no list, or more than 100";
    record->outputs = calloc((size_t)cJSON_GetArraySize(outputs), sizeof *record->outputs);
    record->classes = calloc((size_t)cJSON_GetArraySize(classes) + 1, sizeof *record->classes);
    if (!record->outputs || !record->classes)
        return "";
    cJSON_ArrayForEach(item, outputs)
    {
        wrong = wrong ? wrong : read_output(item, &record->outputs[record->output_count++]);
    }
    cJSON_ArrayForEach(item, classes)
    {
        wrong = wrong ? wrong : read_class(item, &record->classes[record->class_count++]);
    }
    return wrong;
}

/* Returns what is wrong, or NULL; "" when out of memory. */
static const char *read_record(const cJSON *document, struct client_verify_record *record)
{
    record->image = client_json_text(document, "image");
    record->input = client_json_text(document, "input");
    record->version = client_json_text(document, "version");
    if (!record->image || !is_plain_name(record->image))
        return "its image is no file of its folder";
    if (!record->input || !record->version)
        return "it names no input or no version";
    if (!client_json_number(document, "tolerance", &record->tolerance))
        return "it states no tolerance";
    if (!client_json_number(document, "probability_tolerance", &record->probability_tolerance))
        return "it states no probability_tolerance";
    return read_lists(cJSON_GetObjectItemCaseSensitive(document, "outputs"),
                      cJSON_GetObjectItemCaseSensitive(document, "classes"), record);
}

int client_verify_record_read(const char *text, size_t size, const char *path,
                              struct client_verify_record *record, struct convoy_failure *failure)
{
    memset(record, 0, sizeof *record);
    record->document = cJSON_ParseWithLength(text, size);
    if (!cJSON_IsObject(record->document))
        return unfit(path, "it is no JSON object", failure);
    const char *wrong = read_record(record->document, record);
    if (wrong && !*wrong)
        return client_fail_with(failure, -ENOMEM, "memory is out");
    return wrong ? unfit(path, wrong, failure) : 0;
}

void client_verify_record_clear(struct client_verify_record *record)
{
    for (size_t i = 0; i < record->output_count; i++)
        free(record->outputs[i].values);
    free(record->outputs);
    free(record->classes);
    cJSON_Delete(record->document);
    memset(record, 0, sizeof *record);
}

static const cJSON *data_of(const cJSON *answer, const char *name)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(answer, "outputs"))
    {
        const char *found = client_json_text(item, "name");
        if (found && strcmp(found, name) == 0)
            return cJSON_GetObjectItemCaseSensitive(item, "data");
    }
    return NULL;
}

static int compare_output(const struct client_verify_output *output, const cJSON *data,
                          struct client_verify_difference *worst, struct convoy_failure *failure)
{
    double scale = scale_of(output);
    const cJSON *item;
    size_t i = 0;
    if (!cJSON_IsArray(data))
        return client_fail_with(failure, -EDOM, "the answer lacks the output '%s'", output->name);
    if ((size_t)cJSON_GetArraySize(data) != output->count)
        return client_fail_with(failure, -EDOM, "the output '%s' has %d values, %zu are recorded",
                                output->name, cJSON_GetArraySize(data), output->count);
    cJSON_ArrayForEach(item, data)
    {
        if (!cJSON_IsNumber(item))
            return client_fail_with(failure, -EPROTO, "a value of the output '%s' is no number",
                                    output->name);
        double relative = fabs(item->valuedouble - output->values[i]) / scale;
        if (!worst->output || !(relative <= worst->relative))
            *worst = (struct client_verify_difference){.output = output->name,
                                                       .element = i,
                                                       .value = item->valuedouble,
                                                       .recorded = output->values[i],
                                                       .relative = relative};
        i++;
    }
    return 0;
}

int client_verify_compare(const struct client_verify_record *record, const cJSON *answer,
                          struct client_verify_difference *worst, struct convoy_failure *failure)
{
    int status = 0;
    memset(worst, 0, sizeof *worst);
    for (size_t i = 0; i < record->output_count && status == 0; i++) {
        const struct client_verify_output *output = &record->outputs[i];
        status = compare_output(output, data_of(answer, output->name), worst, failure);
    }
    return status;
}
