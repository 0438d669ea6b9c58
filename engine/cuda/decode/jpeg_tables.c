#include "engine/cuda/decode/jpeg_tables.h"

#include "engine/cuda/runtime/calls.h"

#include <string.h>

#define SLOTS (2 * CONVOY_JPEG_TABLES_MOST)

int convoy_jpeg_tables_make(struct convoy_jpeg_tables *tables, struct convoy_error *error)
{
    const size_t bytes = CONVOY_JPEG_TABLES_NUMBERS * sizeof(int32_t);
    int failed = CONVOY_CUDA_BESIDE(error, cudaMallocHost, ((void **)&tables->numbers, bytes));
    return failed ? failed : CONVOY_CUDA_BESIDE(error, cudaMalloc, ((void **)&tables->device, bytes));
}

void convoy_jpeg_tables_free(struct convoy_jpeg_tables *tables)
{
    struct convoy_error ignored;
    if (tables->numbers != NULL)
        (void)CONVOY_CUDA_BESIDE(&ignored, cudaFreeHost, (tables->numbers));
    if (tables->device != NULL)
        (void)CONVOY_CUDA_BESIDE(&ignored, cudaFree, (tables->device));
    memset(tables, 0, sizeof(*tables));
}

static bool is_same(const struct convoy_axis *a, const struct convoy_axis *b)
{
    return a->in == b->in && a->scaled == b->scaled && a->first == b->first && a->out == b->out &&
           a->filter == b->filter;
}

/* Where an axis is, or would be. Tables are never half as many as slots, so there is an empty one. */
static uint32_t slot_of(const struct convoy_jpeg_tables *tables, const struct convoy_axis *axis)
{
    uint64_t hash = (uint64_t)axis->in * 0x9E3779B97F4A7C15u;
    hash = (hash ^ hash >> 29 ^ (uint64_t)axis->scaled) * 0xBF58476D1CE4E5B9u;
    hash = (hash ^ hash >> 32 ^ (uint64_t)axis->first << 8 ^ (uint64_t)axis->out) * 0x94D049BB133111EBu;
    uint32_t slot = (uint32_t)(hash >> 33) % SLOTS;
    while (tables->slots[slot] != 0 && !is_same(&tables->tables[tables->slots[slot] - 1].axis, axis))
        slot = (slot + 1) % SLOTS;
    return slot;
}

const struct convoy_jpeg_table *convoy_jpeg_tables_get(struct convoy_jpeg_tables *tables,
                                                       const struct convoy_axis *axis, size_t taps)
{
    uint32_t slot = slot_of(tables, axis);
    if (tables->slots[slot] != 0)
        return &tables->tables[tables->slots[slot] - 1];
    size_t numbers = (size_t)axis->out * (2 + taps);
    if (tables->count == CONVOY_JPEG_TABLES_MOST || numbers > CONVOY_JPEG_TABLES_NUMBERS - tables->used)
        return NULL;
    struct convoy_jpeg_table *table = &tables->tables[tables->count++];
    *table = (struct convoy_jpeg_table){*axis, taps, tables->used};
    convoy_resampling_fill(axis, taps, tables->numbers + table->at);
    tables->used += numbers;
    tables->slots[slot] = (uint16_t)tables->count;
    return table;
}

void convoy_jpeg_tables_forget(struct convoy_jpeg_tables *tables)
{
    tables->used = tables->uploaded = 0;
    tables->count = 0;
    memset(tables->slots, 0, sizeof(tables->slots));
}

int convoy_jpeg_tables_upload(struct convoy_jpeg_tables *tables, cudaStream_t stream,
                              struct convoy_error *error)
{
    size_t from = tables->uploaded;
    if (from == tables->used)
        return 0;
    tables->uploaded = tables->used;
    return CONVOY_CUDA_BESIDE(error, cudaMemcpyAsync,
                              (tables->device + from, tables->numbers + from,
                               (tables->used - from) * sizeof(int32_t), cudaMemcpyHostToDevice, stream));
}
