#include "server/api/classify.h"

#include "engine/base/clock.h"
#include "server/api/app.h"
#include "server/api/call.h"
#include "server/api/classify_answer.h"
#include "server/api/decoder_option.h"
#include "server/api/explain.h"
#include "server/api/form.h"
#include "server/api/long_answer.h"
#include "server/api/lookup.h"
#include "server/api/trace.h"
#include "server/api/unpack.h"
#include "server/http/multipart.h"
#include "server/http/query.h"
#include "server/http/response.h"
#include "server/http/status.h"
#include "server/inference/admission.h"
#include "server/inference/class_map_quota.h"
#include "server/inference/inference_request.h"
#include "server/inference/prediction.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define DEFAULT_TOP    5
#define TIMEOUT_MS_MAX 3600000

/* To rank a class costs a fraction of writing one. */
#define RANKED_AS_ONE 16u

struct options {
    uint64_t top;     /* 0: not given */
    double threshold; /* below 0: not given */
    uint64_t timeout_ms, profile, priority;
    uint64_t scaled_decoding; /* 0: off, whatever the configuration says */
    uint32_t map;             /* as struct convoy_slot's */
    enum convoy_image_decoder decoder;
};

/* A number in the query; *result keeps its default when the parameter is absent. False with refusal set. */
static bool number(struct convoy_request *request, const char *name, uint64_t least, uint64_t most,
                   uint64_t *result)
{
    size_t length;
    bool present;
    const char *value = convoy_request_query(request, name, &length, &present);

    if (!present)
        return true;
    if (convoy_query_number(name, value, length, least, most, result, &request->refusal_reason) != 0)
        return convoy_request_refuse(request, CONVOY_HTTP_BAD_REQUEST);
    return true;
}

static bool read_threshold(struct convoy_request *request, double *threshold)
{
    size_t length;
    bool present;
    const char *value = convoy_request_query(request, "threshold", &length, &present);

    if (present &&
        convoy_query_fraction("threshold", value, length, 0, 1, threshold, &request->refusal_reason) != 0)
        return convoy_request_refuse(request, CONVOY_HTTP_BAD_REQUEST);
    return true;
}

/* Which classes to name: with a threshold all that reach it, unless top says how many. */
static struct convoy_prediction_rule rule_of(const struct options *options,
                                             const struct convoy_model_view *view)
{
    double threshold = options->threshold >= 0 ? options->threshold : view->threshold;
    uint32_t top = options->top > 0 ? (uint32_t)options->top : threshold > 0 ? CONVOY_TOP_MAX : DEFAULT_TOP;

    return (struct convoy_prediction_rule){top, view->activation, threshold};
}

/* A map is computed by a network whose layers are not those that serve. */
static bool take_one(struct convoy_request *request, const struct options *options)
{
    if (options->profile == 0 || options->map == CONVOY_MAP_NONE)
        return true;
    convoy_fail(&request->refusal_reason, 0, "profile and explain exclude each other: ask twice");
    return convoy_request_refuse(request, CONVOY_HTTP_BAD_REQUEST);
}

static bool read_options(struct convoy_request *request, struct options *options)
{
    const struct convoy_config *config = convoy_app_of(request)->config;
    *options = (struct options){.threshold = -1, .timeout_ms = config->timeout_ms, .scaled_decoding = 1};
    return number(request, "top", 1, CONVOY_TOP_MAX, &options->top) &&
           read_threshold(request, &options->threshold) &&
           number(request, "timeout_ms", 1, TIMEOUT_MS_MAX, &options->timeout_ms) &&
           number(request, "profile", 0, 1, &options->profile) &&
           number(request, "scaled_decoding", 0, 1, &options->scaled_decoding) &&
           convoy_decoder_option(request, &options->decoder) &&
           number(request, "priority", 0, CONVOY_PRIORITY_NUMBER_MOST, &options->priority) &&
           convoy_explain_read(request, &options->map) && take_one(request, options);
}

/* How the images are in the body. */
struct packing {
    enum convoy_form_kind kind;
    char boundary[CONVOY_BOUNDARY_MAX + 1]; /* of a form */
};

static bool is_json(const char *type)
{
    static const char json[] = "application/json";
    const size_t length = sizeof json - 1;

    return type != NULL && strncasecmp(type, json, length) == 0 &&
           (type[length] == '\0' || strchr("; \t", type[length]) != NULL);
}

