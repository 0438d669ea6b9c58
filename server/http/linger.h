/* Lets a client read an answer that was given before its request was read to the end.
 *
 * Closing a socket with unread bytes in it resets the connection, and a reset makes the client's kernel throw
 * away the answer that it has received: a client that writes all of a body that is too large before it reads
 * would see a broken pipe in place of the 413. So such a connection is shut down for writing alone, and a
 * thread of this part reads and throws away what still comes, within bounds of time, bytes and number. */
#ifndef CONVOY_SERVER_LINGER_H
#define CONVOY_SERVER_LINGER_H

#include "engine/base/error.h"

/* As many connections, and so descriptors, linger at most. */
#define CONVOY_LINGER_DESCRIPTORS 64u

struct convoy_linger;

/* Starts the thread. Errors: -ENOMEM, those of eventfd(2) and pthread_create(). */
int convoy_linger_start(struct convoy_linger **linger, struct convoy_error *error);

/* Takes a duplicate of fd, which the caller closes as usual. Where there is no room it does nothing: the
 * connection is then closed at once. Any thread; it never waits for a read. */
void convoy_linger_take(struct convoy_linger *linger, int fd);

/* Closes what lingers and frees. NULL is allowed. */
void convoy_linger_free(struct convoy_linger *linger);

#endif
