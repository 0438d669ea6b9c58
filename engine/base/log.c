#include "engine/base/log.h"

#include "engine/base/clock.h"
#include "engine/base/utf8.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SLOW_READER_MS 100

static const char *const level_texts[] = {"debug", "info", "warning", "error"};
/* Syslog's priorities: LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERR. */
static const char *const level_prefixes[] = {"<7>", "<6>", "<4>", "<3>"};

/* A line that is written while SIGHUP or a client changes these may mix the old with the new: harmless. */
static _Atomic int current_level = CONVOY_LOG_INFO;
static _Atomic int current_format = CONVOY_LOG_LOGFMT;
static atomic_bool to_journal;

/* systemd sets JOURNAL_STREAM to "device:inode" of the journal's stream; only while standard error still is
 * that stream will prefixes be taken off (systemd.exec(5)). */
static bool stderr_is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    struct stat status;
    if (stream == NULL || fstat(STDERR_FILENO, &status) < 0)
        return false;
    char *end;
    errno = 0;
    unsigned long long device = strtoull(stream, &end, 10);
    if (errno != 0 || end == stream || *end != ':')
        return false;
    const char *second = end + 1;
    unsigned long long inode = strtoull(second, &end, 10);
    return errno == 0 && end != second && *end == '\0' && device == status.st_dev && inode == status.st_ino;
}

void convoy_log_configure(enum convoy_log_format format, enum convoy_log_level level)
{
    struct sigaction action;
    if (sigaction(SIGPIPE, NULL, &action) == 0 && !(action.sa_flags & SA_SIGINFO) &&
        action.sa_handler == SIG_DFL) {
        action.sa_handler = SIG_IGN;
        sigaction(SIGPIPE, &action, NULL);
    }
    atomic_store_explicit(&to_journal, stderr_is_journal(), memory_order_relaxed);
    atomic_store_explicit(&current_format, (int)format, memory_order_relaxed);
    convoy_log_set_level(level);
}

void convoy_log_set_level(enum convoy_log_level level)
{
    atomic_store_explicit(&current_level, (int)level, memory_order_relaxed);
}

enum convoy_log_level convoy_log_level(void)
{
    return (enum convoy_log_level)atomic_load_explicit(&current_level, memory_order_relaxed);
}

bool convoy_log_enabled(enum convoy_log_level level)
{
    return (int)level >= atomic_load_explicit(&current_level, memory_order_relaxed);
}

bool convoy_log_level_parse(const char *text, enum convoy_log_level *level)
{
    for (unsigned i = 0; i < sizeof level_texts / sizeof level_texts[0]; i++) {
        if (strcmp(text, level_texts[i]) == 0) {
            *level = (enum convoy_log_level)i;
            return true;
        }
    }
    return false;
}

const char *convoy_log_level_text(enum convoy_log_level level)
{
    return level_texts[level];
}

/* A line that grows. What does not fit is refused whole, so that a line never ends inside an escape. */
struct line {
    char *text;
    size_t length, capacity;
    enum convoy_log_format format;
    bool full; /* something was cut or left out */
};

static bool put(struct line *line, const char *text, size_t length)
{
    if (length > line->capacity - line->length)
        return false;
    memcpy(line->text + line->length, text, length);
    line->length += length;
    return true;
}

/* One character as both formats write it inside quotes: JSON's escapes, which logfmt's readers know, too.
 * Control characters are escaped so that a request cannot forge lines or reach the reader's terminal. Returns
 * the bytes taken from text, 0 when it does not fit. */
