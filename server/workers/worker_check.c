#include "server/workers/worker_check.h"

#include "engine/base/clock.h"
#include "engine/ipc/line_reader.h"
#include "server/workers/environment.h"
#include "server/workers/worker_arguments.h"
#include "server/workers/worker_message.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The command line for a model. */
static void make_arguments(struct convoy_worker_arguments *arguments, const char *program,
                           const struct convoy_config *config, const char *path,
                           const struct convoy_model_input *input)
{
    memset(arguments, 0, sizeof *arguments);
    convoy_worker_arguments_add(arguments, program);
    convoy_worker_arguments_add_text(arguments, "--check", path);
    convoy_worker_arguments_add_text(arguments, "--backend", convoy_backend_choice_text(config->backend));
    if (input->layout != CONVOY_AXES_AUTO)
        convoy_worker_arguments_add_text(arguments, "--layout", convoy_image_axes_text(input->layout));
    if (input->height > 0)
        convoy_worker_arguments_add_number(arguments, "--height", input->height);
    if (input->width > 0)
        convoy_worker_arguments_add_number(arguments, "--width", input->width);
    const struct convoy_worker_sandbox sandbox = convoy_worker_sandbox_of(config);
    convoy_worker_arguments_confine(arguments, &sandbox);
}

/* Starts the process with output as its standard output. Returns its number, or a negative errno. */
static pid_t start(const struct convoy_worker_arguments *arguments, int output, struct convoy_error *error)
{
    const char *program = arguments->list[0];
    posix_spawn_file_actions_t actions;
    pid_t pid = -1;
    char **environment = convoy_worker_environment();
    int code = environment == NULL ? ENOMEM : posix_spawn_file_actions_init(&actions);
    if (code == 0) {
        code = posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
        if (code == 0)
            code = posix_spawn(&pid, program, &actions, NULL, arguments->list, environment);
        posix_spawn_file_actions_destroy(&actions);
    }
    free(environment);
    return code == 0 ? pid : convoy_fail(error, -code, "cannot start %s: %s", program, strerror(code));
}

/* Waits until bytes can be read; 0 or a negative errno. */
static int wait_readable(int fd, uint64_t until_us)
{
    for (;;) {
        uint64_t now = convoy_now_us();
        struct pollfd poller = {.fd = fd, .events = POLLIN};
        int ready = poll(&poller, 1, now < until_us ? (int)((until_us - now) / 1000 + 1) : 0);
        if (ready > 0)
            return 0;
        if (ready < 0 && errno != EINTR)
            return -errno;
        if (ready == 0 && convoy_now_us() >= until_us)
            return -ETIMEDOUT;
    }
}

/* One read; how many bytes came, 0 at the end, or a negative errno. */
static ssize_t read_some(int fd, uint64_t until_us, struct convoy_line_reader *lines)
{
    char *room;
    size_t bytes;
    int code = wait_readable(fd, until_us);
    if (code == 0)
        code = convoy_line_reader_room(lines, &room, &bytes);
    if (code != 0)
        return code;
    ssize_t got = read(fd, room, bytes);
    if (got < 0)
        return -errno;
    convoy_line_reader_received(lines, (size_t)got);
    return got;
}

static int read_answer(int fd, uint64_t limit_us, cJSON **answer, struct convoy_error *error)
{
    uint64_t until_us = convoy_now_us() + limit_us;
    struct convoy_line_reader lines;
    ssize_t got = 1;
    int code = 0;
    convoy_line_reader_begin(&lines, CONVOY_WORKER_LINE_MAX);
    while (got > 0 && (code = convoy_line_reader_next(&lines, answer, error)) == 0)
        got = read_some(fd, until_us, &lines);
    convoy_line_reader_free(&lines);
    if (code != 0)
        return code > 0 ? 0 : code;
    if (got == -ETIMEDOUT)
        return convoy_fail(error, -ETIMEDOUT,
                           "convoy-worker was asked to load this model and had not done so after %.1f s",
                           (double)limit_us / 1e6);
    if (got == 0)
        return convoy_fail(error, -EIO,
                           "convoy-worker died or said nothing when it was asked to load this model");
    return convoy_fail(error, (int)got, "convoy-worker's answer cannot be read: %s", strerror((int)-got));
}

int convoy_worker_check_run(const char *program, const struct convoy_config *config, const char *path,
                            const struct convoy_model_input *input, uint64_t limit_us, cJSON **answer,
                            struct convoy_error *error)
{
    struct convoy_worker_arguments arguments;
    int ends[2];
    *answer = NULL;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return convoy_fail(error, -errno, "cannot start %s: %s", program, strerror(errno));
    make_arguments(&arguments, program, config, path, input);
    pid_t pid = start(&arguments, ends[1], error);
    int code = pid;
    close(ends[1]);
    if (pid > 0) {
        code = read_answer(ends[0], limit_us, answer, error);
        /* Nothing more is expected of it, and a process that cannot end must not hold this one up. */
        kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    close(ends[0]);
    return code;
}
