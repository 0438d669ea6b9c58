#include "server/master/master_internal.h"

#include "engine/base/clock.h"
#include "engine/base/log.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PREPARE_US 10000000u /* a new program may take this long until it could serve */
#define LOAD_US    20000000u /* or until it has started workers, and loads on */

static void forget_successor(struct convoy_master *master)
{
    if (master->next.socket >= 0)
        close(master->next.socket);
    convoy_master_workers_give_up(&master->next.held);
    convoy_hold_free(&master->next.held);
    convoy_hold_free(&master->next.dropped);
    master->next = (struct convoy_successor){.socket = -1};
}

void convoy_master_upgrade_give_up(struct convoy_master *master, const char *why)
{
    convoy_log(CONVOY_LOG_ERROR, "the upgrade is given up, the front before serves on",
               CONVOY_STR("reason", why));
    /* It is waited for as any child that is not known. */
    kill(master->next.pid, SIGKILL);
    forget_successor(master);
}

void convoy_master_upgrade_begin(struct convoy_master *master)
{
    struct convoy_error error;
    struct convoy_successor *next = &master->next;
    if (next->pid != 0 || !master->serving || master->ending != 0) {
        convoy_log(CONVOY_LOG_WARNING, "SIGUSR2 is passed by: a start, an upgrade or the end is under way");
        return;
    }
    next->pid = convoy_master_run_front(master, &next->socket, &error);
    if (next->pid < 0) {
        *next = (struct convoy_successor){.socket = -1};
        convoy_log(CONVOY_LOG_ERROR, "the upgrade is given up, the front before serves on",
                   CONVOY_STR("reason", error.message));
        return;
    }
    convoy_log(CONVOY_LOG_INFO, "upgrade: another front is started", CONVOY_STR("program", master->program),
               CONVOY_INT("pid", next->pid));
    next->until_us = convoy_now_us() + PREPARE_US;
    int code = convoy_hold_send_items(&master->hold, next->socket);
    if (code == 0)
        code = convoy_packet_tell(next->socket, CONVOY_PACKET_BEGIN, master->fronts + 1, 1);
    if (code != 0 && code != -EPIPE) /* one that has ended is waited for */
        convoy_master_upgrade_give_up(master, strerror(-code));
}

static void on_prepared(struct convoy_master *master, int32_t abi)
{
    struct convoy_successor *next = &master->next;
    if (next->prepared)
        return;
    if (abi != master->abi && !next->beside) {
        convoy_log(CONVOY_LOG_INFO,
                   "upgrade: the new program has another ABI than the workers that run, and loads the models "
                   "into its own",
                   CONVOY_INT("pid", next->pid), CONVOY_INT("abi", abi),
                   CONVOY_INT("abi_before", master->abi));
        next->beside = true;
        next->until_us = convoy_now_us() + LOAD_US;
        if (convoy_packet_tell(next->socket, CONVOY_PACKET_BESIDE, 0, 0) != 0)
            convoy_master_upgrade_give_up(master, "the new program does not listen");
        return;
    }
    next->prepared = true;
    next->wanted = convoy_packet_tell(master->socket, CONVOY_PACKET_HANDOVER, 0, 0) == 0;
    if (!next->wanted)
        convoy_master_upgrade_give_up(master, "the front before does not listen");
}

/* What the successor sends. Until it is the front it changes nothing that is held. */
void convoy_master_upgrade_read(struct convoy_master *master)
{
    static struct convoy_packet packet;
    struct convoy_successor *next = &master->next;
    int code;
    while (next->socket >= 0 && (code = convoy_packet_receive(next->socket, &packet)) != -EAGAIN) {
        if (code != 1) { /* how it ends is told by waitpid() */
            close(next->socket);
            next->socket = -1;
            break;
        }
        if (packet.type == CONVOY_PACKET_HOLD) {
            (void)convoy_hold_item(&next->held, &packet);
        } else if (packet.type == CONVOY_PACKET_DROP) {
            convoy_hold_drop(&next->held, packet.text);
            (void)convoy_packet_tell(next->socket, CONVOY_PACKET_DROPPED, packet.number, 0);
            (void)convoy_hold_item(&next->dropped, &packet);
        } else if (packet.type == CONVOY_PACKET_PREPARED) {
            on_prepared(master, packet.value);
        } else if (packet.type == CONVOY_PACKET_LOADING) {
            next->until_us = convoy_now_us() + LOAD_US;
        } else if (next->beside) {
            (void)convoy_master_workers_request(&next->held, next->socket, &packet);
        }
        convoy_packet_close(&packet);
    }
    if (next->pid != 0 && !next->prepared && convoy_now_us() >= next->until_us)
        convoy_master_upgrade_give_up(master, next->beside
                                                  ? "the new program has not loaded the models: see above"
                                                  : "the new program was not prepared in time");
}

/* What a front has to know that follows: the workers, or of one that has its own what is another since it was
 * started. */
static int introduce(struct convoy_master *master, bool beside)
{
    int code = beside ? convoy_hold_send_remarks(&master->hold, master->socket)
                      : convoy_hold_send_workers(&master->hold, master->socket);
    if (code == 0)
        code = convoy_master_tell_restarts(master, master->socket);
    return code != 0 ? code : convoy_packet_tell(master->socket, CONVOY_PACKET_GO, 0, 0);
}

/* The front before has gone. */
void convoy_master_upgrade_promote(struct convoy_master *master)
{
    struct convoy_successor *next = &master->next;
    bool beside = next->beside;
    for (const struct convoy_held_item *item = next->dropped.items; item != NULL; item = item->next)
        convoy_hold_drop(&master->hold, item->key);
    convoy_hold_move_items(&next->held, &master->hold);
    convoy_hold_free(&next->dropped);
    if (beside) {
        convoy_master_workers_give_up(&master->hold);
        convoy_hold_move_workers(&next->held, &master->hold);
    }
    master->to_tell[FORWARDED_HANGUP] += next->hangups;
    master->front = next->pid;
    master->socket = next->socket;
    master->serving = false;
    master->failures = 0;
    master->fronts++;
    master->restarts[CONVOY_RESTART_UPGRADE]++;
    *next = (struct convoy_successor){.socket = -1};
    if (introduce(master, beside) != 0)
        kill(master->front, SIGKILL); /* and another one is started */
    convoy_log(CONVOY_LOG_INFO, "upgrade: the new front takes over", CONVOY_INT("pid", master->front));
}

void convoy_master_upgrade_ended(struct convoy_master *master, int status)
{
    char text[96];
    /* A front that has been told to hand over does so, and is followed by another start. */
    master->abandoned = master->next.wanted;
    if (WIFSIGNALED(status))
        snprintf(text, sizeof text, "the new program was killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(text, sizeof text, "the new program ended with status %d: see above", WEXITSTATUS(status));
    convoy_log(CONVOY_LOG_ERROR, "the upgrade is given up, the front before serves on",
               CONVOY_STR("reason", text));
    forget_successor(master);
}
