#include "engine/cuda/plan/weights.h"

#include "engine/base/clock.h"
#include "engine/base/hash.h"
#include "engine/cuda/runtime/calls.h"
#include "engine/cuda/runtime/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LONG_BYTES (64u << 10) /* laying out so many takes about a millisecond */

static const float *find(const struct convoy_cuda_weights *weights, int tensor,
                         void (*pack)(const struct convoy_conv_shape *, const float *, float *), int groups)
{
    for (int i = 0; i < weights->count; i++)
        if (weights->weights[i].tensor == tensor && weights->weights[i].pack == pack &&
            weights->weights[i].groups == groups)
            return weights->weights[i].data;
    return NULL;
}

/* Makes room for one more entry before its upload, so that device memory is never lost track of. */
static bool make_room(struct convoy_cuda_weights *weights)
{
    if (weights->count < weights->capacity)
        return true;
    int capacity = weights->capacity > 0 ? weights->capacity * 2 : 32;
    struct convoy_cuda_weight *grown = realloc(weights->weights, (size_t)capacity * sizeof(*grown));
    if (grown == NULL)
        return false;
    weights->weights = grown;
    weights->capacity = capacity;
    return true;
}

static void pause_after(const struct convoy_cuda_weights *weights)
{
    if (weights->gpu != NULL)
        convoy_cuda_pause(weights->gpu);
}

void convoy_cuda_weights_lay_out(const struct convoy_cuda_weights *weights, size_t bytes,
                                 void (*work)(void *argument), void *argument)
{
    if (bytes < LONG_BYTES || weights->gpu == NULL)
        work(argument);
    else
        convoy_cuda_run_beside(weights->gpu, work, argument);
}

/* Uploads values; like has all fields of the entry but data and bytes. */
static const float *upload(struct convoy_cuda_weights *weights, struct convoy_cuda_weight like,
                           const void *values, size_t bytes, int *code, struct convoy_error *error)
{
    void *data = NULL;
    *code = make_room(weights) ? convoy_cuda_allocate(bytes, "weights", &data, error)
                               : convoy_fail(error, -ENOMEM, "no memory to note a weight");
    if (*code == 0)
        *code = CONVOY_CUDA(error, cudaMemcpy, (data, values, bytes, cudaMemcpyHostToDevice));
    /* The copy may still be under way, and non-blocking streams do not wait for it. */
    if (*code == 0)
        *code = CONVOY_CUDA(error, cudaStreamSynchronize, (NULL));
    if (*code != 0) {
        convoy_cuda_release(data);
        return NULL;
    }
    like.data = data;
    like.bytes = bytes;
    like.checksum = convoy_checksum(values, bytes);
    weights->weights[weights->count++] = like;
    weights->bytes += bytes;
    pause_after(weights);
    return data;
}

const float *convoy_cuda_weights_plain(struct convoy_cuda_weights *weights, const struct convoy_graph *graph,
                                       int tensor, int *code, struct convoy_error *error)
{
    const float *there = find(weights, tensor, NULL, 1);
    const struct convoy_tensor *constant = &graph->tensors[tensor];
    *code = 0;
    return there != NULL
               ? there
               : upload(weights, (struct convoy_cuda_weight){.tensor = tensor, .groups = 1}, constant->data,
                        (size_t)convoy_shape_elements(&constant->shape) * sizeof(float), code, error);
}

struct packing {
    const struct convoy_conv_kernel *kernel;
    const struct convoy_conv_shape *shape;
    const float *weights;
    float *packed;
};

static void pack(void *argument)
{
    const struct packing *packing = argument;
    packing->kernel->pack(packing->shape, packing->weights, packing->packed);
}

static size_t elements(const struct convoy_graph *graph, const int *tensors, int layers)
{
    size_t total = 0;
    for (int i = 0; i < layers; i++)
        total += (size_t)convoy_shape_elements(&graph->tensors[tensors[i]].shape);
    return total;
}

float *convoy_cuda_weights_joined(const struct convoy_graph *graph, const int *tensors, int layers,
                                  int scaled_by, const struct convoy_conv_shape *shape)
{
    size_t taps = (size_t)shape->r * (size_t)shape->s, at = 0;
    const float *scale = scaled_by >= 0 ? graph->tensors[scaled_by].data : NULL;
    float *all = malloc((elements(graph, tensors, layers) + 1) * sizeof(*all));
    for (int i = 0; i < layers && all != NULL; i++) {
        const float *weights = graph->tensors[tensors[i]].data,
                    *end = weights + elements(graph, &tensors[i], 1);
        for (; weights < end; weights++, at++)
            all[at] =
                scale == NULL
                    ? *weights
                    : *weights * (scale[at / taps % (size_t)shape->c] / shape->nhwc.normalization.factor);
    }
    return all;
}

static const float *pack_and_upload(struct convoy_cuda_weights *weights, struct convoy_cuda_weight like,
                                    const float *plain, const struct convoy_conv_kernel *kernel,
                                    const struct convoy_conv_shape *shape, int *code,
                                    struct convoy_error *error)
{
    const float *there = NULL;
    size_t floats = kernel->packed_floats(shape);
    float *packed = plain != NULL ? calloc(floats, sizeof(float)) : NULL;
    if (packed == NULL) {
        *code = convoy_fail(error, -ENOMEM, "no memory to lay out %zu weights", floats);
    } else {
        struct packing packing = {kernel, shape, plain, packed};
        convoy_cuda_weights_lay_out(weights, floats * sizeof(float), pack, &packing);
        there = upload(weights, like, packed, floats * sizeof(float), code, error);
    }
    free(packed);
    return there;
}

