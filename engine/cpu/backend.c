/* The CPU backend: oneDNN behind engine/backend.h. Jobs wait in a queue and the oldest runs inside collect(),
 * on the worker's thread and those of one of two teams (thread_team.h, openmp.h). */
#include "engine/cpu/check.h"
#include "engine/cpu/net.h"
#include "engine/cpu/openmp.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_JOBS 256 /* more than a channel has slots */

struct convoy_device {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    struct convoy_cpu_thread_team *team;
    int threads;
    struct convoy_cpu_progress progress;
    uint32_t head, count;
    struct {
        struct convoy_net *net;
        struct convoy_job job;
    } queue[MAX_JOBS];
};

static const char *isa_name(void)
{
    switch (dnnl_get_effective_cpu_isa()) {
    case dnnl_cpu_isa_sse41:
        return "sse41";
    case dnnl_cpu_isa_avx:
        return "avx";
    case dnnl_cpu_isa_avx2:
        return "avx2";
    case dnnl_cpu_isa_avx2_vnni:
        return "avx2_vnni";
    case dnnl_cpu_isa_avx512_core:
        return "avx512_core";
    case dnnl_cpu_isa_avx512_core_vnni:
        return "avx512_core_vnni";
    case dnnl_cpu_isa_avx512_core_bf16:
        return "avx512_core_bf16";
    case dnnl_cpu_isa_avx512_core_amx:
        return "avx512_core_amx";
    default:
        return "generic";
    }
}

static void cpu_close(struct convoy_device *device)
{
    if (device == NULL)
        return;
    convoy_cpu_thread_team_stop(device->team);
    convoy_cpu_openmp_stop();
    dnnl_stream_destroy(device->stream);
    dnnl_engine_destroy(device->engine);
    free(device);
}

static int cpu_open(uint32_t index, const struct convoy_open_options *options, struct convoy_device **device,
                    struct convoy_device_info *info, struct convoy_error *error)
{
    /* One job uses all cores, and nothing is timed: of options, only progress is of use. */
    if (index > 0)
        return convoy_fail(error, -ENODEV, "device %u: the cpu backend has one device, number 0", index);
    struct convoy_device *made = calloc(1, sizeof(*made));
    if (made == NULL)
        return convoy_fail(error, -ENOMEM, "no memory for the cpu device");
    made->threads = omp_get_max_threads();
    made->progress = (struct convoy_cpu_progress){options->progress, options->context};
    int failed =
        convoy_cpu_check(dnnl_engine_create(&made->engine, dnnl_cpu, 0), error, "cpu", "open the CPU");
    if (!failed)
        failed = convoy_cpu_check(dnnl_stream_create(&made->stream, made->engine, dnnl_stream_default_flags),
                                  error, "cpu", "make a stream");
    if (!failed)
        failed = convoy_cpu_thread_team_start(made->threads, &made->team, error);
    if (failed) {
        cpu_close(made);
        return failed;
    }
    const dnnl_version_t *version = dnnl_version();
    snprintf(info->name, sizeof(info->name), "cpu");
    snprintf(info->description, sizeof(info->description), "oneDNN %d.%d.%d, %s, %d thread%s", version->major,
             version->minor, version->patch, isa_name(), made->threads, made->threads == 1 ? "" : "s");
    info->device_count = 1;
    info->streams = 1;
    *device = made;
    return 0;
}

static int cpu_attach(struct convoy_device *device, void *base, size_t bytes, struct convoy_error *error)
{
    (void)device, (void)base, (void)bytes, (void)error; /* nothing to pin */
    return 0;
}

static int cpu_load(struct convoy_device *device, const struct convoy_graph *graph,
                    const struct convoy_load_options *options, struct convoy_net **net,
                    struct convoy_net_info *info, struct convoy_error *error)
{
    int failed = convoy_cpu_net_load(device->engine, device->stream, device->threads, &device->progress,
                                     graph, options, net, info, error);
    if (failed && options->name != NULL)
        return convoy_fail_in(error, failed, "model '%s'", options->name);
    return failed;
}

static void cpu_unload(struct convoy_device *device, struct convoy_net *net)
{
    (void)device;
    convoy_cpu_net_free(net);
}

static int cpu_submit(struct convoy_device *device, struct convoy_net *net, const struct convoy_job *job,
                      struct convoy_error *error)
{
    if (device->count == MAX_JOBS)
        return convoy_fail(error, -EBUSY, "%d jobs wait for the CPU already; collect some first", MAX_JOBS);
    uint32_t at = (device->head + device->count) % MAX_JOBS;
    device->queue[at].net = net;
    device->queue[at].job = *job;
    device->count++;
    return 0;
}

static int cpu_collect(struct convoy_device *device, int64_t timeout_us, uint64_t *tag,
                       struct convoy_error *error)
{
    (void)timeout_us; /* a job is run here: there is either one to finish or nothing to wait for */
    if (device->count == 0)
        return 0;
    uint32_t at = device->head;
    device->head = (device->head + 1) % MAX_JOBS;
    device->count--;
    const struct convoy_job *job = &device->queue[at].job;
    int failed = convoy_cpu_net_run(device->queue[at].net, device->team, job, error);
    if (failed)
        return failed;
    *tag = job->tag;
    return 1;
}

static int cpu_verify(struct convoy_device *device, struct convoy_net *net, int64_t budget_us,
                      struct convoy_error *error)
{
    (void)device;
    return convoy_cpu_net_verify(net, budget_us, error);
}

__attribute__((visibility("default"))) const struct convoy_backend *convoy_backend_entry(void);

const struct convoy_backend *convoy_backend_entry(void)
{
    static const struct convoy_backend backend = {.abi = CONVOY_BACKEND_ABI,
                                                  .name = "cpu",
                                                  .open = cpu_open,
                                                  .close = cpu_close,
                                                  .attach = cpu_attach,
                                                  .load = cpu_load,
                                                  .unload = cpu_unload,
                                                  .submit = cpu_submit,
                                                  .collect = cpu_collect,
                                                  .verify = cpu_verify};
    return &backend;
}
