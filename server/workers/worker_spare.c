#include "server/workers/worker_spare.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "server/workers/worker_arguments.h"
#include "server/workers/worker_exit_text.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LABEL         "spare" /* no front adopts it */
#define FIRST_REST_US UINT64_C(5000000)
#define MOST_DOUBLED  7                  /* 5 s, 10 s, ... 640 s */
#define LIVED_US      UINT64_C(60000000) /* one that lived so long was well started */
#define REASON_BYTES  2048
#define MOST_BYTES    1e18 /* of a device's memory */

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

/* Why it says that it ended: the reason of its last message, "lost"; "" when there is none. */
static void read_reason(const struct convoy_worker_spare *spare, char reason[REASON_BYTES])
{
    char said[2 * REASON_BYTES];
    ssize_t got = recv(spare->control, said, sizeof said - 1, MSG_DONTWAIT);
    said[got > 0 ? got - 1 : 0] = '\0'; /* the end of the last line */
    const char *before = strrchr(said, '\n');
    cJSON *message = cJSON_Parse(before != NULL ? before + 1 : said);
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(message, "reason"));
    snprintf(reason, REASON_BYTES, "%s", text != NULL ? text : "");
    cJSON_Delete(message);
}

static void on_exit_of_spare(void *context, int status)
{
    struct convoy_worker_spare *spare = context;
    char reason[REASON_BYTES], text[64];
    read_reason(spare, reason);
    convoy_worker_exit_text(status, text, sizeof text);
    close_all((const int[]){spare->control, spare->doorbell}, 2);
    forget(spare);
    if (convoy_now_us() - spare->started_us > LIVED_US)
        spare->failures = 0;
    failed(spare);
    convoy_log(CONVOY_LOG_WARNING, "a spare worker ended", CONVOY_INT("pid", spare->pid),
               CONVOY_STR("text", text), CONVOY_STR("reason", reason));
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
    spare->started_us = convoy_now_us();
    spare->exists = true;
    return 0;
}

static void start_one(struct convoy_worker_spare *spare, struct convoy_link *link, char *const *arguments,
                      int memory)
{
    char *as_spare[CONVOY_WORKER_ARGUMENTS + 1];
    struct convoy_error error;
    size_t count = 0;
    for (; arguments[count] != NULL; count++)
        as_spare[count] = arguments[count];
    as_spare[count] = (char *)(uintptr_t) "--spare"; /* execve() takes no const */
    as_spare[count + 1] = NULL;
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

static bool is_due(const struct convoy_worker_spare *spare)
{
    return !spare->exists && convoy_now_us() >= spare->next_us;
}

bool convoy_worker_spares_due(const struct convoy_worker_spares *spares)
{
    for (uint32_t i = 0; i < spares->wanted; i++)
        if (is_due(&spares->each[i]))
            return true;
    return false;
}

void convoy_worker_spares_start(struct convoy_worker_spares *spares, struct convoy_link *link,
                                char *const *arguments, int memory)
{
    for (uint32_t i = 0; i < spares->wanted; i++)
        if (is_due(&spares->each[i]))
            start_one(&spares->each[i], link, arguments, memory);
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
    /* A packet to the master may be lost. The master has a copy of this end, which shutdown() ends, too. */
    shutdown(spare->control, SHUT_RDWR);
    close_all((const int[]){spare->control, spare->doorbell}, 2);
    forget(spare);
}

/* The index of the oldest; CONVOY_MOST_SPARES: there is none. The link counts processes as it starts them. */
static uint32_t oldest(const struct convoy_worker_spares *spares)
{
    uint32_t found = CONVOY_MOST_SPARES;
    for (uint32_t i = 0; i < CONVOY_MOST_SPARES; i++)
        if (spares->each[i].exists &&
            (found == CONVOY_MOST_SPARES || spares->each[i].number < spares->each[found].number))
            found = i;
    return found;
}

/* The line with which it says that it has opened its device. It may have logged something before. */
static bool find_opened(char *said, uint64_t *free_bytes, uint64_t *total_bytes)
{
    char *rest = said, *line;
    bool found = false;
    while (!found && (line = strsep(&rest, "\n")) != NULL) {
        cJSON *message = cJSON_Parse(line);
        const char *type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(message, "type"));
        double available = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(message, "free"));
        double total = cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(message, "total"));
        found = type != NULL && strcmp(type, "opened") == 0 && available >= 0 && total >= available &&
                total < MOST_BYTES;
        if (found) {
            *free_bytes = (uint64_t)available;
            *total_bytes = (uint64_t)total;
        }
        cJSON_Delete(message);
    }
    return found;
}

bool convoy_worker_spares_ready(const struct convoy_worker_spares *spares, uint64_t *free_bytes,
                                uint64_t *total_bytes)
{
    char said[2 * REASON_BYTES];
    uint32_t index = oldest(spares);
    if (index == CONVOY_MOST_SPARES)
        return false;
    ssize_t got = recv(spares->each[index].control, said, sizeof said - 1, MSG_DONTWAIT | MSG_PEEK);
    said[got > 0 ? got : 0] = '\0';
    return find_opened(said, free_bytes, total_bytes);
}

bool convoy_worker_spares_take(struct convoy_worker_spares *spares, char *const *arguments,
                               convoy_link_exited *exited, void *context, struct convoy_link_worker *taken)
{
    char *as = joined(arguments);
    uint32_t index;
    while ((index = oldest(spares)) < CONVOY_MOST_SPARES &&
           (as == NULL || strcmp(as, spares->each[index].as) != 0))
        end(&spares->each[index]);
    free(as);
    if (index == CONVOY_MOST_SPARES)
        return false;
    struct convoy_worker_spare *spare = &spares->each[index];
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
