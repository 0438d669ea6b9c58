#include "client/lib/answer.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/base64.h"
#include "client/lib/failure.h"
#include "client/lib/json.h"

/* The strings of an answer belong to its document. */
struct own_answer {
    struct convoy_answer answer; /* first member: the caller's pointer is converted back to this struct */
    cJSON *document;
    struct convoy_result *results;
    struct convoy_prediction *predictions;
    struct convoy_layer *layers;
    struct convoy_map map;
    void *png; /* the map's */
};

struct own_models {
    struct convoy_models models;
    cJSON *document;
    struct convoy_model *list;
};

static bool whole_of(const cJSON *object, const char *name, long *whole)
{
    double number;
    if (!client_json_number(object, name, &number) || number > 1e9 || number != (double)(long)number)
        return false;
    *whole = (long)number;
    return true;
}

static bool read_prediction(const cJSON *item, struct convoy_prediction *prediction)
{
    const cJSON *probability = cJSON_GetObjectItemCaseSensitive(item, "probability");
    prediction->label = client_json_text(item, "label");
    if (!prediction->label || !whole_of(item, "index", &prediction->index))
        return false;
    if (cJSON_IsNull(probability))
        prediction->probability = NAN;
    else if (cJSON_IsNumber(probability) && isfinite(probability->valuedouble))
        prediction->probability = probability->valuedouble;
    else
        return false;
    return true;
}

/* Returns the number of predictions in all results. */
static size_t count_predictions(const cJSON *results)
{
    size_t count = 0;
    const cJSON *result;
    cJSON_ArrayForEach(result, results)
    {
        const cJSON *list = cJSON_GetObjectItemCaseSensitive(result, "predictions");
        if (cJSON_IsArray(list))
            count += (size_t)cJSON_GetArraySize(list);
    }
    return count;
}

/* Fills own->results and own->predictions. Returns what is wrong, or NULL. */
static const char *read_results(const cJSON *results, struct own_answer *own)
{
    size_t made = 0, taken = 0;
    const cJSON *item, *each;
    cJSON_ArrayForEach(item, results)
    {
        struct convoy_result *result = &own->results[made++];
        const cJSON *list = cJSON_GetObjectItemCaseSensitive(item, "predictions");
        if (!list) {
            long status;
            result->error = client_json_text(item, "error");
            if (!result->error || !whole_of(item, "status", &status))
                return "a result has neither predictions nor an error";
            result->status = (int)status;
            continue;
        }
        if (!cJSON_IsArray(list))
            return "a result's predictions are no list";
        const char *decoder = client_json_text(item, "decoder");
        own->answer.decoded_by_gpu += decoder && strcmp(decoder, "gpu") == 0;
        result->status = 200;
        result->predictions = own->predictions + taken;
        cJSON_ArrayForEach(each, list)
        {
            if (!read_prediction(each, &own->predictions[taken++]))
                return "a prediction is not as it should be";
            result->prediction_count++;
        }
    }
    return NULL;
}

/* Of a member that may be less than 0. */
static bool number_of(const cJSON *item, double *number)
{
    *number = cJSON_IsNumber(item) ? item->valuedouble : NAN;
    return isfinite(*number);
}

static const char *read_map(const cJSON *explanation, struct own_answer *own)
{
    static const char data[] = "data:image/png;base64,";
    struct convoy_map *map = &own->map;
    double *const sides[4] = {&map->left, &map->top, &map->right, &map->bottom};
    const cJSON *box = cJSON_GetObjectItemCaseSensitive(explanation, "box");
    const char *png = client_json_text(explanation, "png");
    map->label = client_json_text(explanation, "label");
    bool complete = map->label && whole_of(explanation, "index", &map->index) &&
                    whole_of(explanation, "height", &map->height) &&
                    whole_of(explanation, "width", &map->width) && png &&
                    strncmp(png, data, sizeof data - 1) == 0 && cJSON_GetArraySize(box) == 4 &&
                    number_of(cJSON_GetObjectItemCaseSensitive(explanation, "low"), &map->low) &&
                    number_of(cJSON_GetObjectItemCaseSensitive(explanation, "high"), &map->high);
    for (int i = 0; complete && i < 4; i++)
        complete = number_of(cJSON_GetArrayItem(box, i), sides[i]);
    int status = complete ? client_base64_decode(png + sizeof data - 1, &own->png, &map->png_size) : -EINVAL;
    if (status)
        return status == -ENOMEM ? "memory is out" : "an explanation is not as it should be";
    map->png = own->png;
    own->answer.map = map;
    return NULL;
}

