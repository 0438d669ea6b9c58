#include "engine/cpu/constants.h"
#include "engine/base/clock.h"
#include "engine/base/hash.h"
#include "engine/cpu/check.h"
#include "engine/cpu/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LARGE_BYTES ((size_t)1 << 20)

struct convoy_cpu_constant {
    const float *source;
    dnnl_memory_desc_t from, to;
    void *data;
    uint64_t checksum;
};

static int reorder(const struct convoy_cpu_constants *constants, const struct convoy_cpu_constant *entry,
                   const char *node, struct convoy_error *error)
{
    dnnl_primitive_desc_t description = NULL;
    dnnl_primitive_t primitive = NULL;
    dnnl_memory_t from = NULL;
    dnnl_memory_t to = NULL;
    dnnl_engine_t engine = constants->engine;
    dnnl_status_t status = dnnl_memory_create(&from, &entry->from, engine, (void *)(uintptr_t)entry->source);
    if (status == dnnl_success)
        status = dnnl_memory_create(&to, &entry->to, engine, entry->data);
    if (status == dnnl_success)
        status =
            dnnl_reorder_primitive_desc_create(&description, &entry->from, engine, &entry->to, engine, NULL);
    if (status == dnnl_success)
        status = dnnl_primitive_create(&primitive, description);
    if (status == dnnl_success) {
        dnnl_exec_arg_t args[2] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
        status = dnnl_primitive_execute(primitive, constants->stream, 2, args);
    }
    if (status == dnnl_success)
        status = dnnl_stream_wait(constants->stream);
    dnnl_primitive_destroy(primitive);
    dnnl_primitive_desc_destroy(description);
    dnnl_memory_destroy(from);
    dnnl_memory_destroy(to);
    return convoy_cpu_check(status, error, node, "reorder the weights");
}

/* Of the data of a constant. */
static size_t bytes_of(const dnnl_memory_desc_t *to)
{
    return (dnnl_memory_desc_get_size(to) + 63) / 64 * 64;
}

int convoy_cpu_constants_get(struct convoy_cpu_constants *constants, const float *source,
                             const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to, const char *node,
                             const void **data, struct convoy_error *error)
{
    for (int i = 0; i < constants->count; i++) {
        const struct convoy_cpu_constant *entry = &constants->entries[i];
        if (entry->source == source && dnnl_memory_desc_equal(&entry->from, from) &&
            dnnl_memory_desc_equal(&entry->to, to)) {
            *data = entry->data;
            return 0;
        }
    }
    size_t bytes = bytes_of(to);
    if (constants->count == constants->capacity) {
        int capacity = constants->capacity == 0 ? 32 : constants->capacity * 2;
        void *entries = realloc(constants->entries, (size_t)capacity * sizeof(constants->entries[0]));
        if (entries == NULL)
            return convoy_fail(error, -ENOMEM, "node '%s': no memory for %d constants", node, capacity);
        constants->entries = entries;
        constants->capacity = capacity;
    }
    struct convoy_cpu_constant *entry = &constants->entries[constants->count];
    *entry = (struct convoy_cpu_constant){.source = source, .from = *from, .to = *to};
    entry->data = convoy_cpu_allocate(bytes);
    if (entry->data == NULL)
        return convoy_cpu_no_memory(error, node, "weights", bytes);
    if (dnnl_memory_desc_equal(from, to)) {
        memcpy(entry->data, source, dnnl_memory_desc_get_size(to));
    } else {
        int failed = reorder(constants, entry, node, error);
        if (failed) {
            convoy_cpu_free(entry->data, bytes);
            return failed;
        }
    }
    entry->checksum = convoy_checksum(entry->data, dnnl_memory_desc_get_size(to));
    constants->count++;
    constants->bytes += bytes;
    *data = entry->data;
    return 0;
}

const dnnl_memory_desc_t *convoy_cpu_constants_layout(const struct convoy_cpu_constants *constants,
                                                      const float *source, int rank, const dnnl_dims_t dims)
{
    for (int i = 0; i < constants->count; i++) {
        const struct convoy_cpu_constant *entry = &constants->entries[i];
        if (entry->source == source && entry->to.ndims == rank &&
            memcmp(entry->to.dims, dims, (size_t)rank * sizeof(dims[0])) == 0 &&
            dnnl_memory_desc_get_size(&entry->to) >= LARGE_BYTES)
            return &entry->to;
    }
    return NULL;
}

int convoy_cpu_constants_verify(struct convoy_cpu_constants *constants, int64_t budget_us,
                                struct convoy_error *error)
{
    uint64_t end_us = convoy_now_us() + (uint64_t)(budget_us > 0 ? budget_us : 0);
    while (constants->verified < constants->count) {
        const struct convoy_cpu_constant *entry = &constants->entries[constants->verified];
        size_t bytes = dnnl_memory_desc_get_size(&entry->to), left = bytes - constants->verified_bytes;
        size_t slice = left < CONVOY_CHECKSUM_SLICE ? left : CONVOY_CHECKSUM_SLICE;
        constants->verified_hash = convoy_hash(constants->verified_hash,
                                               (const char *)entry->data + constants->verified_bytes, slice);
        constants->verified_bytes += slice;
        if (slice == left) {
            if (constants->verified_hash != entry->checksum)
                return convoy_fail(error, -EBADMSG,
                                   "constant %d of %d, of %zu bytes, is not what it was when it was loaded",
                                   constants->verified, constants->count, bytes);
            constants->verified++;
            constants->verified_bytes = 0;
            constants->verified_hash = 0;
        }
        if (convoy_now_us() >= end_us)
            return 1;
    }
    constants->verified = 0;
    return 0;
}

void convoy_cpu_constants_free(struct convoy_cpu_constants *constants)
{
    for (int i = 0; i < constants->count; i++)
        convoy_cpu_free(constants->entries[i].data, bytes_of(&constants->entries[i].to));
    free(constants->entries);
    constants->entries = NULL;
    constants->count = constants->capacity = 0;
    constants->bytes = 0;
}
