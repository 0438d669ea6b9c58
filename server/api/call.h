/* What the endpoints keep of a request until it is answered: convoy_request.state. Zeroed when the request
 * begins; convoy_routes_release() frees what it holds. On the request's HTTP thread. */
#ifndef CONVOY_SERVER_CALL_H
#define CONVOY_SERVER_CALL_H

#include "server/http/request.h"
#include "server/models/model.h"

#include <stdbool.h>

struct convoy_form;
struct convoy_long_answer;
struct convoy_oip_infer;
struct convoy_model_wait;
struct convoy_inference_request;

struct convoy_call {
    struct convoy_model_record *model; /* the model that was asked for, once it is known; held */
    struct convoy_model_wait *wait;    /* the connection is suspended until the model manager is done */
    bool activated;                    /* the model was activated for this request */
    bool bound;                        /* and held for it when it was READY */
    struct convoy_form *form;          /* of images in a form, once it is begun to be read */
    struct convoy_oip_infer *infer;    /* of an inference request, once its model is known */
    struct convoy_inference_request *inference; /* once they are admitted */
    struct convoy_long_answer *long_answer;     /* an answer that the decode pool writes */
};

static inline struct convoy_call *convoy_call_of(struct convoy_request *request)
{
    return (struct convoy_call *)(void *)request->state;
}

/* Takes model over (NULL: none) in place of the one that the call held, and names it in log and metrics. */
static inline void convoy_call_set_model(struct convoy_request *request, struct convoy_model_record *model)
{
    struct convoy_call *call = convoy_call_of(request);

    convoy_model_release(call->model);
    call->model = model;
    request->model = model == NULL ? "" : model->name;
}

#endif
