#include "server/inference/inference_request.h"

#include "server/http/body_quota.h"
#include "server/http/buffer_pool.h"
#include "server/inference/class_map_quota.h"

#include <stdlib.h>

struct convoy_inference_request *convoy_inference_request_new(struct convoy_model_view *view, uint32_t count)
{
    size_t images = (size_t)count * sizeof(struct convoy_sample);
    size_t outputs = (size_t)count * view->shape.outputs_per_row * sizeof(float);
    struct convoy_inference_request *inference = calloc(1, sizeof *inference + images);

    if (inference != NULL)
        inference->outputs = malloc(outputs > 0 ? outputs : 1);
    if (inference == NULL || inference->outputs == NULL) {
        free(inference);
        convoy_model_view_end(view);
        return NULL;
    }
    inference->view = *view;
    view->model = NULL;
    view->labels = NULL;
    inference->count = count;
    atomic_init(&inference->refs, 1);
    atomic_init(&inference->left, count + 1);
    return inference;
}

void convoy_inference_request_drop(struct convoy_inference_request *inference)
{
    if (atomic_fetch_sub_explicit(&inference->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (uint32_t i = 0; i < inference->count; i++) {
        free(inference->samples[i].error);
        free(inference->samples[i].item.layers);
        free(inference->samples[i].item.class_map);
        convoy_response_free(inference->samples[i].response);
    }
    if (inference->map != CONVOY_MAP_NONE)
        convoy_class_map_give();
    convoy_model_view_end(&inference->view);
    free(inference->outputs);
    convoy_buffer_pool_free(inference->tensor);
    convoy_buffer_pool_free(inference->body);
    convoy_body_quota_give(inference->body_capacity);
    convoy_answer_quota_give(inference->answer_bytes);
    free(inference);
}

bool convoy_inference_request_complete(struct convoy_inference_request *inference)
{
    /* 1: the HTTP thread's own, when it asks before it gave that away. */
    uint32_t left = atomic_load_explicit(&inference->left, memory_order_acquire);
    return left == 0 || (left == 1 && !convoy_suspension_over(&inference->suspension));
}
