/* An answer that libmicrohttpd cannot give, to a request line that it rejects without answering. It is
 * written to the socket as it is, for a connection that is about to be closed and has nothing else to send.
 */
#ifndef CONVOY_SERVER_EARLY_ANSWER_H
#define CONVOY_SERVER_EARLY_ANSWER_H

#include <stdint.h>

struct convoy_connection;
struct convoy_http;

/* Sends 414 and {"error": sentence}, with Connection: close. sentence is a literal of at most 200 characters
 * without quotes and backslashes. It waits for nothing: an answer that the kernel
 * does not take whole is lost. Returns the bytes of its body. */
uint64_t convoy_early_answer(const struct convoy_http *http, const struct convoy_connection *connection,
                             const char *sentence);

#endif
