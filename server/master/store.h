/* Workers outlive a restart of the daemon: the master that ends puts its ends of their sockets and memory
 * into the service manager's store (FDSTORE of sd_notify(3)), and the next one finds them among the
 * descriptors that it is started with (sd_listen_fds(3)).
 *
 * Threads: one. */
#ifndef CONVOY_SERVER_MASTER_STORE_H
#define CONVOY_SERVER_MASTER_STORE_H

#include "server/master/hold.h"

/* Whether there is a service manager, which may have such a store. Any thread, while nothing changes the
 * environment. */
bool convoy_store_exists(void);

/* At the start of the master, before it has any thread or child: takes the stored workers that still live.
 * The service manager's other descriptors are left, numbered from 3 on, with LISTEN_FDS and LISTEN_FDNAMES as
 * if there had been no others; all are close-on-exec. Returns how many these are. *fronts: raised to the
 * number of fronts that served the workers so far. */
uint32_t convoy_store_take(struct convoy_hold *hold, uint32_t *fronts);

/* At the end: puts the workers that live into the store, and waits until the service manager has them, for at
 * most two seconds. Returns how many they are. A service manager without a store closes what it is given,
 * which ends the workers. */
uint32_t convoy_store_put(const struct convoy_hold *hold, uint32_t fronts);

#endif
