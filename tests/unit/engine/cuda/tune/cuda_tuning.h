/* What the tests of the CUDA backend's tuner and of its cache share: a small network, and the log and
 * changes that the backend reports. The device is the emulated one. Header only. */
#ifndef CONVOY_TESTS_CUDA_TUNING_H
#define CONVOY_TESTS_CUDA_TUNING_H

#include "tests/unit/engine/backends/backend_harness.h"

#include <string.h>

#define TOLERANCE 2e-5
#define MAX_BATCH 3 /* buckets of 1, 2 and 3 */

static char log_text[1 << 16]; /* "level text\n" ... */
static int changes;            /* calls of changed() */
static struct convoy_net_info changed_info;

static inline void keep_line(void *context, const char *level, const char *text)
{
    size_t used = strlen(log_text);
    cr_assert(context == log_text);
    if (strstr(text, "JPEG files are decoded by") != NULL)
        return; /* said once when a device is opened, by what the machine has */
    snprintf(log_text + used, sizeof(log_text) - used, "%s %s\n", level, text);
}

static inline void note_change(void *context, struct convoy_net *net, const struct convoy_net_info *info)
{
    cr_assert(context == log_text && net != NULL);
    changes++;
    changed_info = *info;
}

/* Returns how often text occurs in the log. */
static inline int logged(const char *text)
{
    int count = 0;
    for (const char *at = log_text; (at = strstr(at, text)) != NULL; at++)
        count++;
    return count;
}

static void (*when_opened)(void *context,
                           const struct convoy_device_memory *memory); /* opened() of backend.h */

static inline void open_tuning(enum convoy_tuning tune, const char *cache_dir)
{
    log_text[0] = '\0';
    changes = 0;
    open_backend_with(&(struct convoy_open_options){.streams = 2,
                                                    .cache_dir = cache_dir,
                                                    .tune = tune,
                                                    .context = log_text,
                                                    .log = keep_line,
                                                    .opened = when_opened,
                                                    .changed = note_change});
}

/* Two convolutions, one of them with a residual, and a dense layer. */
static inline struct convoy_graph *small_network(void)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 2, 6, 5));
    int x = add_act(graph, add_conv(graph, graph->input, 4, 3, 3, CONV3, true), CONVOY_RELU, 0, 0);
    int y = add_conv(graph, x, 4, 3, 3, CONV3, false);
    x = add_act(graph, add_binary(graph, y, x, CONVOY_ADD), CONVOY_TANH, 0, 0);
    add_output(graph, add_dense(graph, add_flatten(graph, x), 7, true));
    return graph;
}

struct count {
    const char *name;
    uint64_t value;
};

static inline void pick(void *context, const char *name, uint64_t value)
{
    struct count *count = context;
    if (strcmp(name, count->name) == 0)
        count->value = value;
}

/* Calls of a CUDA function so far. */
static inline uint64_t calls(const char *name)
{
    struct count count = {.name = name};
    backend->counters(device, pick, &count);
    return count.value;
}

/* Lets the backend finish; returns the number of pieces. */
static inline int tune_all(void)
{
    struct convoy_error error;
    int more, pieces = 0;
    while ((more = backend->idle(device, 0, &error)) > 0)
        pieces++;
    cr_assert_eq(more, 0, "%s", error.message);
    return pieces;
}

/* Compares every batch size in both layouts with the reference. */
static inline void check_all(const struct convoy_graph *graph, struct convoy_net *net,
                             const struct convoy_net_info *info)
{
    for (uint32_t rows = 1; rows <= MAX_BATCH; rows++) {
        check_rows(graph, net, info, CONVOY_LAYOUT_U8_HWC, rows, TOLERANCE);
        check_rows(graph, net, info, CONVOY_LAYOUT_F32_CHW, rows, TOLERANCE);
    }
}

static inline struct convoy_device_memory memory_now(void)
{
    struct convoy_error error;
    struct convoy_device_memory memory;
    cr_assert_eq(backend->memory(device, &memory, &error), 0, "%s", error.message);
    return memory;
}

/* The device holds nothing but the weights and workspaces that the backend reports. */
static inline void check_memory(void)
{
    struct convoy_device_memory memory = memory_now();
    cr_assert_eq(memory.total - memory.free, memory.weights + memory.workspace,
                 "%lu bytes are in use, %lu of weights and %lu of workspace",
                 (unsigned long)(memory.total - memory.free), (unsigned long)memory.weights,
                 (unsigned long)memory.workspace);
}

static inline void unload_all(struct convoy_net *net, struct convoy_graph *graph)
{
    backend->unload(device, net);
    convoy_graph_free(graph);
    check_memory();
    cr_assert_eq(memory_now().weights, 0);
}

#endif
