#include "server/api/app.h"

#include "engine/base/cores.h"
#include "server/api/trace.h"
#include "server/inference/decode_pool.h"
#include "server/inference/response_cache.h"
#include "server/inference/sample.h"
#include "server/inference/shared_memory.h"

#include <errno.h>
#include <stdlib.h>

/* With more threads than that, decoding is not the limit any more: images do not come in faster. */
#define DECODE_THREADS_MAX 64

/* For all images that are decoded at a time. */
static uint64_t decode_memory(const struct convoy_config *config)
{
    return (uint64_t)CONVOY_DECODE_LARGEST * CONVOY_DECODE_BYTES * config->images.max_pixels;
}

int convoy_app_new(const struct convoy_app *parts, struct convoy_app **result, struct convoy_error *error)
{
    struct convoy_app *app = calloc(1, sizeof *app);
    uint32_t threads = convoy_cores() < DECODE_THREADS_MAX ? convoy_cores() : DECODE_THREADS_MAX;
    int code = 0;

    if (app == NULL)
        return convoy_fail(error, -ENOMEM, "out of memory for the endpoints");
    *app = *parts;
    app->pipeline = (struct convoy_pipeline){.batcher = convoy_supervisor_batcher(parts->supervisor),
                                             .max_pixels = parts->config->images.max_pixels,
                                             .scaling = parts->config->images.scaled_decoding,
                                             .decoder = parts->config->images.decoder};
    app->trace = convoy_trace_new(parts->exporter);
    if (parts->config->shared_memory.enabled)
        code = convoy_shared_memory_new(&parts->config->shared_memory, &app->shared_memory, error);
    if (code == 0 && app->trace == NULL)
        code = convoy_fail(error, -ENOMEM, "out of memory for the endpoints");
    if (code == 0 && parts->config->response_cache.bytes > 0)
        code = convoy_response_cache_new(parts->config->response_cache.bytes,
                                         convoy_metrics_cache(parts->metrics), &app->pipeline.response_cache,
                                         error);
    if (code == 0)
        code = convoy_decode_pool_start(threads, decode_memory(parts->config), &app->pipeline.decode_pool,
                                        error);
    if (code != 0) {
        convoy_app_free(app);
        return code;
    }
    *result = app;
    return 0;
}

void convoy_app_end_work(void *context)
{
    struct convoy_app *app = context;

    convoy_decode_pool_end(app->pipeline.decode_pool);
}

void convoy_app_free(struct convoy_app *app)
{
    if (app == NULL)
        return;
    convoy_decode_pool_stop(app->pipeline.decode_pool);
    convoy_response_cache_free(app->pipeline.response_cache);
    convoy_shared_memory_free(app->shared_memory);
    convoy_trace_free(app->trace);
    free(app);
}
