/* A backend without HTTP, channel or front: what bench_backend_rate and bench_network_time share. One thread.
 */
#ifndef CONVOY_TESTS_BENCH_ALONE_H
#define CONVOY_TESTS_BENCH_ALONE_H

#include "engine/worker/nets.h"

/* What the front would tell a worker of a model. The caller frees it. */
cJSON *bench_load_message(const char *path, long batch, const char *precision);

/* As a daemon that has been idle for a while: until nothing is left to tune, or for about most_s seconds. 1:
 * something is left; 0: nothing; negative: the device is lost. */
int bench_tune(const struct convoy_worker_device *device, double most_s, struct convoy_error *error);

/* One job from end to end. */
int bench_run(const struct convoy_worker_device *device, const struct convoy_worker_net *net,
              const struct convoy_job *job, struct convoy_error *error);

/* Of count values, one at least; sorts them. */
float bench_median(float *values, size_t count);

#endif
