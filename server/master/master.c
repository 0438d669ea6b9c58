#include "server/master/master_internal.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "server/master/child.h"
#include "server/master/store.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef CONVOY_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

#define SETTLED_US       1000000u /* a front that served for this long has not failed to start */
#define FIRST_BACKOFF_MS 100u     /* before the second start that follows a failed one; it doubles */

static const int forwarded[FORWARDED] = {SIGTERM, SIGINT, SIGHUP};

static void notify(const char *state)
{
#ifdef CONVOY_SYSTEMD
    static bool complained;
    int code = sd_notify(0, state);
    if (code >= 0 || complained)
        return;
    complained = true;
    convoy_log(CONVOY_LOG_WARNING, "the service manager cannot be told anything",
               CONVOY_STR("error", strerror(-code)));
#else
    (void)state;
#endif
}

static void handle(struct convoy_master *master, struct convoy_packet *packet)
{
    if (convoy_master_workers_request(&master->hold, master->socket, packet))
        return;
    switch (packet->type) {
    case CONVOY_PACKET_SERVING:
        master->serving = master->ever_served = true;
        master->serving_us = convoy_now_us();
        master->abi = packet->value;
        break;
    case CONVOY_PACKET_LOG:
        convoy_log_configure(packet->number == CONVOY_LOG_JSON ? CONVOY_LOG_JSON : CONVOY_LOG_LOGFMT,
                             packet->value >= CONVOY_LOG_DEBUG && packet->value <= CONVOY_LOG_ERROR
                                 ? (enum convoy_log_level)packet->value
                                 : CONVOY_LOG_INFO);
        break;
    case CONVOY_PACKET_NOTIFY:
        notify(packet->text);
        break;
    case CONVOY_PACKET_HOLD:
        (void)convoy_hold_item(&master->hold, packet); /* else the next front opens its own */
        break;
    case CONVOY_PACKET_DROP:
        convoy_hold_drop(&master->hold, packet->text);
        (void)convoy_packet_tell(master->socket, CONVOY_PACKET_DROPPED, packet->number, 0);
        break;
    case CONVOY_PACKET_KEEP:
        master->keeps = true;
        break;
    default:
        break;
    }
}

/* Everything that the front has sent so far. */
static void read_front(struct convoy_master *master)
{
    static struct convoy_packet packet;
    while (master->socket >= 0) {
        int code = convoy_packet_receive(master->socket, &packet);
        if (code == 0) { /* it is about to end: waitpid() tells how */
            close(master->socket);
            master->socket = -1;
        }
        if (code != 1 && code != -EPROTO)
            return;
        if (code == 1) {
            handle(master, &packet);
            convoy_packet_close(&packet);
        }
    }
}

/* Tells the front what it does not know yet. False when it does not read: to be tried again. */
static bool tell_front(struct convoy_master *master)
{
    if (master->socket < 0 || !master->serving)
        return true;
    for (int i = 0; i < FORWARDED; i++)
        for (; master->to_tell[i] > 0; master->to_tell[i]--)
            if (convoy_packet_tell(master->socket, CONVOY_PACKET_SIGNAL, 0, forwarded[i]) == -EAGAIN)
                return false;
    return convoy_master_workers_tell(&master->hold, master->socket);
}

int convoy_master_tell_restarts(const struct convoy_master *master, int socket)
{
    int code = 0;
    for (uint32_t i = 0; i < CONVOY_RESTARTS && code == 0; i++)
        code = convoy_packet_tell(socket, CONVOY_PACKET_RESTARTS, i, (int32_t)master->restarts[i]);
    return code;
}

/* BEGIN comes last. */
static int introduce(struct convoy_master *master)
{
    int code = convoy_hold_send_items(&master->hold, master->socket);
    if (code == 0)
        code = convoy_master_tell_restarts(master, master->socket);
    if (code == 0)
        code = convoy_hold_send_workers(&master->hold, master->socket);
    return code != 0 ? code : convoy_packet_tell(master->socket, CONVOY_PACKET_BEGIN, master->fronts, 0);
}

pid_t convoy_master_run_front(const struct convoy_master *master, int *socket, struct convoy_error *error)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return convoy_fail(error, -errno, "cannot make the socket to the front: %s", strerror(errno));
    pid_t pid = convoy_child_front(master->program, master->arguments, pair[1], master->inherited, error);
    close(pair[1]);
    if (pid < 0)
        close(pair[0]);
    else
        *socket = pair[0];
    return pid;
}

static int start_front(struct convoy_master *master, struct convoy_error *error)
{
    pid_t pid = convoy_master_run_front(master, &master->socket, error);
    if (pid < 0)
        return (int)pid;
    master->front = pid;
    master->serving = master->abandoned = false;
    master->fronts++;
    int code = introduce(master);
    if (code != 0) {
        convoy_log(CONVOY_LOG_ERROR, "a front cannot be told what is held for it",
                   CONVOY_STR("reason", strerror(-code)));
        kill(pid, SIGKILL); /* how it ended is waited for as with any other */
    }
    return 0;
}

