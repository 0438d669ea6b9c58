/* Why a file cannot be opened, in words that say what to do. */
#ifndef CONVOY_ENGINE_BASE_REASON_H
#define CONVOY_ENGINE_BASE_REASON_H

#define CONVOY_REASON_BYTES 160

/* The system's words for the errno value code (positive), in text. For a lack of permission the user of this
 * process is added, by number: the worker, which may make no sockets, cannot look the name up. Returns text.
 * Any thread. */
const char *convoy_reason(int code, char text[static CONVOY_REASON_BYTES]);

#endif
