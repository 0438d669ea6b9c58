#include "server/api/oip_trace.h"

#include "server/api/app.h"
#include "server/api/lookup.h"
#include "server/api/oip_internal.h"
#include "server/api/trace.h"
#include "server/http/query.h"
#include "server/http/response.h"
#include "server/http/status.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BODY "the body" /* as sentences call the JSON */

static bool respond_settings(struct convoy_request *request, const char *model)
{
    struct convoy_trace_settings settings;
    struct convoy_json_writer json = {0};
    char number[24];

    convoy_trace_get(convoy_app_of(request)->trace, model, &settings);
    convoy_json_write_begin_object(&json);
    convoy_json_write_key(&json, "trace_level");
    convoy_json_write_begin_array(&json);
    convoy_json_write_string(&json, settings.on ? "TIMESTAMPS" : "OFF");
    convoy_json_write_end_array(&json);
    snprintf(number, sizeof number, "%" PRIu64, settings.rate);
    convoy_json_write_key(&json, "trace_rate");
    convoy_json_write_string(&json, number);
    snprintf(number, sizeof number, "%" PRId64, settings.count < 0 ? -1 : settings.count);
    convoy_json_write_key(&json, "trace_count");
    convoy_json_write_string(&json, number);
    convoy_json_write_key(&json, "log_frequency"); /* "0": each line goes to the log at once */
    convoy_json_write_string(&json, "0");
    convoy_json_write_key(&json, "trace_file");
    convoy_json_write_string(&json, "");
    convoy_json_write_key(&json, "trace_mode");
    convoy_json_write_string(&json, "triton");
    convoy_json_write_end_object(&json);
    return convoy_oip_respond(request, CONVOY_HTTP_OK, &json);
}

static int read_level(const cJSON *item, struct convoy_trace_change *change, struct convoy_error *error)
{
    const cJSON *level = cJSON_IsArray(item) && cJSON_GetArraySize(item) == 1 ? item->child : item;

    change->on = CONVOY_TRACE_SET;
    if (cJSON_IsString(level) && strcmp(level->valuestring, "TIMESTAMPS") == 0)
        change->to.on = true;
    else if (cJSON_IsString(level) && strcmp(level->valuestring, "OFF") == 0)
        change->to.on = false;
    else
        return convoy_fail(error, -EINVAL, BODY ": trace_level must be [\"TIMESTAMPS\"] or [\"OFF\"]");
    return 0;
}

/* A number, or the text of one, as Triton's clients send it; "-1" where that is allowed. */
static int read_number(const cJSON *item, const char *key, uint64_t least, bool endless, int64_t *number,
                       struct convoy_error *error)
{
    const uint64_t most = 1000000000;
    uint64_t natural = 0;

    if (cJSON_IsNumber(item) && item->valuedouble >= (double)least && item->valuedouble <= (double)most &&
        item->valuedouble == (double)(uint64_t)item->valuedouble) {
        *number = (int64_t)item->valuedouble;
        return 0;
    }
    if (endless && ((cJSON_IsNumber(item) && item->valuedouble == -1) ||
                    (cJSON_IsString(item) && strcmp(item->valuestring, "-1") == 0))) {
        *number = -1;
        return 0;
    }
    if (cJSON_IsString(item) && convoy_query_number(key, item->valuestring, strlen(item->valuestring), least,
                                                    most, &natural, NULL) == 0) {
        *number = (int64_t)natural;
        return 0;
    }
    return convoy_fail(error, -EINVAL, BODY ": %s must be a whole number from %s to %u", key,
                       endless ? "-1 (no end)" : "1", (unsigned)most);
}

static int read_setting(const cJSON *item, struct convoy_trace_change *change, struct convoy_error *error)
{
    const char *key = item->string;
    int64_t number = 0;
    int code;

    if (strcmp(key, "trace_level") == 0) {
        change->on = CONVOY_TRACE_CLEARED;
        return cJSON_IsNull(item) ? 0 : read_level(item, change, error);
    }
    if (strcmp(key, "trace_rate") == 0) {
        change->rate = cJSON_IsNull(item) ? CONVOY_TRACE_CLEARED : CONVOY_TRACE_SET;
        code = cJSON_IsNull(item) ? 0 : read_number(item, key, 1, false, &number, error);
        change->to.rate = (uint64_t)number;
        return code;
    }
    if (strcmp(key, "trace_count") == 0) {
        change->count = cJSON_IsNull(item) ? CONVOY_TRACE_CLEARED : CONVOY_TRACE_SET;
        return cJSON_IsNull(item) ? 0 : read_number(item, key, 0, true, &change->to.count, error);
    }
    return convoy_fail(error, -EINVAL,
                       BODY ": %.40s cannot be set: traces are lines of the log; trace_level, trace_rate and "
                            "trace_count can",
                       key);
}

static int read_change(const struct convoy_request *request, struct convoy_trace_change *change,
                       struct convoy_error *error)
{
    cJSON *document;
    const cJSON *item;
    int code = convoy_oip_body(request, &document, error);

    *change = (struct convoy_trace_change){0};
    if (code == 0 && !cJSON_IsObject(document))
        code = convoy_fail(error, -EINVAL, BODY " must be an object: {\"trace_level\": [\"TIMESTAMPS\"]}");
    if (code == 0)
        cJSON_ArrayForEach(item, document)
        {
            if ((code = read_setting(item, change, error)) != 0)
                break;
        }
    cJSON_Delete(document);
    return code;
}

bool convoy_oip_trace_setting(struct convoy_request *request)
{
    struct convoy_trace_change change;
    struct convoy_error error;
    const char *name = NULL;

    if (request->path.model[0] != '\0') {
        struct convoy_model_record *model = convoy_lookup_model(request);
        if (model == NULL)
            return convoy_respond_refusal(request, CONVOY_RETRY_SOON);
        name = model->name;
    }
    if (convoy_method_of(request->method) == CONVOY_POST) {
        /* A line for every request can fill a disk. */
        int code = read_change(request, &change, &error);
        if (code != 0)
            return convoy_oip_respond_body_error(request, code, &error);
        if (!convoy_trace_change(convoy_app_of(request)->trace, name, &change))
            return false;
    }
    return respond_settings(request, name);
}