/* A start failed, or the front is gone: another one, some time later. */
static void start_later(struct convoy_master *master, const char *text, bool settled)
{
    master->failures = settled ? 0 : master->failures + 1;
    if (master->failures >= CONVOY_MASTER_FAILED_STARTS) {
        convoy_log(CONVOY_LOG_ERROR, "convoyd gives up: its front fails at every start",
                   CONVOY_STR("text", text), CONVOY_UINT("starts", master->failures));
        master->status = EXIT_FAILURE;
        return;
    }
    if (master->failures == CONVOY_MASTER_FAILED_STARTS / 2 && convoy_hold_living(&master->hold) > 0) {
        convoy_log(CONVOY_LOG_WARNING, "workers are killed: what they say may be why no front starts",
                   CONVOY_UINT("workers", convoy_hold_living(&master->hold)));
        convoy_master_workers_kill(&master->hold);
    }
    uint64_t delay_ms = master->failures < 2 ? 0 : (uint64_t)FIRST_BACKOFF_MS << (master->failures - 2);
    master->start_us = convoy_now_us() + delay_ms * 1000;
    convoy_log(CONVOY_LOG_ERROR, "the front ended and is started again", CONVOY_STR("text", text),
               CONVOY_UINT("workers_kept", convoy_hold_living(&master->hold)),
               CONVOY_UINT("in_ms", delay_ms));
}

static void start_due(struct convoy_master *master)
{
    struct convoy_error error;
    int code = start_front(master, &error);
    if (code == 0)
        return;
    if (master->fronts == 0) {
        fprintf(stderr, "convoyd: %s\n", error.message);
        master->status = EXIT_FAILURE;
    } else {
        start_later(master, error.message, false);
    }
}

static void on_front_exit(struct convoy_master *master, int status)
{
    char text[96];
    bool handed_over = master->next.wanted && master->ending == 0;
    bool in_order = WIFEXITED(status) && (WEXITSTATUS(status) == EXIT_SUCCESS || !master->ever_served);
    bool settled = master->serving && convoy_now_us() - master->serving_us >= SETTLED_US;
    read_front(master); /* workers that it asked for, too */
    if (master->socket >= 0)
        close(master->socket);
    master->socket = -1;
    master->front = 0;
    if (WIFSIGNALED(status))
        snprintf(text, sizeof text, "killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(text, sizeof text, "exit status %d", WEXITSTATUS(status));
    /* One that loads its models is further than one that is started would be. */
    bool instead = master->next.beside && !in_order && master->ending == 0;
    if (master->next.pid != 0 && (handed_over || instead)) {
        if (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_SUCCESS)
            convoy_log(CONVOY_LOG_ERROR, "the front ended before everything was answered",
                       CONVOY_STR("text", text));
        if (!handed_over)
            master->restarts[WIFSIGNALED(status) ? CONVOY_RESTART_SIGNAL : CONVOY_RESTART_EXIT]++;
        convoy_master_upgrade_promote(master);
        return;
    }
    if (master->next.pid != 0)
        convoy_master_upgrade_give_up(master, "the front before has ended");
    if (in_order && !master->abandoned) {
        master->status = WEXITSTATUS(status);
    } else if (master->ending != 0) {
        if (!WIFSIGNALED(status) || WTERMSIG(status) != master->ending)
            convoy_log(CONVOY_LOG_ERROR, "the front ended before everything was answered",
                       CONVOY_STR("text", text));
        master->status = EXIT_FAILURE;
    } else {
        master->restarts[WIFSIGNALED(status) ? CONVOY_RESTART_SIGNAL : CONVOY_RESTART_EXIT]++;
        start_later(master, text, settled);
    }
}

static void reap(struct convoy_master *master)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        struct convoy_held_worker *worker;
        if (pid == master->front)
            on_front_exit(master, status);
        else if (pid == master->next.pid)
            convoy_master_upgrade_ended(master, status);
        else if ((worker = convoy_hold_find_pid(&master->hold, pid)) != NULL ||
                 (worker = convoy_hold_find_pid(&master->next.held, pid)) != NULL)
            convoy_hold_exited(worker, status);
    }
}

static void on_signal(struct convoy_master *master, int number)
{
    if (number == SIGCHLD) {
        reap(master);
        return;
    }
    if (number == SIGUSR2) {
        convoy_master_upgrade_begin(master);
        return;
    }
    for (int i = 0; i < FORWARDED; i++)
        master->to_tell[i] += forwarded[i] == number;
    master->next.hangups += number == SIGHUP && master->next.pid != 0;
    if (number == SIGHUP)
        return;
    if (master->ending == 0)
        master->ending = number;
    if (master->next.pid != 0)
        convoy_master_upgrade_give_up(master, "the daemon is to end");
    /* Before it serves it has nothing to finish. A front that has just begun to serve ignores the signal, and
     * is told. */
    if (master->front != 0 && !master->serving)
        kill(master->front, number);
    else if (master->front == 0)
        master->status = EXIT_FAILURE;
}