static const char *read_layers(const cJSON *layers, struct own_answer *own)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, layers)
    {
        struct convoy_layer *layer = &own->layers[own->answer.layer_count++];
        layer->name = client_json_text(item, "name");
        layer->kernel = client_json_text(item, "kernel");
        if (!layer->name || !layer->kernel || !client_json_number(item, "us", &layer->us))
            return "a layer is not as it should be";
    }
    own->answer.layers = own->layers;
    return NULL;
}

static const char *read_timing(const cJSON *timing, struct convoy_timing *times)
{
    times->wait_us = 0;
    if (cJSON_HasObjectItem(timing, "wait_us") && !client_json_number(timing, "wait_us", &times->wait_us))
        return "its timing is not as it should be";
    if (client_json_number(timing, "decode_us", &times->decode_us) &&
        client_json_number(timing, "queue_us", &times->queue_us) &&
        client_json_number(timing, "input_us", &times->input_us) &&
        client_json_number(timing, "compute_us", &times->compute_us) &&
        client_json_number(timing, "output_us", &times->output_us) &&
        client_json_number(timing, "total_us", &times->total_us))
        return NULL;
    return "its timing is not as it should be";
}

/* Returns what is wrong, or NULL. */
static const char *read_answer(const cJSON *document, size_t images, struct own_answer *own)
{
    struct convoy_answer *answer = &own->answer;
    const cJSON *results = cJSON_GetObjectItemCaseSensitive(document, "results");
    const cJSON *layers = cJSON_GetObjectItemCaseSensitive(document, "layers");
    const cJSON *timing = cJSON_GetObjectItemCaseSensitive(document, "timing");
    if (!cJSON_IsArray(results))
        return "it has no results";
    size_t count = (size_t)cJSON_GetArraySize(results);
    if (count != images)
        return "the number of its results is not that of the images";
    own->results = calloc(count, sizeof *own->results);
    own->predictions = calloc(count_predictions(results) + 1, sizeof *own->predictions);
    own->layers =
        calloc(cJSON_IsArray(layers) ? (size_t)cJSON_GetArraySize(layers) + 1 : 1, sizeof *own->layers);
    if (!own->results || !own->predictions || !own->layers)
        return "memory is out";
    const char *problem = read_results(results, own);
    if (problem)
        return problem;
    const cJSON *explanation =
        cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(results, 0), "explanation");
    if (explanation && (problem = read_map(explanation, own)))
        return problem;
    answer->results = own->results;
    answer->result_count = count;
    answer->model = client_json_text(document, "model");
    answer->version = client_json_text(document, "version");
    if (!answer->model || !answer->version)
        return "it names no model and version";
    answer->device = client_json_text(document, "device");
    if (!answer->device)
        answer->device = "";
    if (cJSON_HasObjectItem(document, "batch_size") && !whole_of(document, "batch_size", &answer->batch_size))
        return "its batch_size is not a count";
    if (cJSON_HasObjectItem(document, "cached") && !whole_of(document, "cached", &answer->cached))
        return "its cached is not a count";
    if (cJSON_HasObjectItem(document, "retries") && !whole_of(document, "retries", &answer->retries))
        return "its retries are not a count";
    problem = timing ? read_timing(timing, &answer->timing) : NULL;
    if (!problem && layers)
        problem = cJSON_IsArray(layers) ? read_layers(layers, own) : "its layers are not a list";
    return problem;
}

