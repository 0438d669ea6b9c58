#include "engine/ipc/line_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define FIRST_CAPACITY 4096u
#define LEAST_ROOM     1024u /* with less the unfinished line is moved to the front, so that reads stay large */

void convoy_line_reader_begin(struct convoy_line_reader *reader, size_t line_most)
{
    *reader = (struct convoy_line_reader){.line_most = line_most};
}

void convoy_line_reader_reset(struct convoy_line_reader *reader)
{
    reader->first = reader->end = reader->searched = 0;
    reader->waits_for_cut = false;
    reader->code = 0;
}

void convoy_line_reader_wait_for_cut(struct convoy_line_reader *reader)
{
    reader->waits_for_cut = true;
}

void convoy_line_reader_free(struct convoy_line_reader *reader)
{
    free(reader->bytes);
    convoy_line_reader_begin(reader, reader->line_most);
}

/* Moves what was not taken to the front, and doubles the memory when that leaves little room. */
static int make_room(struct convoy_line_reader *reader)
{
    size_t kept = reader->end - reader->first, most = reader->line_most + 1; /* with its newline */
    if (reader->first > 0) {
        memmove(reader->bytes, reader->bytes + reader->first, kept);
        reader->searched -= reader->first;
        reader->first = 0;
        reader->end = kept;
    }
    if (reader->capacity - kept >= LEAST_ROOM)
        return 0;
    if (reader->capacity >= most)
        return kept < most ? 0 : -EMSGSIZE;
    size_t capacity = reader->capacity > 0 ? reader->capacity * 2 : FIRST_CAPACITY;
    if (capacity > most)
        capacity = most;
    char *bytes = realloc(reader->bytes, capacity);
    if (bytes == NULL)
        return -ENOMEM;
    reader->bytes = bytes;
    reader->capacity = capacity;
    return 0;
}

int convoy_line_reader_room(struct convoy_line_reader *reader, char **room, size_t *bytes)
{
    if (reader->code == 0 && reader->capacity - reader->end < LEAST_ROOM)
        reader->code = make_room(reader);
    *room = reader->bytes + reader->end;
    *bytes = reader->code == 0 ? reader->capacity - reader->end : 0;
    return reader->code;
}

void convoy_line_reader_received(struct convoy_line_reader *reader, size_t bytes)
{
    reader->end += bytes;
}

ssize_t convoy_line_reader_receive(struct convoy_line_reader *reader, int socket, int flags)
{
    char *room;
    size_t bytes;
    ssize_t got;
    int code = convoy_line_reader_room(reader, &room, &bytes);
    if (code != 0)
        return code;
    do
        got = recv(socket, room, bytes, flags);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return -errno;
    convoy_line_reader_received(reader, (size_t)got);
    return got;
}

/* The object that is all of the line; NULL when it is anything else, or memory is out. cJSON would accept
 * bytes behind the object, and end a string at a NUL byte. */
static cJSON *parse(const char *line, size_t length)
{
    const char *end = NULL;
    if (memchr(line, '\0', length) != NULL)
        return NULL;
    cJSON *message = cJSON_ParseWithLengthOpts(line, length, &end, 0);
    while (message != NULL && end < line + length && strchr(" \t\r", *end) != NULL)
        end++;
    if (cJSON_IsObject(message) && end == line + length)
        return message;
    cJSON_Delete(message);
    return NULL;
}

/* Takes the next complete line's place; NULL when there is none. */
static char *next_line(struct convoy_line_reader *reader, size_t *length)
{
    if (reader->searched >= reader->end)
        return NULL;
    char *line = reader->bytes + reader->first;
    char *newline = memchr(reader->bytes + reader->searched, '\n', reader->end - reader->searched);
    if (newline == NULL) {
        reader->searched = reader->end;
        return NULL;
    }
    *length = (size_t)(newline - line);
    reader->first = reader->searched = (size_t)(newline + 1 - reader->bytes);
    if (reader->first == reader->end) /* the usual case: nothing is to be moved */
        reader->first = reader->end = reader->searched = 0;
    return line;
}

int convoy_line_reader_next(struct convoy_line_reader *reader, cJSON **message, struct convoy_error *error)
{
    char *line;
    size_t length;
    *message = NULL;
    while (reader->code == 0 && (line = next_line(reader, &length)) != NULL) {
        bool cut = length > 0 && line[length - 1] == CONVOY_LINE_CUT_CHAR;
        if (cut || reader->waits_for_cut) {
            reader->waits_for_cut = reader->waits_for_cut && !cut;
            continue;
        }
        if ((*message = parse(line, length)) != NULL)
            return 1;
        reader->code = -EPROTO;
    }
    if (reader->code == -EPROTO)
        return convoy_fail(error, -EPROTO, "a line on the control socket is not a JSON object");
    return 0;
}
