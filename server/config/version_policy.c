#include "server/config/version_policy.h"

#include "engine/base/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MOST_VERSION 999999999 /* 9 digits, as in model_name.h */
#define MOST_NAMED   1024      /* versions that can be named */

/* An array of versions, each once or more often. */
static int read_specific(const struct convoy_json *inside, struct convoy_version_policy *policy,
                         struct convoy_error *error)
{
    const cJSON *array = cJSON_GetObjectItemCaseSensitive(inside->value, "specific"), *item;
    int count = cJSON_IsArray(array) ? cJSON_GetArraySize(array) : 0;
    if (count < 1 || count > MOST_NAMED)
        return convoy_fail(error, -EINVAL,
                           "%s: version_policy.specific must be an array of 1 to %d versions, e.g. [1, 3]",
                           inside->file, MOST_NAMED);
    policy->specific = calloc((size_t)count, sizeof *policy->specific);
    if (policy->specific == NULL)
        return convoy_fail(error, -ENOMEM, "%s: out of memory", inside->file);
    cJSON_ArrayForEach(item, array)
    {
        double value = cJSON_IsNumber(item) ? item->valuedouble : 0;
        if (!(value >= 1 && value <= MOST_VERSION) || value != (double)(uint32_t)value)
            return convoy_fail(
                error, -EINVAL,
                "%s: version_policy.specific[%u] must be a version, a whole number from 1 to %d",
                inside->file, policy->specific_count, MOST_VERSION);
        policy->specific[policy->specific_count++] = (uint32_t)value;
    }
    return 0;
}

int convoy_version_policy_read(const struct convoy_json *root, struct convoy_version_policy *policy,
                               struct convoy_error *error)
{
    static const char *const known[] = {"latest", "specific", NULL};
    struct convoy_json inside;
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(root->value, "version_policy");
    if (value == NULL || (cJSON_IsString(value) && strcmp(value->valuestring, "all") == 0))
        return 0;
    if (!cJSON_IsObject(value))
        return convoy_fail(error, -EINVAL,
                           "%s: version_policy must be \"all\", {\"latest\": N} or {\"specific\": [N, ...]}",
                           root->file);
    int result = convoy_json_object(root, "version_policy", &inside, error);
    if (result == 0)
        result = convoy_json_known(&inside, known, error);
    if (result != 0)
        return result;
    bool latest = convoy_json_has(&inside, "latest"), specific = convoy_json_has(&inside, "specific");
    if (latest == specific)
        return convoy_fail(error, -EINVAL, "%s: version_policy needs one of latest and specific", root->file);
    return latest ? convoy_json_uint32(&inside, "latest", 1, MOST_NAMED, &policy->latest, error)
                  : read_specific(&inside, policy, error);
}

void convoy_version_policy_free(struct convoy_version_policy *policy)
{
    free(policy->specific);
    *policy = (struct convoy_version_policy){0};
}

bool convoy_version_policy_serves(const struct convoy_version_policy *policy, uint32_t version,
                                  uint32_t higher)
{
    if (policy->latest > 0)
        return higher < policy->latest;
    for (uint32_t i = 0; i < policy->specific_count; i++)
        if (policy->specific[i] == version)
            return true;
    return policy->specific == NULL;
}
