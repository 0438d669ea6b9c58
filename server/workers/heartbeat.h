/* What a worker says of itself while it lives: its phase, its counters, its device's memory. On the control
 * loop.
 *
 * A kernel that is fatal to the device on some machine, or never ends, is met by the tuner alone: after two
 * workers in a row died while they tuned, the device is served without tuning until convoyd starts again. */
#ifndef CONVOY_SERVER_HEARTBEAT_H
#define CONVOY_SERVER_HEARTBEAT_H

#include "server/workers/worker_message.h"

struct member;

/* HEARTBEAT and MEMORY came. */
void convoy_heartbeat(struct member *member, const struct convoy_worker_message *message);
void convoy_heartbeat_memory(struct member *member, const struct convoy_worker_message *message);
/* The worker is gone; busy: with slots in flight. */
void convoy_heartbeat_died(struct member *member, bool busy);
/* How the next one is to tune: "on", "off", "force". */
const char *convoy_heartbeat_tune(const struct member *member);

#endif
