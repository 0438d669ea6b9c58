/* A network on the CPU: its resident weights and plans for a few batch sizes (buckets). A job runs as one
 * pass or several, which keeps activations in the cache and the arena small. The images of a large job are
 * divided among the threads of a team (thread_team.h); for a job of few images OpenMP's team shares the work
 * on each image. Threads: one at a time uses a network. */
#ifndef CONVOY_ENGINE_CPU_NET_H
#define CONVOY_ENGINE_CPU_NET_H

#include "engine/backend.h"
#include "engine/cpu/plan.h"
#include "engine/cpu/thread_team.h"

#include <dnnl.h>

/* engine and stream are borrowed; threads is the most that a plan may use and the size of the team. progress
 * is copied; the threads that run a job call it. Fills info as backend.h says; its layers live as long as the
 * net. */
int convoy_cpu_net_load(dnnl_engine_t engine, dnnl_stream_t stream, int threads,
                        const struct convoy_cpu_progress *progress, const struct convoy_graph *graph,
                        const struct convoy_load_options *options, struct convoy_net **net,
                        struct convoy_net_info *info, struct convoy_error *error);

/* Runs the job to its end. -EINVAL for a job that the net cannot take. */
int convoy_cpu_net_run(const struct convoy_net *net, struct convoy_cpu_thread_team *team,
                       const struct convoy_job *job, struct convoy_error *error);

/* verify() of backend.h. */
int convoy_cpu_net_verify(struct convoy_net *net, int64_t budget_us, struct convoy_error *error);

/* Frees the network and its memory. Accepts NULL. */
void convoy_cpu_net_free(struct convoy_net *net);

#endif