const float *convoy_cuda_weights_packed(struct convoy_cuda_weights *weights, const struct convoy_graph *graph,
                                        const int *tensors, int layers, int scaled_by,
                                        const struct convoy_conv_kernel *kernel,
                                        const struct convoy_conv_shape *shape, int *code,
                                        struct convoy_error *error)
{
    struct convoy_cuda_weight like = {.tensor = tensors[0], .pack = kernel->pack, .groups = shape->groups};
    size_t wanted =
        (size_t)shape->k * (size_t)(shape->c / shape->groups) * (size_t)shape->r * (size_t)shape->s;
    *code = 0;
    if (elements(graph, tensors, layers) != wanted) {
        *code = convoy_fail(error, -EINVAL, "the %d layers from tensor '%s' on do not have %zu weights",
                            layers, graph->tensors[tensors[0]].name, wanted);
        return NULL;
    }
    if (layers == 1 && scaled_by < 0) {
        const float *there = find(weights, tensors[0], kernel->pack, shape->groups);
        return there != NULL ? there
                             : pack_and_upload(weights, like, graph->tensors[tensors[0]].data, kernel, shape,
                                               code, error);
    }
    uint64_t key = convoy_hash(convoy_hash(0, tensors, (size_t)layers * sizeof(*tensors)), &scaled_by,
                               sizeof(scaled_by));
    like = (struct convoy_cuda_weight){.tensor = -1,
                                       .key = convoy_hash(key, &kernel->pack, sizeof(kernel->pack))};
    const float *there = convoy_cuda_weights_find(weights, like.key);
    if (there == NULL) {
        float *all = convoy_cuda_weights_joined(graph, tensors, layers, scaled_by, shape);
        there = pack_and_upload(weights, like, all, kernel, shape, code, error);
        free(all);
    }
    return there;
}

const float *convoy_cuda_weights_find(const struct convoy_cuda_weights *weights, uint64_t key)
{
    for (int i = 0; i < weights->count; i++)
        if (weights->weights[i].tensor < 0 && weights->weights[i].key == key)
            return weights->weights[i].data;
    return NULL;
}

const float *convoy_cuda_weights_add(struct convoy_cuda_weights *weights, uint64_t key, const void *data,
                                     size_t bytes, int *code, struct convoy_error *error)
{
    return upload(weights, (struct convoy_cuda_weight){.tensor = -1, .key = key}, data, bytes, code, error);
}

struct laying_out {
    void (*pack)(const void *argument, void *packed);
    const void *argument;
    void *packed;
};

static void make(void *argument)
{
    const struct laying_out *work = argument;
    work->pack(work->argument, work->packed);
}

const float *convoy_cuda_weights_made(struct convoy_cuda_weights *weights, uint64_t key, size_t bytes,
                                      void (*pack)(const void *argument, void *packed), const void *argument,
                                      int *code, struct convoy_error *error)
{
    const float *there = convoy_cuda_weights_find(weights, key);
    if (there != NULL)
        return there;
    struct laying_out work = {pack, argument, malloc(bytes)};
    if (work.packed == NULL) {
        *code = convoy_fail(error, -ENOMEM, "no memory to lay out %zu bytes of weights", bytes);
        return NULL;
    }
    convoy_cuda_weights_lay_out(weights, bytes, make, &work);
    there = convoy_cuda_weights_add(weights, key, work.packed, bytes, code, error);
    free(work.packed);
    return there;
}

int convoy_cuda_weights_verify(struct convoy_cuda_weights *weights, struct convoy_cuda_gpu *gpu,
                               int64_t budget_us, struct convoy_error *error)
{
    uint64_t end_us = convoy_now_us() + (uint64_t)(budget_us > 0 ? budget_us : 0);
    while (weights->verified < weights->count) {
        const struct convoy_cuda_weight *weight = &weights->weights[weights->verified];
        size_t left = weight->bytes - weights->verified_bytes;
        size_t slice = left < CONVOY_CHECKSUM_SLICE ? left : CONVOY_CHECKSUM_SLICE;
        const void *copy;
        int failed =
            convoy_cuda_fetch(gpu, (const char *)weight->data + weights->verified_bytes, slice, &copy, error);
        if (failed)
            return failed;
        weights->verified_hash = convoy_hash(weights->verified_hash, copy, slice);
        weights->verified_bytes += slice;
        if (slice == left) {
            if (weights->verified_hash != weight->checksum)
                return convoy_fail(error, -EBADMSG,
                                   "constant %d of %d, of %zu bytes, is not what was uploaded",
                                   weights->verified, weights->count, weight->bytes);
            weights->verified++;
            weights->verified_bytes = weights->verified_hash = 0;
        }
        if (convoy_now_us() >= end_us)
            return 1;
    }
    weights->verified = 0;
    return 0;
}

void convoy_cuda_weights_sweep(struct convoy_cuda_weights *weights,
                               bool (*used)(const void *context, const float *data), const void *context)
{
    int kept = 0;
    weights->verified = 0; /* numbers change */
    weights->verified_bytes = weights->verified_hash = 0;
    for (int i = 0; i < weights->count; i++) {
        struct convoy_cuda_weight weight = weights->weights[i];
        if (used(context, weight.data)) {
            weights->weights[kept++] = weight;
            continue;
        }
        weights->bytes -= weight.bytes;
        convoy_cuda_release(weight.data);
    }
    weights->count = kept;
}

void convoy_cuda_weights_free(struct convoy_cuda_weights *weights)
{
    for (int i = 0; i < weights->count; i++) {
        convoy_cuda_release(weights->weights[i].data);
        pause_after(weights);
    }
    free(weights->weights);
    memset(weights, 0, sizeof(*weights));
}
