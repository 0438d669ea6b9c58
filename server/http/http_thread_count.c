/* How many HTTP threads there are. */
#include "server/http/http_thread.h"

#include "engine/base/cores.h"
#include "server/config/config.h"
#include "server/http/http_state.h"

/* With fewer cores than this each has a thread; otherwise a quarter is left to workers and to the control
 * loop. On 16 cores, 64 connections and the null backend, the medians beside the bare server with a thread a
 * core were 0.66 (0.61 to 0.76) with 16 threads, 0.75 (0.67 to 0.81) with 12, 0.70 with 10, 0.62 with 8. */
#define FEW_CORES 8u

uint32_t convoy_http_threads_wanted(const struct convoy_http *http)
{
    uint32_t configured = http->options.config->http.threads;
    return configured > 0 ? configured : convoy_http_threads_for(convoy_cores());
}

uint32_t convoy_http_threads_for(uint32_t cores)
{
    return cores < FEW_CORES ? cores : cores - cores / 4;
}
