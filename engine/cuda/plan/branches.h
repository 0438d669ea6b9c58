/* Branches: the steps of a plan that may run at the same time, found by what they read and write. A graph is
 * recorded on several lanes then, one stream each, which wait for each other where steps need it (plan.h).
 *
 * The steps are divided into regions. All behind the end of one wait for all that is before it; or it ends
 * after 64 steps. All of it has run before the next one begins. Within a region a step waits for those whose
 * results it reads, and for those that read or write where it writes. All memory that a region uses is its
 * own for as long as the region runs, so what may run at the same time never shares a place. A region whose
 * steps follow each other stays as it is. */
#ifndef CONVOY_ENGINE_CUDA_BRANCHES_H
#define CONVOY_ENGINE_CUDA_BRANCHES_H

#include "engine/cuda/plan/lowering.h"

/* Gives the steps of a plan their lanes. Once, after the last step was added and before buffers are placed: a
 * region with branches keeps its buffers longer. A single kernel beside others is let run there always. Other
 * branches are a choice, which plan->branches names: they are there where they were measured to be faster, or
 * while that is measured, and before that where they are likely to be. 0 or -ENOMEM. */
int convoy_cuda_find_branches(struct convoy_cuda_lowering *l);

/* What is known now about the choice that plan->branches names, or was said. Environment variable
 * CONVOY_BRANCHES, for tests and measurements: CONVOY_CUDA_BRANCHES or CONVOY_CUDA_LAYERS. */
enum convoy_cuda_branching convoy_cuda_branches_known(const struct convoy_cuda_source *source,
                                                      const struct convoy_cuda_plan *plan);

#endif