static void read_signals(struct convoy_master *master)
{
    struct signalfd_siginfo info;
    while (read(master->signals, &info, sizeof info) == sizeof info)
        on_signal(master, (int)info.ssi_signo);
}

static int open_signals(struct convoy_master *master)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGUSR2);
    signal(SIGCHLD, SIG_DFL);
    signal(SIGUSR2, SIG_DFL);
    for (int i = 0; i < FORWARDED; i++) {
        sigaddset(&set, forwarded[i]);
        signal(forwarded[i], SIG_DFL); /* one that is ignored would not come at all */
    }
    sigprocmask(SIG_BLOCK, &set, NULL);
    master->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return master->signals >= 0 ? 0 : -errno;
}

/* Waits for the next event, at most until a front is to be started. */
static void wait_for_event(struct convoy_master *master)
{
    bool told = tell_front(master);
    bool next_told = convoy_master_workers_tell(&master->next.held, master->next.socket);
    struct pollfd events[3 + CONVOY_HOLD_WORKERS] = {
        {.fd = master->signals, .events = POLLIN},
        {.fd = master->socket, .events = (short)(POLLIN | (told ? 0 : POLLOUT))},
        {.fd = master->next.socket, .events = (short)(POLLIN | (next_told ? 0 : POLLOUT))}};
    nfds_t count = 3;
    for (uint32_t i = 0; i < CONVOY_HOLD_WORKERS; i++)
        if (master->hold.workers[i].number != 0 && master->hold.workers[i].pidfd >= 0)
            events[count++] = (struct pollfd){.fd = master->hold.workers[i].pidfd, .events = POLLIN};
    uint64_t now_us = convoy_now_us(), until_us = UINT64_MAX;
    if (master->front == 0)
        until_us = master->start_us;
    else if (master->next.pid != 0 && !master->next.prepared)
        until_us = master->next.until_us;
    int limit_ms = until_us == UINT64_MAX ? -1
                   : until_us > now_us    ? (int)((until_us - now_us) / 1000 + 1)
                                          : 0;
    poll(events, count, limit_ms);
}

int convoy_master_run(char *const *arguments)
{
    static struct convoy_master master;
    master =
        (struct convoy_master){.arguments = arguments, .socket = -1, .next = {.socket = -1}, .status = -1};
    ssize_t length = readlink("/proc/self/exe", master.program, sizeof master.program - 1);
    int code = length > 0 ? open_signals(&master) : -errno;
    if (code != 0) {
        fprintf(stderr, "convoyd: the master process cannot start: %s\n", strerror(-code));
        return EXIT_FAILURE;
    }
    master.inherited = convoy_store_take(&master.hold, &master.fronts);
    while (master.status < 0) {
        if (master.front == 0 && convoy_now_us() >= master.start_us)
            start_due(&master);
        read_front(&master);
        convoy_master_upgrade_read(&master);
        wait_for_event(&master);
        read_signals(&master);
        convoy_master_workers_reap_stored(&master.hold);
    }
    if (master.keeps && master.status == EXIT_SUCCESS) {
        uint32_t kept = convoy_store_put(&master.hold, master.fronts);
        convoy_log(CONVOY_LOG_INFO, "workers are left to the next start", CONVOY_UINT("workers", kept));
    } else {
        convoy_master_workers_end(&master.hold);
    }
    int ended_by = master.ending != 0 && !master.ever_served ? master.ending : 0;
    convoy_hold_free(&master.hold);
    if (master.socket >= 0)
        close(master.socket);
    close(master.signals);
    if (ended_by != 0 && master.status != EXIT_SUCCESS) {
        /* As a process that has no handler ends. */
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, ended_by);
        raise(ended_by);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
    }
    return master.status;
}

/* The life of a master whose front is not its child. */
static void serve(struct convoy_master *master)
{
    for (read_front(master); master->socket >= 0; read_front(master)) {
        wait_for_event(master);
        read_signals(master);
    }
    convoy_master_workers_end(&master->hold);
}

int convoy_master_fork(struct convoy_link **link, struct convoy_error *error)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return convoy_fail(error, -errno, "cannot make the socket to a master: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0) {
        static struct convoy_master master;
        master = (struct convoy_master){
            .socket = pair[1], .front = getppid(), .serving = true, .next = {.socket = -1}, .status = -1};
        close(pair[0]);
        if (open_signals(&master) == 0)
            serve(&master);
        _exit(EXIT_SUCCESS);
    }
    int code = pid < 0 ? -errno : 0;
    close(pair[1]);
    if (code == 0 && (*link = convoy_link_new(pair[0])) != NULL)
        return 0;
    if (code != 0)
        close(pair[0]);
    return convoy_fail(error, code != 0 ? code : -ENOMEM, "cannot start a master");
}
