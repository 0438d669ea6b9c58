/* Lowering: the groups of a graph become a plan for one batch size and one layout of input. */
#ifndef CONVOY_ENGINE_CUDA_LOWER_H
#define CONVOY_ENGINE_CUDA_LOWER_H

#include "engine/cuda/plan/plan.h"
#include "engine/cuda/plan/source.h"

/* Fills in plan, of which only rows and layout are set and the rest is zero; free it also after a failure.
 * Uploads the weights that the plan needs. -ENOTSUP names the node; -ENOMEM, -EIO. */
int convoy_cuda_lower(const struct convoy_cuda_source *source, struct convoy_cuda_plan *plan,
                      struct convoy_error *error);

/* May plans of this source have tensors in 16 bits? All have, but those of which one kernel computes the
 * beginning. */
bool convoy_cuda_uses_nhwc(const struct convoy_cuda_source *source);

#endif