/* False with refusal set. */
static bool read_packing(struct convoy_request *request, struct packing *packing)
{
    const char *type = convoy_request_header(request, "Content-Type");
    int code = convoy_multipart_boundary(type, packing->boundary, &request->refusal_reason);

    packing->kind = code == 0 ? CONVOY_FORM_PARTS : is_json(type) ? CONVOY_FORM_JSON : CONVOY_FORM_IMAGE;
    return code == 0 || code == -ENOENT || convoy_request_refuse(request, CONVOY_HTTP_BAD_REQUEST);
}

/* How many images the body holds. False with refusal set, or as convoy_form_read() says. */
static bool count_images(struct convoy_request *request, const struct packing *packing, uint64_t deadline_us,
                         size_t *count)
{
    if (request->body_length == 0) {
        convoy_fail(&request->refusal_reason, 0,
                    "the body is empty: send an image, with curl by --data-binary @image.jpg");
        return convoy_request_refuse(request, CONVOY_HTTP_BAD_REQUEST);
    }
    *count = 1;
    bool as_it_is = packing->kind == CONVOY_FORM_IMAGE && convoy_call_of(request)->form == NULL &&
                    convoy_unpack_encoding(request) == NULL;
    return as_it_is || convoy_form_read(request, packing->kind, packing->boundary, deadline_us, count);
}

/* Sets each sample's part of the body; inference takes the body over. */
static void place_images(struct convoy_request *request, struct convoy_inference_request *inference)
{
    const struct convoy_form *form = convoy_call_of(request)->form;

    if (form == NULL)
        inference->samples[0].part = (struct convoy_part){request->body, request->body_length};
    else
        convoy_form_place(form, inference);
    inference->layout = CONVOY_LAYOUT_ENCODED;
    inference->body = request->body;
    inference->body_capacity = request->body_capacity;
    request->body = NULL;
    request->body_capacity = 0;
}

static int retry_of(int status)
{
    return status == CONVOY_HTTP_SERVICE_UNAVAILABLE ? CONVOY_RETRY_SOON : CONVOY_RETRY_NONE;
}

/* As the client wants it: with the classes, or the map alone. */
static bool answer_explained(struct convoy_request *request, const struct convoy_inference_request *inference)
{
    struct convoy_class_map_picture picture;
    struct convoy_json_writer json = {0};
    struct convoy_error error;
    bool answered;

    if (convoy_class_map_draw(inference, 0, &picture, &error) != 0)
        return convoy_respond_error(request, CONVOY_HTTP_INTERNAL_SERVER_ERROR, CONVOY_RETRY_NONE,
                                    error.message);
    if (convoy_explain_wants_png(request)) {
        answered = convoy_explain_send(request, &picture);
    } else {
        convoy_classify_write(inference, &picture, convoy_now_us() - request->complete_us, &json);
        answered = convoy_respond(request, CONVOY_HTTP_OK, CONVOY_TYPE_JSON, &json, CONVOY_RETRY_NONE);
    }
    free(picture.png);
    return answered;
}

/* How many classes an answer has to write. */
static uint64_t classes_of(const struct convoy_inference_request *inference)
{
    uint32_t classes = inference->view.shape.output_elements[0];
    uint32_t named = inference->rule.top < classes ? inference->rule.top : classes;

    return (uint64_t)inference->count * (named + classes / RANKED_AS_ONE);
}

/* See convoy_long_answer_write. */
static void write_answer(struct convoy_request *request, struct convoy_json_writer *json)
{
    convoy_classify_write(convoy_call_of(request)->inference, NULL, convoy_now_us() - request->complete_us,
                          json);
}

/* Sends what the pool wrote. The request was counted when its images were done. */
static bool respond_long(struct convoy_request *request)
{
    struct convoy_call *call = convoy_call_of(request);
    struct convoy_json_writer json = {0};
    const char *sentence;
    int status = convoy_long_answer_take(call->long_answer, &json, &sentence);

    if (status != CONVOY_HTTP_OK)
        return convoy_respond_error(request, status, retry_of(status), sentence);
    status = convoy_classify_status(call->inference);
    return convoy_respond(request, status, CONVOY_TYPE_JSON, &json, retry_of(status));
}