static size_t put_character(struct line *line, const char *text, size_t length)
{
    char escape[8];
    size_t bytes = convoy_utf8_character(text, length);
    if (bytes == 0)
        return put(line, "\xEF\xBF\xBD", 3) ? 1 : 0; /* U+FFFD */

    unsigned char first = (unsigned char)text[0];
    const char *out = text;
    size_t out_bytes = bytes;
    unsigned control = 0;
    bool is_control = false;
    if (bytes == 1 && (first < 0x20 || first == 0x7F)) {
        is_control = true;
        control = first;
    } else if (bytes == 2 && first == 0xC2 && (unsigned char)text[1] < 0xA0) {
        is_control = true;
        control = (unsigned char)text[1];
    }
    if (first == '"' || first == '\\') {
        escape[0] = '\\';
        escape[1] = (char)first;
        out = escape;
        out_bytes = 2;
    } else if (is_control) {
        const char *short_form = control == '\n' ? "\\n" : control == '\r' ? "\\r" : "\\t";
        if (control == '\n' || control == '\r' || control == '\t') {
            out = short_form;
            out_bytes = 2;
        } else {
            snprintf(escape, sizeof escape, "\\u%04x", control & 0xFF);
            out = escape;
            out_bytes = 6;
        }
    }
    return put(line, out, out_bytes) ? bytes : 0;
}

static bool needs_quotes(const char *text)
{
    if (*text == '\0')
        return true;
    for (; *text != '\0'; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte <= ' ' || byte >= 0x7F || byte == '"' || byte == '=' || byte == '\\')
            return true;
    }
    return false;
}

static bool put_string(struct line *line, const char *text)
{
    if (text == NULL)
        text = "";
    size_t length = strlen(text);
    if (line->format == CONVOY_LOG_LOGFMT && !needs_quotes(text) && put(line, text, length))
        return true;
    if (line->capacity - line->length < 2)
        return false;
    put(line, "\"", 1);
    line->capacity--; /* kept for the closing quote */
    size_t taken = 0;
    while (taken < length) {
        size_t bytes = put_character(line, text + taken, length - taken);
        if (bytes == 0)
            break;
        taken += bytes;
    }
    line->capacity++;
    put(line, "\"", 1);
    line->full |= taken < length;
    return true;
}

/* The value of field, for numbers; returns its length. */
static size_t number_text(const struct convoy_log_field *field, enum convoy_log_format format, char *text,
                          size_t capacity)
{
    int length = 0;
    switch (field->kind) {
    case CONVOY_LOG_FIELD_INT:
        length = snprintf(text, capacity, "%lld", (long long)field->integer);
        break;
    case CONVOY_LOG_FIELD_UINT:
        length = snprintf(text, capacity, "%llu", (unsigned long long)field->natural);
        break;
    case CONVOY_LOG_FIELD_FLOAT:
        if (format == CONVOY_LOG_JSON && !isfinite(field->number))
            length = snprintf(text, capacity, "null");
        else
            length = snprintf(text, capacity, "%.9g", field->number);
        break;
    case CONVOY_LOG_FIELD_BOOL:
        length = snprintf(text, capacity, "%s", field->truth ? "true" : "false");
        break;
    case CONVOY_LOG_FIELD_END:
    case CONVOY_LOG_FIELD_STRING:
        break;
    }
    return length > 0 ? (size_t)length : 0;
}

static bool put_key(struct line *line, const char *key)
{
    bool json = line->format == CONVOY_LOG_JSON;
    bool fits = put(line, json ? ",\"" : " ", json ? 2 : 1);
    for (; fits && *key != '\0'; key++) {
        char byte = *key;
        bool plain = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
                     (byte >= '0' && byte <= '9') || byte == '_' || byte == '.';
        fits = put(line, plain ? &byte : "_", 1);
    }
    return fits && put(line, json ? "\":" : "=", json ? 2 : 1);
}

/* Puts the whole field, or nothing of it. */
static void put_field(struct line *line, const struct convoy_log_field *field)
{
    size_t before = line->length;
    bool fits = put_key(line, field->key);
    if (fits && field->kind == CONVOY_LOG_FIELD_STRING) {
        fits = put_string(line, field->string);
    } else if (fits) {
        char number[40];
        size_t length = number_text(field, line->format, number, sizeof number);
        fits = put(line, number, length);
    }
    if (!fits) {
        line->length = before;
        line->full = true;
    }
}

