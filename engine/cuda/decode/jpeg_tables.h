/* Tables of weights (resampling.h) in device memory, kept from job to job: photographs of one camera have one
 * size. When no more fit all are forgotten. One thread at a time. */
#ifndef CONVOY_ENGINE_CUDA_JPEG_TABLES_H
#define CONVOY_ENGINE_CUDA_JPEG_TABLES_H

#include "engine/base/error.h"
#include "engine/cuda/decode/resampling.h"

#include <cuda_runtime_api.h>

#define CONVOY_JPEG_TABLES_MOST 1024
#ifndef CONVOY_JPEG_TABLES_NUMBERS /* of 4 bytes, in all tables together; tests are compiled with fewer */
#define CONVOY_JPEG_TABLES_NUMBERS ((size_t)1 << 20)
#endif

struct convoy_jpeg_table {
    struct convoy_axis axis;
    size_t taps, at; /* at: where its numbers begin */
};

struct convoy_jpeg_tables {
    int32_t *numbers; /* pinned */
    int32_t *device;
    size_t used, uploaded; /* numbers */
    uint32_t count;
    struct convoy_jpeg_table tables[CONVOY_JPEG_TABLES_MOST];
    uint16_t slots[2 * CONVOY_JPEG_TABLES_MOST]; /* by the axis's hash; a table's number and 1, or 0 */
};

int convoy_jpeg_tables_make(struct convoy_jpeg_tables *tables, struct convoy_error *error);
void convoy_jpeg_tables_free(struct convoy_jpeg_tables *tables);

/* Returns the axis's table, which is made if it is new; NULL if there is no room. taps: of that axis, not 0.
 * Valid until they are forgotten. */
const struct convoy_jpeg_table *convoy_jpeg_tables_get(struct convoy_jpeg_tables *tables,
                                                       const struct convoy_axis *axis, size_t taps);
/* Forgets all. The device may not be reading any. */
void convoy_jpeg_tables_forget(struct convoy_jpeg_tables *tables);
/* Copies new tables to the device, in the stream. 0 or as convoy_cuda_check(). */
int convoy_jpeg_tables_upload(struct convoy_jpeg_tables *tables, cudaStream_t stream,
                              struct convoy_error *error);

#endif
