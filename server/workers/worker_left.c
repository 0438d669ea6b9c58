#include "server/workers/worker_left.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "server/workers/worker_exit_text.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LABEL_BYTES (CONVOY_OF_BYTES + 32)

/* The master holds it under this one. No front takes it for a worker that it could adopt. */
static void make_label(const struct convoy_worker_settings *settings, char label[LABEL_BYTES])
{
    snprintf(label, LABEL_BYTES, "ending %u of=%s", settings->device_index, settings->of);
}

static void on_exit_of_left(void *context, int status)
{
    struct convoy_worker_left *left = context;
    char text[64];
    convoy_worker_exit_text(status, text, sizeof text);
    left->exists = false;
    convoy_log(CONVOY_LOG_INFO, "the worker that was replaced is gone", CONVOY_INT("pid", left->pid),
               CONVOY_STR("text", text), CONVOY_UINT("after_ms", (convoy_now_us() - left->since_us) / 1000));
    if (left->gone != NULL)
        left->gone(left->context);
}

static void set(struct convoy_worker_left *left, pid_t pid, convoy_worker_left_gone *gone, void *context)
{
    left->exists = true;
    left->overdue = false;
    left->pid = pid;
    left->since_us = convoy_now_us();
    left->gone = gone;
    left->context = context;
}

void convoy_worker_left_begin(struct convoy_worker_left *left, struct convoy_link *link,
                              const struct convoy_worker_settings *settings, uint32_t number, pid_t pid,
                              convoy_worker_left_gone *gone, void *context)
{
    char label[LABEL_BYTES];
    set(left, pid, gone, context);
    make_label(settings, label);
    convoy_link_label(link, number, label);
    convoy_link_pass(link, number, on_exit_of_left, left);
}

void convoy_worker_left_adopt(struct convoy_worker_left *left, struct convoy_link *link,
                              const struct convoy_worker_settings *settings, convoy_worker_left_gone *gone,
                              void *context)
{
    char label[LABEL_BYTES];
    const char *held;
    make_label(settings, label);
    for (uint32_t i = 0; (held = convoy_link_label_at(link, i)) != NULL; i++) {
        struct convoy_link_worker it = {0};
        if (strcmp(held, label) != 0)
            continue;
        convoy_link_adopt(link, held, on_exit_of_left, left, &it);
        close(it.memory);
        close(it.control);
        close(it.doorbell);
        set(left, it.pid, gone, context);
        return;
    }
}
