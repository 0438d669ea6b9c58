/* Reads messages from a stream socket on which each line is one JSON object: both ends of a worker's control
 * socket use it. The peer is not trusted: a line is bounded, and a line that is not exactly one JSON object
 * is an error.
 *
 * The reader does not wait and owns no descriptor. The caller puts bytes in, either with
 * convoy_line_reader_receive() or by reading into the room that convoy_line_reader_room() lends, and takes
 * messages out until there are none before more bytes are received.
 *
 * A sender that takes a stream over from another one, which may have ended in the middle of a line, begins
 * with CONVOY_LINE_CUT: the line that ends with it is left out. JSON has no such character.
 *
 * Threads: one at a time. */
#ifndef CONVOY_ENGINE_IPC_LINE_READER_H
#define CONVOY_ENGINE_IPC_LINE_READER_H

#include "engine/base/error.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define CONVOY_LINE_CUT      "\x18\n" /* CAN, and the end of the line */
#define CONVOY_LINE_CUT_CHAR '\x18'

struct convoy_line_reader {
    char *bytes;                /* received and not taken yet: bytes[first] to bytes[end - 1] */
    size_t first, end;          /* first: where the next line begins */
    size_t searched;            /* no newline lies before this */
    size_t capacity, line_most; /* line_most: bytes of a line, without its newline */
    bool waits_for_cut;         /* lines are left out until one was cut */
    int code;                   /* 0, or the error after which nothing is read any more */
};

/* Prepares an empty reader; no memory is taken yet. line_most: longest line that is accepted, in bytes. */
void convoy_line_reader_begin(struct convoy_line_reader *reader, size_t line_most);
/* Forgets all bytes and errors and keeps the memory: for a new connection. */
void convoy_line_reader_reset(struct convoy_line_reader *reader);
/* For a stream of which another reader read the beginning: everything before the next CONVOY_LINE_CUT is left
 * out. */
void convoy_line_reader_wait_for_cut(struct convoy_line_reader *reader);
void convoy_line_reader_free(struct convoy_line_reader *reader);

/* Lends room for at least one byte behind what was received. -EMSGSIZE: the line that is being received is
 * longer than line_most; -ENOMEM; -EPROTO: an earlier line was not JSON. The room is valid until the next
 * call. */
int convoy_line_reader_room(struct convoy_line_reader *reader, char **room, size_t *bytes);
/* bytes bytes were put into the room. */
void convoy_line_reader_received(struct convoy_line_reader *reader, size_t bytes);

/* recv() into the room, once, with its flags (MSG_DONTWAIT, or 0 to wait). Returns how many bytes came, 0
 * when the peer closed its end, or a negative errno: that of recv() (-EAGAIN: none now; EINTR is tried
 * again), or of convoy_line_reader_room(). */
ssize_t convoy_line_reader_receive(struct convoy_line_reader *reader, int socket, int flags);

/* Takes the next line out. Returns 1 with *message, which the caller frees; 0 when no line is complete;
 * -EPROTO with a sentence when the line is not one JSON object (a NUL byte or bytes behind the object
 * included), after which the reader returns that for good. */
int convoy_line_reader_next(struct convoy_line_reader *reader, cJSON **message, struct convoy_error *error);

#endif
