#include "tests/faults/faults.h"

#include "engine/base/clock.h"
#include "engine/ipc/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SEIZE_SECONDS 30 /* how long the child of a seized worker lives */

/* A device that was idle for longer than this gets no time back. */
#define PACE_SLACK_US 2000u

static enum fault_kind {
    NONE,
    ESCAPE,
    KILL,
    HANG,
    SEIZE,
    SPY,
    CLAIM,
    LOAD,
    STALL,
    WRONG,
    NEAR,
    ODD,
    FLIP,
    PACE,
    FILES,
    PIXELS,
    GPU_JOB,
    GPU_ECC,
    GPU_MEMORY,
    GPU_LOST
} kind;
static enum fault_kernel kernel;
/* What the third colour of an image means to PIXELS. */
static const struct {
    enum fault_kind kind;
    enum fault_kernel kernel;
} of_blue[] = {{KILL, 0},   {HANG, 0}, {GPU_JOB, FAULT_ILLEGAL}, {GPU_JOB, FAULT_TRAP}, {GPU_JOB, FAULT_SPIN},
               {GPU_ECC, 0}};
#define BLUES (sizeof of_blue / sizeof of_blue[0])
static unsigned pixel[3], pace_us, undecoded, deadly;
static char model_name[128], fault_file[256];
static bool spying;   /* the model of the fault is loaded here */
static bool spinning; /* a job was kept back because the real GPU runs a kernel that never ends */

static struct convoy_backend wrapped;
static const struct convoy_backend *real;
static struct convoy_open_options options; /* what open() was given */

static bool reads_pixel(const char *text, const char *name)
{
    size_t length = strlen(name);
    return strncmp(text, name, length) == 0 && text[length] == ':' &&
           sscanf(text + length + 1, "%u,%u,%u", &pixel[0], &pixel[1], &pixel[2]) == 3;
}

static bool reads_name(const char *text, const char *name)
{
    size_t length = strlen(name);
    if (strncmp(text, name, length) != 0 || text[length] != ':')
        return false;
    snprintf(model_name, sizeof model_name, "%s", text + length + 1);
    return true;
}

static bool read_fault(const char *text)
{
    static const char *const kernels[] = {
        [FAULT_ILLEGAL] = "illegal", [FAULT_TRAP] = "trap", [FAULT_SPIN] = "spin"};
    for (int i = 0; i < 3; i++)
        if (reads_pixel(text, kernels[i])) {
            kind = GPU_JOB;
            kernel = (enum fault_kernel)i;
        }
    if (reads_pixel(text, "kill"))
        kind = KILL;
    else if (reads_pixel(text, "hang"))
        kind = HANG;
    else if (reads_pixel(text, "seize"))
        kind = SEIZE;
    else if (reads_pixel(text, "ecc"))
        kind = GPU_ECC;
    else if (sscanf(text, "stall:%127[^:]:%255s", model_name, fault_file) == 2)
        kind = STALL;
    else if (sscanf(text, "spy:%127[^:]:%u,%u,%u:%255s", model_name, &pixel[0], &pixel[1], &pixel[2],
                    fault_file) == 5)
        kind = SPY;
    else if (sscanf(text, "claim:%127[^:]:%u,%u,%u:%255s", model_name, &pixel[0], &pixel[1], &pixel[2],
                    fault_file) == 5)
        kind = CLAIM;
    else if (sscanf(text, "wrong:%255s", fault_file) == 1)
        kind = WRONG;
    else if (sscanf(text, "odd:%255s", fault_file) == 1)
        kind = ODD;
    else if (sscanf(text, "near:%255s", fault_file) == 1)
        kind = NEAR;
    else if (sscanf(text, "flip:%255s", fault_file) == 1)
        kind = FLIP;
    else if (sscanf(text, "pace:%u", &pace_us) == 1)
        kind = PACE;
    else if (sscanf(text, "files:%u:%u", &undecoded, &deadly) == 2)
        kind = FILES;
    else if (sscanf(text, "pixels:%u,%u", &pixel[0], &pixel[1]) == 2)
        kind = PIXELS;
    else if (reads_name(text, "escape"))
        kind = ESCAPE;
    else if (reads_name(text, "load"))
        kind = LOAD;
    else if (reads_name(text, "memory"))
        kind = GPU_MEMORY;
    else if (reads_name(text, "lost"))
        kind = GPU_LOST;
    return kind != NONE;
}

/* The third colour of the first image that has the fault's first two; -1: there is none. */
static int blue_of(const struct convoy_job *job)
{
    if (job->layout != CONVOY_LAYOUT_U8_HWC)
        return -1;
    for (uint32_t row = 0; row < job->rows; row++) {
        const uint8_t *first = (const uint8_t *)job->input + row * job->input_stride;
        if (first[0] == pixel[0] && first[1] == pixel[1] && (kind == PIXELS || first[2] == pixel[2]))
            return first[2];
    }
    return -1;
}

