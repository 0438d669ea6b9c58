/* The packets between the master and its front: a socket pair that keeps packets apart (SOCK_SEQPACKET), on
 * which descriptors travel, too. Neither end waits for the other one to read.
 *
 * Threads: one at a time. */
#ifndef CONVOY_SERVER_MASTER_PACKET_H
#define CONVOY_SERVER_MASTER_PACKET_H

#include <stddef.h>
#include <stdint.h>

#define CONVOY_PACKET_TEXT 16384 /* bytes of a packet's text */
#define CONVOY_PACKET_FDS  5

/* Numbers stay as they are: a master and a front may be of different builds. */
enum convoy_packet_type {
    /* The front to the master. What has an answer has its number in the answer, too. */
    CONVOY_PACKET_SERVING =
        1,                  /* value: CONVOY_CHANNEL_ABI: listens, and takes signals as packets from now on */
    CONVOY_PACKET_PREPARED, /* value: the same: could serve if it had the workers. After BESIDE: has loaded
                               its models */
    CONVOY_PACKET_LOG,      /* number: format; value: level, of the master's own log */
    CONVOY_PACKET_NOTIFY,   /* text: for the service manager (sd_notify(3)) */
    CONVOY_PACKET_HOLD,     /* text: a key; perhaps one descriptor: held for the next front */
    CONVOY_PACKET_DROP,     /* text: a key: no longer. Answer: DROPPED */
    CONVOY_PACKET_START,    /* text: label, program and arguments, each ends with a NUL byte; descriptors: the
                               worker's control socket, memory and doorbell, then the front's control socket and
                               doorbell. Answer: STARTED */
    CONVOY_PACKET_LABEL,    /* number: of a worker; text: its new label */
    CONVOY_PACKET_KILL,     /* number: of a worker, which gets SIGKILL */
    /* The master to the front. First what it holds, until BEGIN. */
    CONVOY_PACKET_HELD,   /* text: key; perhaps one descriptor */
    CONVOY_PACKET_WORKER, /* number; value: pid; text: label; descriptors: memory, control socket, doorbell */
    /* number: counts fronts from 1 on; value: 1: the front before serves still; workers and GO follow when it
     * has gone */
    CONVOY_PACKET_BEGIN,
    CONVOY_PACKET_GO,
    CONVOY_PACKET_HANDOVER, /* another front is prepared: this one is to answer what it has, and to end */
    CONVOY_PACKET_DROPPED,  /* */
    CONVOY_PACKET_STARTED,  /* value: pid, or a negative errno */
    CONVOY_PACKET_EXITED,   /* number: of a worker; value: as waitpid(2) tells it */
    CONVOY_PACKET_SIGNAL,   /* value: the signal that the master got */
    CONVOY_PACKET_RESTARTS, /* number: enum convoy_restart; value: so many fronts followed another for that
                               reason. Before BEGIN, or before GO */
    CONVOY_PACKET_KEEP,     /* the front to the master: it ends, and leaves workers to the next start */
    /* After PREPARED: the workers have channels of another ABI. The front is to start its own, beside the
     * front that serves, and to load its models. Before GO come no workers, but remarks as they are then. */
    CONVOY_PACKET_BESIDE,
    CONVOY_PACKET_LOADING /* the front to the master, after BESIDE: it makes progress */
};

/* Why a front follows another. */
enum convoy_restart {
    CONVOY_RESTART_SIGNAL, /* it was killed by a signal */
    CONVOY_RESTART_EXIT,   /* it ended by itself, with another status than 0 */
    CONVOY_RESTART_UPGRADE,
    CONVOY_RESTARTS
};

struct convoy_packet {
    uint32_t type, number;
    int32_t value;
    uint32_t length; /* of text */
    uint32_t fd_count;
    int fds[CONVOY_PACKET_FDS];        /* received ones are the receiver's, close-on-exec */
    char text[CONVOY_PACKET_TEXT + 1]; /* of a received packet, a NUL byte is behind it */
};

/* Sends packet, whose descriptors stay the caller's. 0; -EAGAIN: the other end does not read; or another
 * negative errno. */
int convoy_packet_send(int socket, const struct convoy_packet *packet);
/* The same, and waits for the other end to read, for at most limit_ms. */
int convoy_packet_send_within(int socket, const struct convoy_packet *packet, int limit_ms);
/* convoy_packet_send() without text and descriptors. */
int convoy_packet_tell(int socket, enum convoy_packet_type type, uint32_t number, int32_t value);

/* 1: *packet is received; 0: the other end is gone; -EAGAIN: there is none now; -EPROTO: what came is no
 * packet; or another negative errno. */
int convoy_packet_receive(int socket, struct convoy_packet *packet);
/* Closes the descriptors that were not taken out (set to -1). */
void convoy_packet_close(struct convoy_packet *packet);

#endif
