#include "engine/cuda/tune/tune_branches.h"

#include "engine/cuda/net/net.h"
#include "engine/cuda/plan/branches.h"

bool convoy_cuda_tune_branches_wanted(const struct convoy_net *net, int bucket,
                                      enum convoy_input_layout *layout)
{
    for (int i = 0; i < CONVOY_ROW_LAYOUTS; i++) {
        const struct convoy_cuda_plan *plan = &net->buckets[bucket].plans[i];
        *layout = (enum convoy_input_layout)i;
        if (plan->branches.text[0] != '\0' &&
            convoy_cuda_branches_known(&net->source, plan) == CONVOY_CUDA_BRANCHES_GUESSED)
            return true;
    }
    return false;
}

void convoy_cuda_tune_branches_begin(struct convoy_cuda_tune_network *tuning, struct convoy_net *net,
                                     int bucket, enum convoy_input_layout layout)
{
    convoy_cuda_tune_network_open(tuning, net, net->buckets[bucket].rows, layout,
                                  &net->buckets[bucket].plans[layout].branches, CONVOY_CUDA_LAYERS);
    convoy_cuda_tune_network_add(tuning, CONVOY_CUDA_BRANCHES, 0);
}
