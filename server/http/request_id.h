/* The name of a request in logs and in the X-Request-Id of its answer. */
#ifndef CONVOY_SERVER_REQUEST_ID_H
#define CONVOY_SERVER_REQUEST_ID_H

#include <stdbool.h>
#include <stddef.h>

#define CONVOY_REQUEST_ID_BYTES 65 /* 64 characters and the NUL */

/* Copies the id that a client sent into id when it is 1 to 64 characters of A-Z a-z 0-9 . _ - and returns
 * true; otherwise (also for NULL) leaves id alone and returns false. Nothing else ever gets back into a
 * header or a log line, so neither can be forged through it. */
bool convoy_request_id_keep(const char *value, size_t length, char id[CONVOY_REQUEST_ID_BYTES]);

/* Makes one of 32 hexadecimal digits, different from all others with overwhelming probability. It is no
 * secret: the next one can be guessed from it. Any thread; no lock, no system call after a thread's first. */
void convoy_request_id_make(char id[CONVOY_REQUEST_ID_BYTES]);

#endif