int client_answer_read(const struct client_response *response, size_t images, struct convoy_answer **answer,
                       struct convoy_failure *failure)
{
    cJSON *document;
    *answer = NULL;
    int status = client_json_parse(response, &document, failure);
    if (status)
        return status;
    if (response->status != 200 && !cJSON_GetObjectItemCaseSensitive(document, "results")) {
        status = client_json_error(response, document, "it has neither results nor an error", failure);
        cJSON_Delete(document);
        return status;
    }
    struct own_answer *own = calloc(1, sizeof *own);
    if (!own) {
        cJSON_Delete(document);
        return client_fail_with(failure, -ENOMEM, "memory is out");
    }
    own->document = document;
    memcpy(own->answer.request_id, response->request_id, sizeof own->answer.request_id);
    const char *problem = read_answer(document, images, own);
    if (problem) {
        client_answer_discard(&own->answer);
        return client_json_unexpected(response, problem, failure);
    }
    *answer = &own->answer;
    return 0;
}

void client_answer_discard(struct convoy_answer *answer)
{
    struct own_answer *own = (struct own_answer *)answer;
    if (!own)
        return;
    cJSON_Delete(own->document);
    free(own->results);
    free(own->predictions);
    free(own->layers);
    free(own->png);
    free(own);
}

static int by_name_and_version(const void *left, const void *right)
{
    const struct convoy_model *a = left, *b = right;
    int order = strcmp(a->name, b->name);
    return order ? order : strverscmp(a->version, b->version);
}

static const char *read_models(const cJSON *list, struct own_models *own)
{
    const cJSON *item;
    if (!cJSON_IsArray(list))
        return "it has no list of models";
    own->list = calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *own->list);
    if (!own->list)
        return "memory is out";
    cJSON_ArrayForEach(item, list)
    {
        struct convoy_model *model = &own->list[own->models.count++];
        const char *reason = client_json_text(item, "reason");
        model->name = client_json_text(item, "name");
        model->version = client_json_text(item, "version");
        model->state = client_json_text(item, "state");
        model->reason = reason ? reason : "";
        if (!model->name || !model->version || !model->state)
            return "a model lacks its name, version or state";
    }
    qsort(own->list, own->models.count, sizeof *own->list, by_name_and_version);
    own->models.models = own->list;
    return NULL;
}

/* Takes ownership of document; list is a part of it or the whole. */
static int take_models(const struct client_response *response, cJSON *document, const cJSON *list,
                       struct convoy_models **models, struct convoy_failure *failure)
{
    struct own_models *own = calloc(1, sizeof *own);
    if (!own) {
        cJSON_Delete(document);
        return client_fail_with(failure, -ENOMEM, "memory is out");
    }
    own->document = document;
    const char *problem = read_models(list, own);
    if (problem) {
        client_models_discard(&own->models);
        return client_json_unexpected(response, problem, failure);
    }
    *models = &own->models;
    return 0;
}

int client_models_read(const struct client_response *response, struct convoy_models **models,
                       struct convoy_failure *failure)
{
    cJSON *document;
    *models = NULL;
    int status = client_json_parse_ok(response, &document, failure);
    if (status)
        return status;
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(document, "models");
    return take_models(response, document, list, models, failure);
}

int client_index_read(const struct client_response *response, struct convoy_models **models,
                      struct convoy_failure *failure)
{
    cJSON *document;
    *models = NULL;
    int status = client_json_parse_list(response, &document, failure);
    return status ? status : take_models(response, document, document, models, failure);
}

void client_models_discard(struct convoy_models *models)
{
    struct own_models *own = (struct own_models *)models;
    if (!own)
        return;
    cJSON_Delete(own->document);
    free(own->list);
    free(own);
}
