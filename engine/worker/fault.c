#include "engine/worker/fault.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static enum { NONE, KILL, HANG, LOAD, STALL } kind;
static unsigned pixel[3];
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

void convoy_fault_on_job(const struct convoy_job *job)
{
    if ((kind != KILL && kind != HANG) || job->form != CONVOY_FORM_U8_HWC)
        return;
    for (uint32_t row = 0; row < job->rows; row++) {
        const uint8_t *first = (const uint8_t *)job->input + row * job->input_stride;
        if (first[0] != pixel[0] || first[1] != pixel[1] || first[2] != pixel[2])
            continue;
        if (kind == KILL)
            raise(SIGKILL);
        for (;;)
            pause();
    }
}
