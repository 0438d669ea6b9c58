/* How many HTTP threads there are, and which of them a connection goes to. */
#include "server/http/http_thread.h"

#include "engine/base/cores.h"
#include "server/config/config.h"
#include "server/http/http_state.h"

/* With fewer cores than this each has a thread; otherwise a quarter is left to workers and to the control
 * loop. On 16 cores, 64 connections and the null backend, the medians beside the bare server with a thread a
 * core were 0.66 (0.61 to 0.76) with 16 threads, 0.75 (0.67 to 0.81) with 12, 0.70 with 10, 0.62 with 8. */
#define FEW_CORES 8u

/* So many connections have a thread each: what is large for one of them does not keep another waiting. */
#define OWN_THREADS 4u

uint32_t convoy_http_threads_wanted(const struct convoy_http *http)
{
    uint32_t configured = http->options.config->http.threads;
    return configured > 0 ? configured : convoy_http_threads_for(convoy_cores());
}

uint32_t convoy_http_threads_for(uint32_t cores)
{
    return cores < FEW_CORES ? cores : cores - cores / 4;
}

/* A thread with one connection sleeps and is woken for each request, which costs a third more processor time;
 * with four connections a thread, cores stand idle. On 32 cores with 24 threads and the null backend, answers
 * a second with fewer threads, over those with all (each one round of 1 s or the median of three): 16
 * connections 1.07 and 1.11 over 8 of them, 0.78 and 0.80 over 5; 32 connections 1.06 and 1.02 over 16, 0.94
 * and 0.90 over 11; 64 connections 0.98, 1.04 and 1.07 over 19 or 20, 1.03 and 1.04 over 18, 1.17, 0.99
 * and 1.10 over 16 or 17, 0.99 over 13; 96 connections 0.95 and 1.08 over 20, 0.94 and 1.03 over 18; 256
 * connections 0.86 over 16. */
uint32_t convoy_http_threads_used(uint32_t threads, uint32_t connections)
{
    uint32_t pairs = connections / 2, more = threads / 2 + connections / 10;
    uint32_t used = pairs < more ? pairs : more;
    if (used < OWN_THREADS)
        used = OWN_THREADS;
    return threads < FEW_CORES || used > threads ? threads : used;
}

static uint32_t connections_of(const struct convoy_http_thread *thread)
{
    return atomic_load_explicit(&thread->connections, memory_order_relaxed);
}

struct convoy_http_thread *convoy_http_thread_for_one_more(const struct convoy_http *http)
{
    uint32_t open = 1;
    for (uint32_t i = 0; i < http->thread_count; i++)
        open += connections_of(&http->threads[i]);
    uint32_t used = convoy_http_threads_used(http->thread_count, open);
    struct convoy_http_thread *least = &http->threads[0];
    for (uint32_t i = 1; i < used; i++)
        if (connections_of(&http->threads[i]) < connections_of(least))
            least = &http->threads[i];
    return least;
}
