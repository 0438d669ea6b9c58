#include "engine/worker/fault.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/fault_image.h"

/* A device that stood still for longer than this was idle, and gets nothing back. */
#define PACE_SLACK_US 2000u

static enum { NONE, KILL, HANG, LOAD, STALL, PACE } kind;
static unsigned pixel[3], pace_us;
static const char *load_name;
static char stall_name[128], stall_file[256];

void convoy_fault_prepare(void)
{
    const char *wish = getenv("CONVOY_TEST_FAULT");
    if (wish == NULL)
        return;
    if (sscanf(wish, "kill:%u,%u,%u", &pixel[0], &pixel[1], &pixel[2]) == 3) {
        kind = KILL;
    } else if (sscanf(wish, "hang:%u,%u,%u", &pixel[0], &pixel[1], &pixel[2]) == 3) {
        kind = HANG;
    } else if (sscanf(wish, "stall:%127[^:]:%255s", stall_name, stall_file) == 2) {
        kind = STALL;
    } else if (sscanf(wish, "pace:%u", &pace_us) == 1) {
        kind = PACE;
    } else if (strncmp(wish, "load:", 5) == 0) {
        kind = LOAD;
        load_name = wish + 5;
    }
}

void convoy_fault_on_load(const char *model)
{
    if (kind == LOAD && strcmp(model, load_name) == 0)
        raise(SIGKILL);
    while (kind == STALL && strcmp(model, stall_name) == 0 && access(stall_file, F_OK) == 0)
        usleep(10000);
}

/* By the clock, not by adding up sleeps that each end a little late: what one job overslept the next gets
 * back, so that the rate is as asked for. Jobs come from one thread. */
static void keep_pace(uint32_t rows)
{
    static uint64_t end_us;
    uint64_t now_us = convoy_now_us();
    end_us = (end_us + PACE_SLACK_US > now_us ? end_us : now_us) + (uint64_t)rows * pace_us;
    struct timespec end = {(time_t)(end_us / 1000000u), (long)(end_us % 1000000u) * 1000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
        ;
}

void convoy_fault_on_job(const struct convoy_job *job)
{
    if (kind == PACE)
        keep_pace(job->rows);
    if ((kind != KILL && kind != HANG) || !convoy_job_has_pixel(job, pixel))
        return;
    if (kind == KILL)
        raise(SIGKILL);
    for (;;)
        pause();
}
