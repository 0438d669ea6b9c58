/* Long answers: a thousand images with a thousand classes each are 49 MB of JSON before any label, and 0.2 s
 * of processor time, for which an HTTP thread would keep its other connections waiting. The decode pool
 * writes them while the connection is suspended. An answer that no thread has begun when its client leaves,
 * or when the daemon stops, is not written. */
#ifndef CONVOY_SERVER_LONG_ANSWER_H
#define CONVOY_SERVER_LONG_ANSWER_H

#include "engine/base/json_writer.h"
#include "server/http/request.h"

#include <stdbool.h>
#include <stdint.h>

struct convoy_long_answer;

/* Appends the answer of request to json. On a thread of the pool while the request is suspended: it reads
 * what the request's call holds, and may write what its route alone reads. */
typedef void convoy_long_answer_write(struct convoy_request *request, struct convoy_json_writer *json);

/* Leaves an answer of so many numbers or classes to the pool, and suspends the connection: the handler is
 * called again when convoy_call.long_answer is over. False when the answer is short, the daemon stops, or
 * memory is out: it is to be written here then. On the request's HTTP thread, as the others; once a request.
 */
bool convoy_long_answer_leave(struct convoy_request *request, uint64_t numbers,
                              convoy_long_answer_write *write);

/* CONVOY_HTTP_OK: the answer is moved to json, which is empty. Else the status with which the request ends
 * instead: the client left, or the daemon stops; sentence is static. Once. */
int convoy_long_answer_take(struct convoy_long_answer *answer, struct convoy_json_writer *json,
                            const char **sentence);

/* The pool is done with it. NULL is allowed. */
void convoy_long_answer_free(struct convoy_long_answer *answer);

#endif
