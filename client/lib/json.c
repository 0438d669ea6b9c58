#include "client/lib/json.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "client/lib/failure.h"

int client_json_unexpected(const struct client_response *response, const char *what,
                           struct convoy_failure *failure)
{
    client_fail_with(failure, 0, "the answer (status %d) is not a convoyd's: %s; is the URL right?",
                     response->status, what);
    if (failure) {
        failure->status = response->status;
        memcpy(failure->request_id, response->request_id, sizeof failure->request_id);
    }
    return -EPROTO;
}

int client_json_error(const struct client_response *response, const cJSON *document, const char *without,
                      struct convoy_failure *failure)
{
    const char *sentence = client_json_text(document, "error");
    if (!sentence)
        return client_json_unexpected(response, without, failure);
    client_fail_with(failure, 0, "%s", sentence);
    if (failure) {
        failure->status = response->status;
        failure->retry_after_s = response->retry_after_s;
        memcpy(failure->request_id, response->request_id, sizeof failure->request_id);
    }
    return -EREMOTEIO;
}

const char *client_json_text(const cJSON *object, const char *name)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

bool client_json_number(const cJSON *object, const char *name, double *number)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble) || item->valuedouble < 0)
        return false;
    *number = item->valuedouble;
    return true;
}

/* cJSON would accept "{}garbage": nothing may follow the document. Returns NULL when it is not JSON. */
static cJSON *parse(const struct client_response *response)
{
    const char *end = NULL;
    cJSON *document = cJSON_ParseWithLengthOpts(response->text, response->size, &end, false);
    const char *last = response->text + response->size;
    while (document && end < last && strchr(" \t\r\n", *end) && *end)
        end++;
    if (document && end == last)
        return document;
    cJSON_Delete(document);
    return NULL;
}

int client_json_parse(const struct client_response *response, cJSON **document,
                      struct convoy_failure *failure)
{
    *document = parse(response);
    if (cJSON_IsObject(*document))
        return 0;
    cJSON_Delete(*document);
    *document = NULL;
    return client_json_unexpected(response, "it is not a JSON object", failure);
}

int client_json_parse_list(const struct client_response *response, cJSON **document,
                           struct convoy_failure *failure)
{
    if (response->status != 200)
        return client_json_parse_ok(response, document, failure);
    *document = parse(response);
    if (cJSON_IsArray(*document))
        return 0;
    cJSON_Delete(*document);
    *document = NULL;
    return client_json_unexpected(response, "it is not a JSON array", failure);
}

int client_json_parse_ok(const struct client_response *response, cJSON **document,
                         struct convoy_failure *failure)
{
    int status = client_json_parse(response, document, failure);
    if (status || response->status == 200)
        return status;
    status = client_json_error(response, *document, "it has no error", failure);
    cJSON_Delete(*document);
    *document = NULL;
    return status;
}
