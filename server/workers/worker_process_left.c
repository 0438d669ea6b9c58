#include "server/workers/worker_process_left.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LABEL_BYTES (CONVOY_OF_BYTES + 32)

/* The master holds it under this one. No front takes it for a worker that it could adopt. */
static void make_label(const struct convoy_worker_settings *settings, char label[LABEL_BYTES])
{
    snprintf(label, LABEL_BYTES, "ending %u of=%s", settings->device_index, settings->of);
}

void convoy_worker_exit_text(int status, char *text, size_t capacity)
{
    if (WIFSIGNALED(status))
        snprintf(text, capacity, "killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(text, capacity, "exit status %d", WEXITSTATUS(status));
}

static void on_exit_of_left(void *context, int status)
{
    struct convoy_worker_process *process = context;
    struct convoy_worker_left *left = &process->left;
    char text[64];
    convoy_worker_exit_text(status, text, sizeof text);
    left->exists = false;
    left->gone_us = convoy_now_us();
    convoy_log(CONVOY_LOG_INFO, "the worker that was replaced is gone", CONVOY_INT("pid", left->pid),
               CONVOY_STR("text", text), CONVOY_UINT("after_ms", (left->gone_us - left->since_us) / 1000));
    if (process->events->left_gone != NULL)
        process->events->left_gone(process->context, process);
}

void convoy_worker_left_begin(struct convoy_worker_process *process)
{
    char label[LABEL_BYTES];
    process->left.exists = true;
    process->left.number = process->number;
    process->left.pid = process->pid;
    process->left.since_us = convoy_now_us();
    make_label(&process->settings, label);
    convoy_link_label(process->link, process->number, label);
    convoy_link_pass(process->link, process->number, on_exit_of_left, process);
}

void convoy_worker_process_adopt_left(struct convoy_worker_process *process)
{
    char label[LABEL_BYTES];
    const char *held;
    make_label(&process->settings, label);
    for (uint32_t i = 0; (held = convoy_link_label_at(process->link, i)) != NULL; i++) {
        struct convoy_link_worker left = {0};
        if (strcmp(held, label) != 0)
            continue;
        convoy_link_adopt(process->link, held, on_exit_of_left, process, &left);
        close(left.memory);
        close(left.control);
        close(left.doorbell);
        process->left = (struct convoy_worker_left){
            .exists = true, .number = left.number, .pid = left.pid, .since_us = convoy_now_us()};
        return;
    }
}
