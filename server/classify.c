#include "server/classify.h"

#include "engine/base/clock.h"
#include "server/classification.h"
#include "server/http_internal.h"
#include "server/lookup.h"
#include "server/multipart.h"
#include "server/prediction.h"
#include "server/query.h"
#include "server/response.h"

#include <errno.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_TOP    5
#define TIMEOUT_MS_MAX 3600000
#define RETRY_MOST     60 /* seconds */

struct options {
    uint64_t top, timeout_ms, profile;
};

static bool refuse(struct convoy_request *request, int status)
{
    request->refusal = status;
    return false;
}

/* A number in the query; *result keeps its default when the parameter is absent. False with refusal set. */
static bool number(struct convoy_request *request, const char *name, uint64_t least, uint64_t most,
                   uint64_t *result)
{
    size_t length;
    bool present;
    const char *value = convoy_lookup_query(request, name, &length, &present);

    if (!present)
        return true;
    if (convoy_query_number(name, value, length, least, most, result, &request->refusal_reason) != 0)
        return refuse(request, MHD_HTTP_BAD_REQUEST);
    return true;
}

static bool read_options(struct convoy_request *request, struct options *options)
{
    *options = (struct options){.top = DEFAULT_TOP, .timeout_ms = request->http->config->timeout_ms};
    return number(request, "top", 1, CONVOY_TOP_MAX, &options->top) &&
           number(request, "timeout_ms", 1, TIMEOUT_MS_MAX, &options->timeout_ms) &&
           number(request, "profile", 0, 1, &options->profile);
}

/* The form's boundary, or "" when the body is an image itself. False with refusal set. */
static bool read_boundary(struct convoy_request *request, char boundary[CONVOY_BOUNDARY_MAX + 1])
{
    const char *type =
        MHD_lookup_connection_value(request->mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_TYPE);
    int code = convoy_multipart_boundary(type, boundary, &request->refusal_reason);

    if (code == -ENOENT)
        boundary[0] = '\0';
    else if (code != 0)
        return refuse(request, MHD_HTTP_BAD_REQUEST);
    return true;
}

/* How many images the body holds. False with refusal set. */
static bool count_images(struct convoy_request *request, const char *boundary, size_t *count)
{
    uint32_t most = request->http->config->images.max_per_request;

    if (request->body_length == 0) {
        convoy_fail(&request->refusal_reason, 0,
                    "the body is empty: send a JPEG or PNG, with curl by --data-binary @image.jpg");
        return refuse(request, MHD_HTTP_BAD_REQUEST);
    }
    *count = 1;
    if (boundary[0] == '\0')
        return true;
    if (convoy_multipart_split(request->body, request->body_length, boundary, NULL, 0, count,
                               &request->refusal_reason) != 0)
        return refuse(request, MHD_HTTP_BAD_REQUEST);
    if (*count == 0) {
        convoy_fail(&request->refusal_reason, 0,
                    "the form has no part: send a JPEG or PNG in each, with curl by -F image=@image.jpg");
        return refuse(request, MHD_HTTP_BAD_REQUEST);
    }
    if (*count > most) {
        convoy_fail(&request->refusal_reason, 0,
                    "the form has %zu images and images.max_per_request is %u: send them in several requests",
                    *count, most);
        return refuse(request, MHD_HTTP_CONTENT_TOO_LARGE);
    }
    return true;
}

/* Puts the images' places in the body into classification, which takes the body over. */
static void place_images(struct convoy_request *request, const char *boundary, struct convoy_part *parts,
                         struct convoy_classification *classification)
{
    size_t count = classification->count;

    if (boundary[0] == '\0')
        parts[0] = (struct convoy_part){request->body, request->body_length};
    else
        /* The same call that counted them: it cannot fail now. */
        (void)convoy_multipart_split(request->body, request->body_length, boundary, parts, count, &count,
                                     NULL);
    for (uint32_t i = 0; i < classification->count; i++)
        classification->images[i].part = parts[i];
    classification->body = request->body;
    classification->body_capacity = request->body_capacity;
    request->body = NULL;
    request->body_capacity = 0;
}

/* When to ask again: when half of what waits now is done. Sooner, most of those who come back would be sent
 * away once more. */
static int retry_seconds(uint64_t wait_us)
{
    uint64_t seconds = wait_us / 2000000 + 1;
    return seconds < RETRY_MOST ? (int)seconds : RETRY_MOST;
}

/* The sentence for what admission said; *retry_after is set where that is worth another time. */
static void refuse_admission(struct convoy_request *request, const struct convoy_model *model, size_t count,
                             int code, uint64_t wait_us, int *retry_after)
{
    request->refusal = MHD_HTTP_SERVICE_UNAVAILABLE;
    switch (code) {
    case -E2BIG:
        request->refusal = MHD_HTTP_CONTENT_TOO_LARGE;
        convoy_fail(&request->refusal_reason, 0,
                    "%zu images are more than the queue of model %s can hold (batching.max_queue): send "
                    "them in several requests",
                    count, model->name);
        break;
    case -EBUSY:
        *retry_after = retry_seconds(wait_us);
        convoy_fail(&request->refusal_reason, 0,
                    "the queue of model %s has no room for %zu more: try again later", model->name, count);
        break;
    case -ETIME:
        *retry_after = retry_seconds(wait_us);
        convoy_fail(&request->refusal_reason, 0,
                    "model %s is busy and would take about %.1f s for this request, too much for its "
                    "deadline: try again later, or allow more with timeout_ms",
                    model->name, (double)wait_us / 1e6);
        break;
    default:
        convoy_fail(&request->refusal_reason, 0, "the server is stopping: send the request again");
        break;
    }
}

