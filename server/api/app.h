/* What the endpoints work with: the application behind the HTTP server. One for the daemon; it outlives the
 * HTTP server, which hands it to each request (convoy_request.app). */
#ifndef CONVOY_SERVER_APP_H
#define CONVOY_SERVER_APP_H

#include "engine/base/error.h"
#include "server/config/config.h"
#include "server/http/request.h"
#include "server/inference/pipeline.h"
#include "server/metrics/metrics.h"
#include "server/models/registry.h"
#include "server/repository/manager.h"
#include "server/workers/supervisor.h"

struct convoy_exporter;
struct convoy_shared_memory;
struct convoy_trace;

struct convoy_app {
    /* Borrowed: they outlive the app. */
    const struct convoy_config *config;
    struct convoy_metrics *metrics;
    struct convoy_registry *registry;
    struct convoy_supervisor *supervisor;
    struct convoy_manager *manager;
    struct convoy_exporter *exporter; /* of traces; NULL: none */

    struct convoy_pipeline pipeline;            /* its decode pool and response cache are the app's */
    struct convoy_shared_memory *shared_memory; /* the regions that clients registered; NULL: it is off */
    struct convoy_trace *trace;
};

/* Takes over parts, whose borrowed members are set, and makes the others. Errors: -ENOMEM, -EAGAIN (no
 * threads), -EINVAL (of the configuration), those of getrandom(2). */
int convoy_app_new(const struct convoy_app *parts, struct convoy_app **app, struct convoy_error *error);

/* convoy_http_options.end_work: waits until the jobs of the decode pool are done, and ends its threads. */
void convoy_app_end_work(void *app);

/* After convoy_http_stop(). NULL is allowed. */
void convoy_app_free(struct convoy_app *app);

static inline struct convoy_app *convoy_app_of(const struct convoy_request *request)
{
    return request->app;
}

/* The deadline of a request that asked for this much time from its body's last byte on: at most
 * timeout_max_ms. */
static inline uint64_t convoy_app_deadline_us(const struct convoy_request *request, uint64_t timeout_us)
{
    uint64_t most_us = convoy_app_of(request)->config->timeout_max_ms * (uint64_t)1000;

    return request->complete_us + (timeout_us < most_us ? timeout_us : most_us);
}

#endif
