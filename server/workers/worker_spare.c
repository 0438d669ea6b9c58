#include "server/workers/worker_spare.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LABEL         "spare" /* no front adopts it */
#define FIRST_REST_US UINT64_C(5000000)
#define MOST_DOUBLED  7 /* 5 s, 10 s, ... 640 s */

/* The arguments as one text; NULL when memory is out. */
static char *joined(char *const *arguments)
{
    size_t bytes = 1;
    for (char *const *at = arguments; *at != NULL; at++)
        bytes += strlen(*at) + 1;
    char *text = malloc(bytes), *end = text;
    if (text == NULL)
        return NULL;
    for (char *const *at = arguments; *at != NULL; at++) {
        end = stpcpy(end, *at);
        *end++ = '\n';
    }
    *end = '\0';
    return text;
}

static void forget(struct convoy_worker_spare *spare)
{
    free(spare->as);
    spare->as = NULL;
    spare->exists = false;
}

static void close_all(const int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* A device that takes no second process must not be asked all the time. */
static void failed(struct convoy_worker_spare *spare)
{
    uint32_t doubled = spare->failures < MOST_DOUBLED ? spare->failures : MOST_DOUBLED;
    spare->failures++;
    spare->next_us = convoy_now_us() + (FIRST_REST_US << doubled);
}

static void on_exit_of_spare(void *context, int status)
{
    struct convoy_worker_spare *spare = context;
    close_all((const int[]){spare->control, spare->doorbell}, 2);
    forget(spare);
    failed(spare);
    convoy_log(CONVOY_LOG_WARNING, "a spare worker ended", CONVOY_INT("pid", spare->pid),
               CONVOY_INT(WIFSIGNALED(status) ? "signal" : "exit_status",
                          WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status)));
}

/* fds: as convoy_link_start() takes them; all are to be closed here. */
static int start(struct convoy_worker_spare *spare, char *const *arguments, const int fds[5],
                 struct convoy_error *error)
{
    int code = convoy_link_start(spare->link, LABEL, arguments, fds, on_exit_of_spare, spare, &spare->number,
                                 &spare->pid, error);
    close_all((const int[]){fds[0], fds[2]}, 2);
    if (code != 0) {
        close_all((const int[]){fds[3], fds[4]}, 2);
        return code;
    }
    spare->control = fds[3];
    spare->doorbell = fds[4];
    spare->exists = true;
    return 0;
}

static void start_one(struct convoy_worker_spare *spare, struct convoy_link *link, char *const *arguments,
                      char *const *as_spare, int memory)
{
    struct convoy_error error;
    int control[2] = {-1, -1}, doorbell[2] = {-1, -1}, code = 0;
    spare->link = link;
    spare->as = joined(arguments);
    if (spare->as == NULL || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, doorbell) != 0) {
        code = convoy_fail(&error, -errno, "%s", strerror(errno));
        close_all(control, 2);
    } else {
        code = start(spare, as_spare, (const int[]){control[1], memory, doorbell[1], control[0], doorbell[0]},
                     &error);
    }
    if (code == 0) {
        convoy_log(CONVOY_LOG_INFO, "a spare worker was started", CONVOY_INT("pid", spare->pid));
        return;
    }
    forget(spare);
    failed(spare);
    convoy_log(CONVOY_LOG_WARNING, "no spare worker can be started", CONVOY_STR("reason", error.message));
}

void convoy_worker_spares_start(struct convoy_worker_spares *spares, struct convoy_link *link,
                                char *const *arguments, char *const *as_spare, int memory)
{
    for (uint32_t i = 0; i < spares->wanted && i < CONVOY_MOST_SPARES; i++)
        if (!spares->each[i].exists && convoy_now_us() >= spares->each[i].next_us)
            start_one(&spares->each[i], link, arguments, as_spare, memory);
}

static void on_end(void *context, int status)
{
    (void)context, (void)status;
}

static void end(struct convoy_worker_spare *spare)
{
    if (!spare->exists)
        return;
    convoy_link_pass(spare->link, spare->number, on_end, NULL);
    convoy_link_kill(spare->link, spare->number);
    close_all((const int[]){spare->control, spare->doorbell}, 2);
    forget(spare);
}

/* The oldest; NULL: there is none. The master counts processes as it starts them. */
static struct convoy_worker_spare *oldest(struct convoy_worker_spares *spares)
{
    struct convoy_worker_spare *found = NULL;
    for (uint32_t i = 0; i < CONVOY_MOST_SPARES; i++)
        if (spares->each[i].exists && (found == NULL || spares->each[i].number < found->number))
            found = &spares->each[i];
    return found;
}

bool convoy_worker_spares_take(struct convoy_worker_spares *spares, char *const *arguments,
                               convoy_link_exited *exited, void *context, struct convoy_link_worker *taken)
{
    char *as = joined(arguments);
    struct convoy_worker_spare *spare;
    while ((spare = oldest(spares)) != NULL && (as == NULL || strcmp(as, spare->as) != 0))
        end(spare);
    free(as);
    if (spare == NULL)
        return false;
    convoy_link_pass(spare->link, spare->number, exited, context);
    *taken = (struct convoy_link_worker){spare->number, spare->pid, -1, spare->control, spare->doorbell};
    forget(spare);
    spare->failures = 0;
    return true;
}

void convoy_worker_spares_end(struct convoy_worker_spares *spares)
{
    for (uint32_t i = 0; i < CONVOY_MOST_SPARES; i++)
        end(&spares->each[i]);
}
