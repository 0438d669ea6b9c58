/* What master.c, master_workers.c and master_upgrade.c share. */
#ifndef CONVOY_SERVER_MASTER_INTERNAL_H
#define CONVOY_SERVER_MASTER_INTERNAL_H

#include "server/master/hold.h"
#include "server/master/master.h"

#include <limits.h>

#define FORWARDED        3 /* signals that the front is told of */
#define FORWARDED_HANGUP 2 /* SIGHUP is the third */

/* The front that is to follow the one that serves. */
struct convoy_successor {
    pid_t pid; /* 0: there is none */
    int socket;
    bool prepared, wanted; /* wanted: the front was told to hand over */
    bool beside;           /* its channels have another ABI: it loads its models into workers of its own */
    uint32_t hangups;      /* SIGHUP since it was started: what it has read may have changed */
    uint64_t until_us;     /* it has to be prepared by then, or to say that it loads */
    /* What it held and dropped so far, and its workers, which count from the moment when it is the front. */
    struct convoy_hold held, dropped;
};

struct convoy_master {
    char program[PATH_MAX];
    char *const *arguments;
    uint32_t inherited; /* sockets of the service manager */
    int signals;        /* signalfd */
    struct convoy_hold hold;

    pid_t front;     /* 0: none */
    int socket;      /* to it; -1: none */
    int32_t abi;     /* of its channels */
    uint32_t fronts; /* started so far */
    uint32_t restarts[CONVOY_RESTARTS];
    bool serving;     /* this one */
    bool ever_served; /* some front did */
    uint64_t serving_us;
    uint32_t failures;           /* starts in a row that failed */
    uint64_t start_us;           /* when the next front is to be started, while there is none */
    uint32_t to_tell[FORWARDED]; /* signals that the front was not told of yet */
    int ending;                  /* the signal that ends the daemon; 0: none came */
    struct convoy_successor next;
    bool keeps;     /* the front that is about to end has left its workers running */
    bool abandoned; /* the front was told to hand over, and its successor ended */
    int status;     /* of the process; -1: it goes on */
};

/* Starts a front of the program that lies at the path now. *socket is the end to it. Returns its pid, or a
 * negative errno with a sentence. */
pid_t convoy_master_run_front(const struct convoy_master *master, int *socket, struct convoy_error *error);

/* Tells a new front how many followed others, and why. 0 or a negative errno. */
int convoy_master_tell_restarts(const struct convoy_master *master, int socket);

/* ---- master_workers.c: the workers of a front ---- */

/* Does what a front asks for its workers: START, LABEL, KILL. False: it is another packet. */
bool convoy_master_workers_request(struct convoy_hold *hold, int socket, struct convoy_packet *packet);
/* Tells the front which of them have exited. False when it does not read: to be tried again. */
bool convoy_master_workers_tell(struct convoy_hold *hold, int socket);
/* Sees which of those have exited that a master before has started: the kernel tells its parent alone how a
 * process ended. */
void convoy_master_workers_reap_stored(struct convoy_hold *hold);
/* How they end is told as with any other. */
void convoy_master_workers_kill(struct convoy_hold *hold);
/* Kills and forgets them; they are waited for as children that are not known. */
void convoy_master_workers_give_up(struct convoy_hold *hold);
/* At the end: kills and awaits what is left of them. The front has ended those that it could. */
void convoy_master_workers_end(struct convoy_hold *hold);

/* ---- master_upgrade.c: the program that lies at the path now takes over, with the workers ---- */

/* SIGUSR2 came. */
void convoy_master_upgrade_begin(struct convoy_master *master);
/* Takes what the successor sent. Until it is the front it changes nothing that is held. */
void convoy_master_upgrade_read(struct convoy_master *master);
/* The successor has ended. */
void convoy_master_upgrade_ended(struct convoy_master *master, int status);
/* The front before has gone: the successor is the front. */
void convoy_master_upgrade_promote(struct convoy_master *master);
/* Kills the successor; the front before serves on. */
void convoy_master_upgrade_give_up(struct convoy_master *master, const char *why);

#endif
