/* The user that a worker runs as where root starts convoyd: not root, and none that owns files or runs other
 * programs.
 *
 * Threads: once, at the start of the process, while it has one thread and the device is not open. */
#ifndef CONVOY_ENGINE_WORKER_OWN_USER_H
#define CONVOY_ENGINE_WORKER_OWN_USER_H

#include "engine/base/error.h"

/* The user and the group where none is configured. It lies between the numbers that distributions give to
 * people and those that systemd gives to services for their lifetime (systemd's "Users, Groups, UIDs and
 * GIDs": 60706 to 61183 are unused), and below 65536, which is all that most containers have. */
#define CONVOY_OWN_UID 61183

#define CONVOY_MOST_GROUPS 16 /* of a user, besides its own */

/* Changes the process's user and groups, and leaves it of its capabilities those to read files
 * (CAP_DAC_READ_SEARCH) and to lock memory (CAP_IPC_LOCK), where it has them.
 *
 * user: "UID:GID[,GID...]", or NULL: CONVOY_OWN_UID without groups, where root runs the process, can keep
 * the capability to read files, so that models that only root may read stay readable, and can signal other
 * users. Without that, or where this user namespace has no such user, it stays root, and *error says so,
 * though 0 is returned; the message is empty otherwise.
 *
 * cache_dir (in and out, may be NULL and point to NULL): the folder that the new user writes to. Where the
 * user changes it becomes a folder of that user's in the one given, "uid-UID", which is made if it is
 * missing; it stays allocated for the life of the process. A folder that cannot be made is told by the cache
 * when it is written.
 *
 * -EPERM and others of setresuid(2): nothing may run then, as the user is not the one that was asked for. */
int convoy_worker_take_own_user(const char *user, const char **cache_dir, struct convoy_error *error);

#endif