/* The classification of a request that is in order, admitted; NULL with refusal set otherwise, or, when
 * memory is out, without. */
static struct convoy_classification *admit(struct convoy_request *request, struct convoy_model *model,
                                           const struct convoy_model_view *view, size_t count,
                                           uint64_t deadline_us, int *retry_after)
{
    struct convoy_batcher *batcher = convoy_supervisor_batcher(request->http->supervisor);
    struct convoy_model_view taken = *view;
    uint32_t channels = view->shape.channels;

    if (channels != 1 && channels != 3) {
        convoy_fail(&request->refusal_reason, 0,
                    "model %s takes %u channels, not an image's 1 or 3: it cannot classify images",
                    model->name, channels);
        request->refusal = MHD_HTTP_BAD_REQUEST;
        convoy_model_view_end(&taken);
        return NULL;
    }
    uint64_t wait_us;
    int code = convoy_batcher_admit(batcher, model, (uint32_t)count, deadline_us, &wait_us);
    if (code != 0) {
        refuse_admission(request, model, count, code, wait_us, retry_after);
        convoy_model_view_end(&taken);
        return NULL;
    }
    struct convoy_classification *classification = convoy_classification_new(view, (uint32_t)count);
    if (classification == NULL) {
        convoy_batcher_cancel(batcher, model, (uint32_t)count);
        return NULL;
    }
    classification->http = request->http;
    classification->mhd = request->mhd;
    classification->batcher = batcher;
    classification->deadline_us = deadline_us;
    return classification;
}

/* Answers from what became of the images. */
static bool answer(struct convoy_request *request)
{
    struct convoy_classification *classification = request->classification;
    struct convoy_text text = {0};
    const char *sentence;

    if (!convoy_classification_complete(classification))
        return convoy_respond_error(request, MHD_HTTP_SERVICE_UNAVAILABLE, CONVOY_RETRY_SOON,
                                    "the server is stopping: send the request again");
    int status = convoy_classification_status(classification);
    int retry_after = status == MHD_HTTP_SERVICE_UNAVAILABLE ? CONVOY_RETRY_SOON : CONVOY_RETRY_NONE;
    struct convoy_model_metrics *metrics = classification->view.model->metrics;
    convoy_metrics_observe(metrics, CONVOY_STAGE_DECODE, convoy_classification_decode_us(classification));
    convoy_model_answered(classification->view.model, status == MHD_HTTP_OK,
                          convoy_now_us() - request->complete_us);

    if (classification->alone && status != MHD_HTTP_OK) {
        convoy_classification_outcome(classification, 0, &sentence);
        return convoy_respond_error(request, status, retry_after, sentence);
    }
    convoy_classification_write(classification, request->complete_us, &text);
    return convoy_respond(request, status, CONVOY_TYPE_JSON, &text, retry_after);
}

/* Everything up to the hand-over. False with refusal set, or without when memory is out. */
static bool prepare(struct convoy_request *request, int *retry_after)
{
    char boundary[CONVOY_BOUNDARY_MAX + 1];
    struct convoy_model_view view;
    struct options options;
    size_t count;

    struct convoy_model *model = convoy_lookup_model(request);
    if (model == NULL || !read_options(request, &options) || !read_boundary(request, boundary) ||
        !count_images(request, boundary, &count) || !convoy_lookup_ready(request, model, &view, retry_after))
        return false;
    uint64_t deadline_us = request->complete_us + options.timeout_ms * 1000;
    struct convoy_classification *classification =
        admit(request, model, &view, count, deadline_us, retry_after);
    if (classification == NULL)
        return false;
    struct convoy_part one;
    struct convoy_part *parts = count == 1 ? &one : malloc(count * sizeof *parts);
    if (parts == NULL) {
        convoy_batcher_cancel(classification->batcher, model, (uint32_t)count);
        convoy_classification_drop(classification);
        return false;
    }
    place_images(request, boundary, parts, classification);
    if (parts != &one)
        free(parts);
    classification->alone = boundary[0] == '\0';
    classification->top = (uint32_t)options.top;
    classification->profile = options.profile != 0;
    request->classification = classification;
    return true;
}

bool convoy_classify(struct convoy_request *request)
{
    int retry_after = CONVOY_RETRY_SOON;

    if (request->classification != NULL)
        return answer(request); /* the connection was resumed */
    if (!prepare(request, &retry_after)) {
        if (request->refusal == 0)
            return false;
        if (request->refusal != MHD_HTTP_SERVICE_UNAVAILABLE)
            retry_after = CONVOY_RETRY_NONE;
        return convoy_respond_error(request, request->refusal, retry_after, request->refusal_reason.message);
    }
    return convoy_classification_run(request->classification) ? answer(request) : true;
}