/* Answers from what became of the images. */
static bool answer(struct convoy_request *request)
{
    struct convoy_inference_request *inference = convoy_call_of(request)->inference;
    struct convoy_json_writer json = {0};
    const char *sentence;

    if (!convoy_inference_request_complete(inference))
        return convoy_respond_error(request, CONVOY_HTTP_SERVICE_UNAVAILABLE, CONVOY_RETRY_SOON,
                                    "the server is stopping: send the request again");
    convoy_inference_request_cache(inference);
    convoy_inference_request_count_decoded(inference);
    int status = convoy_classify_status(inference);
    struct convoy_model_record *model = inference->view.model;
    convoy_metrics_observe(model->metrics, CONVOY_STAGE_DECODE,
                           convoy_inference_request_decode_us(inference));
    uint64_t total_us = convoy_now_us() - request->complete_us;
    convoy_metrics_observe(model->metrics, CONVOY_STAGE_WAIT,
                           convoy_inference_request_wait_us(inference, total_us));
    convoy_model_answered(model, status == CONVOY_HTTP_OK, total_us);
    convoy_trace_request(convoy_app_of(request)->trace, request, inference, status);

    if (inference->alone && status != CONVOY_HTTP_OK) {
        convoy_inference_request_outcome(inference, 0, &sentence);
        return convoy_respond_error(request, status, retry_of(status), sentence);
    }
    if (inference->map != CONVOY_MAP_NONE && status == CONVOY_HTTP_OK)
        return answer_explained(request, inference);
    if (convoy_long_answer_leave(request, classes_of(inference), write_answer))
        return true;
    write_answer(request, &json);
    return convoy_respond(request, status, CONVOY_TYPE_JSON, &json, retry_of(status));
}

/* False with refusal set. */
static bool takes_images(struct convoy_request *request, const struct convoy_model_view *view)
{
    if (convoy_model_takes_pictures(&view->shape))
        return true;
    convoy_fail(&request->refusal_reason, 0,
                "model %s takes %u channels, not an image's 1, 3 or 4: it cannot classify images",
                view->model->name, view->shape.channels);
    return convoy_request_refuse(request, CONVOY_HTTP_BAD_REQUEST);
}

/* Everything up to the hand-over. False with refusal set, or without when memory is out. */
static bool prepare(struct convoy_request *request, int *retry_after)
{
    struct packing packing;
    struct convoy_model_view view;
    struct options options;
    size_t count;

    if (convoy_lookup_model(request) == NULL || !read_options(request, &options))
        return false;
    uint64_t deadline_us = convoy_app_deadline_us(request, options.timeout_ms * 1000);
    if (!read_packing(request, &packing) || !count_images(request, &packing, deadline_us, &count) ||
        !convoy_lookup_activated(request, &view, deadline_us, retry_after))
        return false;
    if (!takes_images(request, &view) || !convoy_explain_check(request, &view, count, options.map) ||
        !convoy_explain_take(request, options.map)) {
        convoy_model_view_end(&view);
        return false;
    }
    const struct convoy_prediction_rule rule = rule_of(&options, &view);
    struct convoy_inference_request *inference =
        convoy_admit(request, &convoy_app_of(request)->pipeline, &view, count,
                     convoy_classify_row_bytes(&rule, &view.shape), convoy_priority_of(options.priority),
                     deadline_us, retry_after);
    if (inference == NULL) {
        if (options.map != CONVOY_MAP_NONE)
            convoy_class_map_give();
        return false;
    }
    place_images(request, inference);
    inference->alone = packing.kind != CONVOY_FORM_PARTS;
    inference->rule = rule;
    inference->profile = options.profile != 0;
    inference->map = options.map;
    inference->whole = options.scaled_decoding == 0;
    inference->decoder = options.decoder;
    convoy_call_of(request)->inference = inference;
    return true;
}

bool convoy_classify(struct convoy_request *request)
{
    struct convoy_call *call = convoy_call_of(request);
    int retry_after = CONVOY_RETRY_SOON;

    if (call->long_answer != NULL)
        return respond_long(request);
    if (call->inference != NULL)
        return answer(request); /* the connection was resumed */
    convoy_lookup_resumed(request);
    if (request->refusal != 0)
        return convoy_respond_refusal(request, retry_after);
    if (!prepare(request, &retry_after))
        return call->wait != NULL || convoy_form_waits(call->form) ||
               convoy_respond_refusal(request, retry_after);
    return convoy_inference_request_run(call->inference) ? answer(request) : true;
}