/* Sleeps until the clock says so instead of adding up sleeps that each end a little late: what one job
 * overslept the next gets back, so that the rate is the one asked for. Jobs come from one thread. */
static void keep_pace(uint32_t rows)
{
    static uint64_t end_us;
    uint64_t now_us = convoy_now_us();
    end_us = (end_us + PACE_SLACK_US > now_us ? end_us : now_us) + (uint64_t)rows * pace_us;
    struct timespec end = {(time_t)(end_us / 1000000u), (long)(end_us % 1000000u) * 1000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
        ;
}

static void stall(void *argument)
{
    (void)argument;
    while (access(fault_file, F_OK) == 0)
        usleep(10000);
}

/* Whether the file says so of this worker. */
static bool is_meant(void)
{
    char text[32] = "";
    FILE *file = fopen(fault_file, "r");
    if (file == NULL)
        return false;
    bool read = fgets(text, sizeof text, file) != NULL;
    fclose(file);
    if (read && strncmp(text, "not ", 4) == 0)
        return strtol(text + 4, NULL, 10) != getpid();
    return read && strtol(text, NULL, 10) == getpid();
}

static bool computes_wrongly(void)
{
    return kind == WRONG || kind == NEAR || kind == ODD;
}

/* "next" in the file: this worker is the one. */
static void take_turn(void)
{
    char text[8] = "";
    FILE *file = fopen(fault_file, "r+");
    if (file == NULL)
        return;
    if (fgets(text, sizeof text, file) != NULL && strncmp(text, "next", 4) == 0) {
        rewind(file);
        fprintf(file, "%d\n", getpid());
    }
    fclose(file);
}

#define MOST_NETS 16
#define MOST_JOBS 64 /* tags are numbers of slots */

static struct {
    const struct convoy_net *net;
    uint32_t outputs;
} nets[MOST_NETS];
static struct {
    struct convoy_job job;
    uint32_t outputs;
} jobs[MOST_JOBS];

static void note_net(const struct convoy_net *net, uint32_t outputs)
{
    static uint32_t count;
    nets[count % MOST_NETS].net = net;
    nets[count++ % MOST_NETS].outputs = outputs;
}

static uint32_t outputs_of(const struct convoy_net *net)
{
    for (int i = 0; i < MOST_NETS; i++)
        if (nets[i].net == net)
            return nets[i].outputs;
    return 0;
}

static void note_job(const struct convoy_net *net, const struct convoy_job *job)
{
    jobs[job->tag % MOST_JOBS].job = *job;
    for (int i = 0; i < MOST_NETS; i++)
        if (nets[i].net == net)
            jobs[job->tag % MOST_JOBS].outputs = nets[i].outputs;
}

/* Each class gets the result of the one before it: a kernel with a wrong index. Or one bit is another. */
static void mix_up(uint64_t tag)
{
    const struct convoy_job *job = &jobs[tag % MOST_JOBS].job;
    uint32_t outputs = jobs[tag % MOST_JOBS].outputs;
    static int count;
    if (kind == ODD && ++count % 2 == 1)
        return;
    for (uint32_t row = 0; row < job->rows; row++) {
        float *output = (float *)(void *)((char *)job->output + row * job->output_stride);
        if (kind == NEAR) {
            *(uint32_t *)(void *)&output[outputs - 1] ^= 1;
            continue;
        }
        float last = output[outputs - 1];
        memmove(output + 1, output, (outputs - 1) * sizeof *output);
        output[0] = last;
    }
}

static void stay_and_ring(void)
{
    signal(SIGPIPE, SIG_IGN);
    alarm(SEIZE_SECONDS); /* a test that fails leaves no process behind */
    while (send(CONVOY_FD_DOORBELL, "", 1, MSG_DONTWAIT) == 1 || errno == EAGAIN)
        ;
    for (;;)
        pause(); /* holds the control socket */
}

static void seize(void)
{
    for (int fd = CONVOY_FD_CONTROL; fd <= CONVOY_FD_DOORBELL; fd++) {
        fcntl(fd, F_SETFL, 0);
        ioctl(fd, FIONBIO, &(int){0});
    }
    while (send(CONVOY_FD_DOORBELL, "", 1, MSG_DONTWAIT) == 1)
        ;
    if (fork() == 0)
        stay_and_ring();
    _exit(0);
}

static int open_device(uint32_t index, const struct convoy_open_options *given, struct convoy_device **device,
                       struct convoy_device_info *info, struct convoy_error *error)
{
    options = *given;
    if (computes_wrongly())
        take_turn();
    int failed = real->open(index, given, device, info, error);
    if (failed == 0 && kind == FILES)
        info->jpeg_jobs = 1;
    return failed;
}

static int load(struct convoy_device *device, const struct convoy_graph *graph,
                const struct convoy_load_options *model, struct convoy_net **net,
                struct convoy_net_info *info, struct convoy_error *error)
{
    bool emulated;
    if (strcmp(model->name, model_name) == 0) {
        if (kind == ESCAPE)
            return fault_escape(error);
        if (kind == LOAD)
            raise(SIGKILL);
        if (kind == STALL && options.run_beside != NULL)
            options.run_beside(options.context, stall, NULL);
        else if (kind == STALL)
            stall(NULL);
        if (kind == GPU_MEMORY)
            return convoy_fail(
                error, -ENOMEM,
                "model '%s': the device is out of memory: %llu bytes were asked for a test, 0 of 0 are free",
                model->name, 1ull << 50);
        if (kind == GPU_LOST && fault_gpu(real, FAULT_ILLEGAL, true, &emulated, error) != 0)
            return -ENODEV;
    }
    int failed = real->load(device, graph, model, net, info, error);
    if (failed == 0 && (computes_wrongly() || kind == FILES))
        note_net(*net, info->outputs_per_row);
    if (failed == 0 && kind == FILES)
        info->takes_jpeg = model->fitting.kind != CONVOY_FITTING_NONE;
    if (failed == 0 && kind == FLIP)
        fault_flip_note(graph);
    if (failed == 0 && (kind == SPY || kind == CLAIM) && strcmp(model->name, model_name) == 0) {
        spying = true;
        fault_spy_begin(info, kind == CLAIM);
    }
    return failed;
}

static int verify(struct convoy_device *device, struct convoy_net *net, int64_t budget_us,
                  struct convoy_error *error)
{
    static bool flipped;
    if (kind == FLIP && !flipped && is_meant()) {
        flipped = true;
        if (fault_flip() == 0)
            return convoy_fail(error, -EIO, "a test: the weights are not found in memory");
    }
    return real->verify(device, net, budget_us, error);
}

static int submit(struct convoy_device *device, struct convoy_net *net, const struct convoy_job *job,
                  struct convoy_error *error)
{
    bool emulated = false;
    if (kind == PACE)
        keep_pace(job->rows);
    if (spying)
        fault_spy_look(pixel, fault_file);
    if (computes_wrongly())
        note_job(net, job);
    if (kind == FILES && job->layout == CONVOY_LAYOUT_JPEG)
        return fault_files(real, undecoded, deadly, outputs_of(net), device, net, job, error);
    if (kind < PIXELS && kind != KILL && kind != HANG && kind != SEIZE)
        return real->submit(device, net, job, error);
    int blue = blue_of(job);
    if (blue < 0 || (kind == PIXELS && blue >= (int)BLUES))
        return real->submit(device, net, job, error);
    enum fault_kind what = kind == PIXELS ? of_blue[blue].kind : kind;
    if (what == KILL)
        raise(SIGKILL);
    while (what == HANG)
        pause();
    if (what == SEIZE)
        seize();
    if (what == GPU_ECC)
        return convoy_fail(error, -EIO,
                           "a test: uncorrectable ECC error encountered (cudaErrorECCUncorrectable)");
    if (what == GPU_JOB) {
        enum fault_kernel starts = kind == PIXELS ? of_blue[blue].kernel : kernel;
        int failed = fault_gpu(real, starts, false, &emulated, error);
        if (failed)
            return failed;
        /* The kernel runs beside the job, which would end. */
        spinning = starts == FAULT_SPIN && !emulated;
        if (spinning)
            return 0;
    }
    return real->submit(device, net, job, error);
}

static int collect(struct convoy_device *device, int64_t timeout_us, uint64_t *tag,
                   struct convoy_error *error)
{
    if (!spinning) {
        int got = real->collect(device, timeout_us, tag, error);
        if (got > 0 && computes_wrongly() && is_meant())
            mix_up(*tag);
        return got;
    }
    usleep((useconds_t)(timeout_us > 0 ? timeout_us : 0));
    return 0;
}

__attribute__((visibility("default"))) const struct convoy_backend *
convoy_faults_entry(const struct convoy_backend *backend)
{
    const char *text = getenv("CONVOY_TEST_FAULT");
    if (text == NULL || !read_fault(text))
        return backend;
    real = backend;
    wrapped = *backend;
    wrapped.open = open_device;
    wrapped.load = load;
    wrapped.submit = submit;
    wrapped.collect = collect;
    if (backend->verify != NULL)
        wrapped.verify = verify;
    return &wrapped;
}
