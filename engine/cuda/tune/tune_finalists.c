#include "engine/cuda/tune/tune_finalists.h"

#include "engine/cuda/net/net.h"

#include <stdlib.h>

#define FEW_ROWS  32    /* of a network with more the noise is more than what is looked for */
#define SHORT_US  30.0f /* of the fastest; beside longer ones a microsecond does not count */
#define CLOSE     1.3f  /* times the fastest */
#define ESTIMATED 1.5f  /* the same, for the kernel with the least estimate */
#define FINALISTS 4     /* and that one */

/* Equal times: in order of estimates. */
static int by_time(const void *left, const void *right)
{
    const struct convoy_cuda_candidate *a = *(const struct convoy_cuda_candidate *const *)left;
    const struct convoy_cuda_candidate *b = *(const struct convoy_cuda_candidate *const *)right;
    return a->us != b->us ? (a->us > b->us) - (a->us < b->us) : (a > b) - (a < b);
}

static const char *name_of(const struct convoy_cuda_candidate *candidate)
{
    return candidate->conv != NULL ? candidate->conv->name : candidate->gemm->name;
}

bool convoy_cuda_tune_finalists_begin(struct convoy_cuda_tune_network *tuning,
                                      const struct convoy_cuda_tune_kernel *kernel, struct convoy_net *net,
                                      uint32_t rows, enum convoy_input_layout layout)
{
    const struct convoy_cuda_candidate *timed[CONVOY_CUDA_MAX_CANDIDATES];
    int count = 0;
    for (int i = 0; i < kernel->count; i++)
        if (kernel->candidates[i].us > 0)
            timed[count++] = &kernel->candidates[i];
    qsort(timed, (size_t)count, sizeof(timed[0]), by_time);
    /* Its gates can be made by a launch of their own. */
    bool excited =
        kernel->step.kind == CONVOY_CUDA_CONV && kernel->step.conv.shape.nhwc.input == CONVOY_NHWC_EXCITED;
    if (count < (excited ? 1 : 2) || rows > FEW_ROWS || (timed[0]->us > SHORT_US && !excited))
        return false;
    convoy_cuda_tune_network_open(tuning, net, rows, layout, &kernel->key, name_of(timed[0]));
    for (int i = 1; i < count; i++) {
        bool close = i < FINALISTS && timed[i]->us <= CLOSE * timed[0]->us;
        bool estimated = timed[i] == kernel->candidates && timed[i]->us <= ESTIMATED * timed[0]->us;
        if (close || estimated)
            convoy_cuda_tune_network_add(tuning, name_of(timed[i]), 0);
    }
    if (excited)
        convoy_cuda_tune_network_add(tuning, CONVOY_CUDA_LAYERS, 0);
    if (tuning->count > 1)
        return true;
    tuning->net = NULL;
    return false;
}
