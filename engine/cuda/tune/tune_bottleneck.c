#include "engine/cuda/tune/tune_bottleneck.h"

#include "engine/cuda/net/net.h"
#include "engine/cuda/plan/bottlenecks.h"

#define WORTH_TRYING 2.0f /* times the estimate of the layers */

const struct convoy_bottleneck_shape *
convoy_cuda_tune_bottleneck_wanted(const struct convoy_net *net, int bucket, enum convoy_input_layout *layout)
{
    for (int i = 0; i < CONVOY_ROW_LAYOUTS; i++) {
        const struct convoy_cuda_plan *plan = &net->buckets[bucket].plans[i];
        *layout = (enum convoy_input_layout)i;
        for (int k = 0; k < plan->bottleneck_count; k++)
            if (!convoy_cuda_knows_bottleneck(&net->source, &plan->bottlenecks[k].shape))
                return &plan->bottlenecks[k].shape;
    }
    return NULL;
}

bool convoy_cuda_tune_bottleneck_guessed(const struct convoy_net *net, int bucket)
{
    for (int i = 0; i < CONVOY_ROW_LAYOUTS; i++) {
        const struct convoy_cuda_plan *plan = &net->buckets[bucket].plans[i];
        for (int k = 0; k < plan->bottleneck_count; k++)
            if (plan->bottlenecks[k].kernel != NULL &&
                !convoy_cuda_knows_bottleneck(&net->source, &plan->bottlenecks[k].shape))
                return true;
    }
    return false;
}

void convoy_cuda_tune_bottleneck_begin(struct convoy_cuda_tune_network *tuning, struct convoy_net *net,
                                       int bucket, enum convoy_input_layout layout,
                                       const struct convoy_bottleneck_shape *shape)
{
    struct convoy_cuda_key key;
    int count;
    const struct convoy_bottleneck_kernel *const *kernels = convoy_bottleneck_kernels(&count);
    float layers_us = convoy_cuda_estimate_layers(&net->source, shape);
    convoy_cuda_bottleneck_key(shape, &key);
    convoy_cuda_tune_network_open(tuning, net, net->buckets[bucket].rows, layout, &key, CONVOY_CUDA_LAYERS);
    for (int i = 0; i < count; i++)
        if (kernels[i]->takes(shape) && kernels[i]->estimate_us(shape) <= WORTH_TRYING * layers_us)
            convoy_cuda_tune_network_add(tuning, kernels[i]->name, kernels[i]->estimate_us(shape));
}
