/* Answers that libmicrohttpd cannot give: to a request whose headers it gives up on without a word. They are
 * written to the socket as they are, for a connection that is about to be closed and has nothing else to
 * send. */
#ifndef CONVOY_SERVER_EARLY_ANSWER_H
#define CONVOY_SERVER_EARLY_ANSWER_H

#include <stdbool.h>
#include <stdint.h>

/* Sends status (414 or 431), a reason and {"error": sentence}, with Connection: close. It waits for nothing:
 * an answer that the kernel does not take whole is lost. Returns the bytes of its body.
 */
uint64_t convoy_early_answer(int fd, int status, const char *sentence);

/* True when the connection has sent nothing since it was opened, and the client has not closed it: a client
 * that waits for the answer to its first request. */
bool convoy_early_answer_awaited(int fd);

#endif
