/* Rebuilding plans and graphs when more is known about the kernels than at load. */
#include "engine/cuda/net/net.h"

#include <errno.h>
#include <stdlib.h>

/* Moves the network to a workspace that is large enough for the bucket fresh, which replaces bucket number
 * `changed`. Graphs hold addresses, so all graphs are recorded again. */
static int move(struct convoy_cuda_gpu *gpu, struct convoy_net *net, int changed,
                struct convoy_cuda_bucket *fresh, struct convoy_error *error)
{
    struct convoy_cuda_workspace *workspace = NULL;
    struct convoy_cuda_bucket *moved = calloc((size_t)net->bucket_count, sizeof(*moved));
    int failed = moved == NULL
                     ? convoy_fail(error, -ENOMEM, "no memory for %d buckets", net->bucket_count)
                     : convoy_cuda_workspace_get(gpu, convoy_cuda_bucket_workspace(fresh), &workspace, error);
    for (int i = 0; i < net->bucket_count && !failed; i++) {
        const struct convoy_cuda_bucket *plans = i == changed ? fresh : &net->buckets[i];
        moved[i].rows = plans->rows;
        moved[i].between = plans->between;
        moved[i].passed_over = plans->passed_over;
        for (int layout = 0; layout < CONVOY_ROW_LAYOUTS; layout++)
            moved[i].plans[layout] = plans->plans[layout];
        failed = convoy_cuda_bucket_record(gpu, workspace, net->overflow.marks, &moved[i], error);
    }
    if (failed) {
        for (int i = 0; moved != NULL && i < net->bucket_count; i++)
            convoy_cuda_bucket_free_graphs(&moved[i]);
        convoy_cuda_workspace_put(gpu, workspace);
        free(moved);
        return failed;
    }
    for (int i = 0; i < net->bucket_count; i++) {
        if (i == changed)
            convoy_cuda_bucket_free(&net->buckets[i]);
        else
            convoy_cuda_bucket_free_graphs(&net->buckets[i]);
        net->buckets[i] = moved[i];
    }
    convoy_cuda_workspace_put(gpu, net->workspace);
    net->workspace = workspace;
    free(moved);
    return 0;
}

int convoy_cuda_rebuild(struct convoy_cuda_gpu *gpu, struct convoy_net *net, int changed,
                        struct convoy_error *error)
{
    struct convoy_cuda_bucket *old = &net->buckets[changed];
    struct convoy_cuda_bucket fresh = {
        .rows = old->rows, .between = old->between, .passed_over = old->passed_over};
    int failed = convoy_cuda_bucket_plan(&net->source, net->takes_u8, &fresh, error);
    if (!failed && convoy_cuda_bucket_workspace(&fresh) > net->workspace->bytes) {
        failed = move(gpu, net, changed, &fresh, error);
    } else if (!failed) {
        failed = convoy_cuda_bucket_record(gpu, net->workspace, net->overflow.marks, &fresh, error);
        if (!failed) {
            convoy_cuda_bucket_free(old);
            *old = fresh;
        }
    }
    if (failed)
        convoy_cuda_bucket_free(&fresh);
    return failed;
}

struct readers {
    const struct convoy_net *net;
    const struct convoy_cuda_plan *other;
};

static bool used(const void *context, const float *data)
{
    const struct readers *readers = context;
    const struct convoy_net *net = readers->net;
    if (readers->other != NULL && convoy_cuda_plan_uses(readers->other, data))
        return true;
    for (int i = 0; i < net->bucket_count; i++)
        for (int layout = 0; layout < CONVOY_ROW_LAYOUTS; layout++)
            if (convoy_cuda_plan_uses(&net->buckets[i].plans[layout], data))
                return true;
    return false;
}

void convoy_cuda_sweep(struct convoy_net *net, const struct convoy_cuda_plan *other)
{
    const struct readers readers = {net, other};
    convoy_cuda_weights_sweep(&net->weights, used, &readers);
}

void convoy_cuda_rebuilt(struct convoy_net *net)
{
    convoy_cuda_sweep(net, NULL);
    net->info.weight_bytes = net->weights.bytes;
    net->info.precision = convoy_cuda_precision(net);
    convoy_cuda_name_kernels(net);
}
