#include "server/workers/slot_size.h"

#include <errno.h>

/* Most requests bring pixels, so float rows get no more room than this. A batch that needs several slots
 * becomes several batches, and images wait for slots. */
#define FLOATS_MOST (4096u * 1024)

static uint64_t elements_of(const struct convoy_model_shape *shape)
{
    return (uint64_t)shape->channels * shape->height * shape->width;
}

static uint64_t outputs_of(const struct convoy_model_shape *shape)
{
    return convoy_slot_round(shape->outputs_per_row * sizeof(float));
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void convoy_slot_size_begin(struct convoy_channel_size *size)
{
    *size = (struct convoy_channel_size){.input_bytes = CONVOY_SLOT_ALIGN, .output_bytes = CONVOY_SLOT_ALIGN};
}

void convoy_slot_size_add(struct convoy_channel_size *size, const struct convoy_model_shape *shape,
                          uint32_t max_batch)
{
    uint64_t rows = max_batch * convoy_slot_round(elements_of(shape));
    uint64_t float_row = convoy_slot_round(elements_of(shape) * sizeof(float));
    uint64_t float_rows = smaller(max_batch * float_row, larger(FLOATS_MOST, float_row));
    size->input_bytes = larger(size->input_bytes, larger(rows, float_rows));
    size->output_bytes = larger(size->output_bytes, max_batch * outputs_of(shape));
}

void convoy_slot_size_at_least(struct convoy_channel_size *size, uint64_t input_bytes, uint64_t output_bytes)
{
    size->input_bytes = larger(size->input_bytes, input_bytes);
    size->output_bytes = larger(size->output_bytes, output_bytes);
}

void convoy_slot_size_end(struct convoy_channel_size *size, const struct convoy_config *config)
{
    size->slots = config->worker.slots;
    if (config->worker.slot_bytes > 0)
        size->input_bytes = config->worker.slot_bytes;
    size->input_bytes = smaller(size->input_bytes, CONVOY_SLOT_MAX_BYTES);
    size->output_bytes = smaller(size->output_bytes, CONVOY_SLOT_MAX_BYTES);
}

int convoy_slot_size_check(const struct convoy_channel_size *size, const struct convoy_model_shape *shape,
                           struct convoy_error *error)
{
    uint64_t row = convoy_slot_round(elements_of(shape)), outputs = outputs_of(shape);
    if (row <= size->input_bytes && outputs <= size->output_bytes)
        return 0;
    return convoy_fail(
        error, -E2BIG,
        "a row takes %llu bytes and its outputs %llu, but a slot has room for %llu and %llu: raise "
        "worker.slot_bytes (at most %u)",
        (unsigned long long)row, (unsigned long long)outputs, (unsigned long long)size->input_bytes,
        (unsigned long long)size->output_bytes, CONVOY_SLOT_MAX_BYTES);
}
