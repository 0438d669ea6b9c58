/* Users of this machine, by name or number. Looks names up in the system's list of users, which may take
 * long. Threads: one at a time, those that load a configuration (getpwnam(3)). */
#ifndef CONVOY_SERVER_USER_H
#define CONVOY_SERVER_USER_H

#include "engine/base/error.h"

#include <sys/types.h>

/* The number of a user; key: what names it, for the sentence. -EINVAL: there is no such user. A number needs
 * no user. */
int convoy_user_find(const char *key, const char *text, uid_t *uid, struct convoy_error *error);

#define CONVOY_USER_IDENTITY_BYTES 224 /* 18 numbers of ten digits, and what separates them */

/* A user's numbers as convoy-worker takes them: "UID:GID[,GID...]", with at most 16 groups besides its own.
 * Of a number without a user the group has the same number. -EINVAL: there is no such user, or it is in more
 * groups. */
int convoy_user_identity(const char *key, const char *text, char identity[CONVOY_USER_IDENTITY_BYTES],
                         struct convoy_error *error);

#endif