size_t convoy_log_line(char *text, size_t capacity, const char *prefix, enum convoy_log_format format,
                       enum convoy_log_level level, const struct timespec *time,
                       const struct convoy_log_field *fields)
{
    bool json = format == CONVOY_LOG_JSON;
    const char *end = json ? "}\n" : "\n";
    const char *cut_end = json ? ",\"truncated\":true}\n" : " truncated=true\n";
    struct line line = {.text = text, .capacity = capacity - strlen(cut_end), .format = format};

    struct tm utc;
    char head[160];
    gmtime_r(&time->tv_sec, &utc);
    int length = snprintf(head, sizeof head,
                          json ? "%s{\"ts\":\"%04d-%02d-%02dT%02d:%02d:%02d.%03dZ\",\"level\":\"%s\""
                               : "%sts=%04d-%02d-%02dT%02d:%02d:%02d.%03dZ level=%s",
                          prefix, utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min,
                          utc.tm_sec, (int)(time->tv_nsec / 1000000), level_texts[level]);
    put(&line, head, (size_t)length);

    for (; fields->kind != CONVOY_LOG_FIELD_END && !line.full; fields++)
        put_field(&line, fields);

    line.capacity = capacity;
    put(&line, line.full ? cut_end : end, strlen(line.full ? cut_end : end));
    return line.length;
}

enum attempt { WRITTEN, LOST, NO_ROOM };

/* A pipe that is not read must not stop the daemon: one writer at a time asks for room, of which a pipe that
 * is writable has PIPE_BUF bytes. */
static enum attempt try_to_write(const char *line, size_t length)
{
    static pthread_mutex_t one_writer = PTHREAD_MUTEX_INITIALIZER;
    struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};
    enum attempt result = NO_ROOM;
    ssize_t written;

    pthread_mutex_lock(&one_writer);
    if (poll(&room, 1, 0) != 0) {
        while ((written = write(STDERR_FILENO, line, length)) < 0 && errno == EINTR)
            ;
        result = written < 0 ? LOST : WRITTEN;
    }
    pthread_mutex_unlock(&one_writer);
    return result;
}

/* A reader that is only slow is waited for, once; after that lines are lost until it reads again. No lock is
 * held meanwhile: lines that do not wait go past. */
static bool write_line(const char *line, size_t length, bool may_wait)
{
    static atomic_bool stuck;
    uint64_t end_us = convoy_now_us() + SLOW_READER_MS * 1000u, now_us;
    enum attempt result = try_to_write(line, length);

    while (result == NO_ROOM && may_wait && !atomic_load_explicit(&stuck, memory_order_relaxed) &&
           (now_us = convoy_now_us()) < end_us) {
        struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};
        (void)poll(&room, 1, (int)((end_us - now_us) / 1000) + 1);
        result = try_to_write(line, length);
    }
    if (result != NO_ROOM || may_wait)
        atomic_store_explicit(&stuck, result == NO_ROOM, memory_order_relaxed);
    return result == WRITTEN;
}

static bool write_fields(enum convoy_log_level level, const struct convoy_log_field *fields, bool may_wait)
{
    int saved = errno;
    char line[CONVOY_LOG_LINE_BYTES];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const char *prefix = atomic_load_explicit(&to_journal, memory_order_relaxed) ? level_prefixes[level] : "";
    enum convoy_log_format format =
        (enum convoy_log_format)atomic_load_explicit(&current_format, memory_order_relaxed);
    size_t length = convoy_log_line(line, sizeof line, prefix, format, level, &now, fields);
    bool written = write_line(line, length, may_wait);
    errno = saved;
    return written;
}

void convoy_log_fields(enum convoy_log_level level, const struct convoy_log_field *fields)
{
    (void)write_fields(level, fields, true); /* a line that is lost cannot be reported */
}

bool convoy_log_at_once(enum convoy_log_level level, const struct convoy_log_field *fields)
{
    return write_fields(level, fields, false);
}
