#include "engine/base/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int convoy_json_strings(const struct convoy_json *object, const char *key, bool (*valid)(const char *string),
                        const char *rule, char ***list, struct convoy_error *error)
{
    const cJSON *array = object->value != NULL ? cJSON_GetObjectItemCaseSensitive(object->value, key) : NULL;
    const cJSON *item;
    uint32_t count = 0;
    if (array == NULL)
        return 0;
    *list = calloc((size_t)cJSON_GetArraySize(array) + 1, sizeof **list);
    if (*list == NULL)
        return convoy_fail(error, -ENOMEM, "%s: out of memory", object->file);
    if (!cJSON_IsArray(array))
        return convoy_fail(error, -EINVAL, "%s: %s.%s must be an array of %s", object->file, object->path,
                           key, rule);
    cJSON_ArrayForEach(item, array)
    {
        const char *string = cJSON_GetStringValue(item);
        if (string == NULL || !valid(string))
            return convoy_fail(error, -EINVAL, "%s: %s.%s[%u]: the array must have %s", object->file,
                               object->path, key, count, rule);
        if (((*list)[count++] = strdup(string)) == NULL)
            return convoy_fail(error, -ENOMEM, "%s: out of memory", object->file);
    }
    return 0;
}

void convoy_json_strings_free(char **list)
{
    for (char **string = list; string != NULL && *string != NULL; string++)
        free(*string);
    free(list);
}
