/* Structured logs on standard error, one line per event, in logfmt or JSON.
 *
 *     convoy_log(CONVOY_LOG_INFO, "worker up", CONVOY_STR("device", name), CONVOY_INT("pid", pid));
 *
 *     ts=2026-11-21T10:00:14.123Z level=info msg="worker up" device=cuda:0 pid=4711
 *     {"ts":"2026-11-21T10:00:14.123Z","level":"info","msg":"worker up","device":"cuda:0","pid":4711}
 *
 * Time is UTC (RFC 3339, milliseconds). When standard error is systemd's journal, each line begins with its
 * syslog priority ("<6>", see sd-daemon(3)), which the journal removes.
 *
 * A line is one write(2) of at most CONVOY_LOG_LINE_BYTES bytes, so lines of several threads and processes do
 * not mix. A text that does not fit is cut, the fields after it are left out, and the line ends with
 * truncated=true. Nothing is allocated. A lock is held during the write alone, which waits for nothing. Where
 * there is no room, 100 ms are waited for it, without the lock and once: when standard error is closed, full
 * or not read, the line is lost and the daemon goes on.
 * Threads: any. */
#ifndef CONVOY_ENGINE_BASE_LOG_H
#define CONVOY_ENGINE_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define CONVOY_LOG_LINE_BYTES 4096 /* PIPE_BUF: the longest write to a pipe that is atomic */

enum convoy_log_level { CONVOY_LOG_DEBUG, CONVOY_LOG_INFO, CONVOY_LOG_WARNING, CONVOY_LOG_ERROR };
enum convoy_log_format { CONVOY_LOG_LOGFMT, CONVOY_LOG_JSON };

/* Made with the macros below. Pointers need to live only during the call. */
struct convoy_log_field {
    const char *key; /* letters, digits, '_', '.' */
    enum {
        CONVOY_LOG_FIELD_END,
        CONVOY_LOG_FIELD_STRING,
        CONVOY_LOG_FIELD_INT,
        CONVOY_LOG_FIELD_UINT,
        CONVOY_LOG_FIELD_FLOAT,
        CONVOY_LOG_FIELD_BOOL
    } kind;
    union {
        const char *string; /* NULL is written as an empty string */
        int64_t integer;
        uint64_t natural;
        double number; /* in JSON a number that is not finite becomes null */
        bool truth;
    };
};

#define CONVOY_STR(name, value)                                                                              \
    ((struct convoy_log_field){.key = (name), .kind = CONVOY_LOG_FIELD_STRING, .string = (value)})
#define CONVOY_INT(name, value)                                                                              \
    ((struct convoy_log_field){.key = (name), .kind = CONVOY_LOG_FIELD_INT, .integer = (value)})
#define CONVOY_UINT(name, value)                                                                             \
    ((struct convoy_log_field){.key = (name), .kind = CONVOY_LOG_FIELD_UINT, .natural = (value)})
#define CONVOY_FLOAT(name, value)                                                                            \
    ((struct convoy_log_field){.key = (name), .kind = CONVOY_LOG_FIELD_FLOAT, .number = (value)})
#define CONVOY_BOOL(name, value)                                                                             \
    ((struct convoy_log_field){.key = (name), .kind = CONVOY_LOG_FIELD_BOOL, .truth = (value)})

/* Logs message (a constant phrase; what varies goes into fields) if level is enabled; if not, the fields are
 * not evaluated. */
#define convoy_log(level, message, ...)                                                                      \
    do {                                                                                                     \
        if (convoy_log_enabled(level))                                                                       \
            convoy_log_fields((level), (const struct convoy_log_field[]){CONVOY_STR("msg", (message)),       \
                                                                         ##__VA_ARGS__,                      \
                                                                         {.kind = CONVOY_LOG_FIELD_END}});   \
    } while (0)

/* Sets the format and the lowest level that is logged, for all threads; before the first call they are logfmt
 * and info. Also detects whether standard error is the journal, and ignores SIGPIPE (raised when the reader
 * of the log is gone). Any time, any thread. */
void convoy_log_configure(enum convoy_log_format format, enum convoy_log_level level);

/* The level alone, for what is asked for while serving; the next convoy_log_configure() sets it, too. */
void convoy_log_set_level(enum convoy_log_level level);
enum convoy_log_level convoy_log_level(void);

bool convoy_log_enabled(enum convoy_log_level level);

/* Called by convoy_log(): writes the fields, of which the first is msg, up to CONVOY_LOG_FIELD_END. */
void convoy_log_fields(enum convoy_log_level level, const struct convoy_log_field *fields);

/* The same without any wait, for lines that come as often as clients like: a reader of the log that is slower
 * than they are must not set their pace. False: the line is lost. */
bool convoy_log_at_once(enum convoy_log_level level, const struct convoy_log_field *fields);

/* Convert "debug", "info", "warning" and "error" to a level and back. False if text is none of them; *level
 * is then unchanged. */
bool convoy_log_level_parse(const char *text, enum convoy_log_level *level);
const char *convoy_log_level_text(enum convoy_log_level level);

/* Formats a line without writing it to standard error. prefix is empty or a syslog priority such as "<6>".
 * Writes at most capacity bytes (at least 128) into line, newline included, no NUL; returns their number. */
size_t convoy_log_line(char *line, size_t capacity, const char *prefix, enum convoy_log_format format,
                       enum convoy_log_level level, const struct timespec *time,
                       const struct convoy_log_field *fields);

#endif
