/* Rows that nothing reads are not computed. Of a transformer's last tokens a classifier often reads one: from
 * there back to the last attention everything works row by row, and is computed of that row alone. */
#ifndef CONVOY_ENGINE_CUDA_PICKS_H
#define CONVOY_ENGINE_CUDA_PICKS_H

#include "engine/cuda/plan/groups.h"

/* Sets `pick` of the groups that compute some rows alone, and narrows attention among them. Of groups without
 * rows (rows.h) nothing is changed. 0 or -ENOMEM. */
int convoy_cuda_pick_rows(const struct convoy_graph *graph, struct convoy_cuda_groups *groups,
                          struct convoy_error *error);

/* The tensors that a group reads row by row: row i of its result needs row i of each. Returns how many; 0:
 * the group is none of those. channels: as convoy_cuda_find_channels() finds them. */
int convoy_cuda_row_inputs(const struct convoy_graph *graph, const struct convoy_cuda_group *group,
                           const enum convoy_cuda_channels *channels, int inputs[2]);

#endif
