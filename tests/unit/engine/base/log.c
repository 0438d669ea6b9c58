#include "engine/base/log.h"
#include "engine/base/utf8.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* 2026-11-21T10:00:14.123Z */
static const struct timespec moment = {.tv_sec = 1795255214, .tv_nsec = 123999999};

#define FIELDS(...) ((const struct convoy_log_field[]){__VA_ARGS__, {.kind = CONVOY_LOG_FIELD_END}})

static const char *line_of(enum convoy_log_format format, const struct convoy_log_field *fields)
{
    static char line[CONVOY_LOG_LINE_BYTES + 1];
    size_t length =
        convoy_log_line(line, CONVOY_LOG_LINE_BYTES, "", format, CONVOY_LOG_WARNING, &moment, fields);
    cr_assert_leq(length, (size_t)CONVOY_LOG_LINE_BYTES);
    cr_assert_eq(line[length - 1], '\n');
    line[length - 1] = '\0';
    return line;
}

Test(log, logfmt)
{
    const char *line =
        line_of(CONVOY_LOG_LOGFMT,
                FIELDS(CONVOY_STR("msg", "worker up"), CONVOY_STR("device", "cuda:0"),
                       CONVOY_INT("pid", -4711), CONVOY_UINT("bytes", UINT64_MAX), CONVOY_FLOAT("ms", 1.5),
                       CONVOY_BOOL("ok", true), CONVOY_STR("none", NULL), CONVOY_STR("sum", "1+1=2")));
    cr_assert_str_eq(line,
                     "ts=2026-11-21T10:00:14.123Z level=warning msg=\"worker up\" device=cuda:0 pid=-4711 "
                     "bytes=18446744073709551615 ms=1.5 ok=true none=\"\" sum=\"1+1=2\"");
}

Test(log, json)
{
    const char *line = line_of(CONVOY_LOG_JSON, FIELDS(CONVOY_STR("msg", "worker up"),
                                                       CONVOY_INT("pid", INT64_MIN), CONVOY_FLOAT("ms", 1.5),
                                                       CONVOY_FLOAT("nan", NAN), CONVOY_BOOL("ok", false)));
    cr_assert_str_eq(line, "{\"ts\":\"2026-11-21T10:00:14.123Z\",\"level\":\"warning\",\"msg\":\"worker up\","
                           "\"pid\":-9223372036854775808,\"ms\":1.5,\"nan\":null,\"ok\":false}");
}

Test(log, a_text_cannot_forge_a_line_or_a_field)
{
    const char *evil = "x\nts=2026 level=error msg=\"y\" z\\";
    cr_assert_str_eq(strstr(line_of(CONVOY_LOG_LOGFMT, FIELDS(CONVOY_STR("msg", evil))), "msg="),
                     "msg=\"x\\nts=2026 level=error msg=\\\"y\\\" z\\\\\"");
    /* A key is the program's own, but a space in it must not make two fields either. */
    cr_assert_str_eq(strstr(line_of(CONVOY_LOG_LOGFMT, FIELDS(CONVOY_INT("a b=\"", 1))), "warning") + 8,
                     "a_b__=1");
}

/* Every byte below 0x20, DEL, the C1 controls and stray bytes: one line of clean UTF-8 in both formats. */
Test(log, controls_are_escaped_and_stray_bytes_replaced)
{
    char every[300];
    size_t used = 0;
    for (int byte = 1; byte < 256; byte++)
        every[used++] = (char)byte;
    memcpy(every + used, "\xC2\x85\xC3\xA4\xF0\x9F\x9A\x9A", 9); /* NEL, ae, a truck */
    for (int format = CONVOY_LOG_LOGFMT; format <= CONVOY_LOG_JSON; format++) {
        const char *line = line_of((enum convoy_log_format)format, FIELDS(CONVOY_STR("msg", every)));
        size_t length = strlen(line);
        cr_assert(convoy_utf8_valid(line, length, NULL));
        for (size_t i = 0; i < length; i++)
            cr_assert((unsigned char)line[i] >= 0x20 && line[i] != 0x7F, "byte %02x", (unsigned char)line[i]);
        cr_assert_null(strstr(line, "\xC2\x85"));
        cr_assert_not_null(strstr(line, "\\u0001\\u0002"));
        cr_assert_not_null(strstr(line, "\\t\\n\\u000b"));
        cr_assert_not_null(strstr(line, "\\u007f\xEF\xBF\xBD"));
        cr_assert_not_null(strstr(line, "\\u0085\xC3\xA4\xF0\x9F\x9A\x9A"));
    }
    cJSON *parsed = cJSON_Parse(line_of(CONVOY_LOG_JSON, FIELDS(CONVOY_STR("msg", every))));
    const char *message = cJSON_GetStringValue(cJSON_GetObjectItem(parsed, "msg"));
    cr_assert_not_null(message);
    cr_assert_eq(memcmp(message, every, 127), 0, "ASCII must come back as it was");
    cJSON_Delete(parsed);
}

/* At every capacity: never longer, one newline, JSON that parses, and truncated=true exactly when something
 * is missing. */
Test(log, a_line_that_is_cut_stays_whole)
{
    const struct convoy_log_field fields[] = {
        CONVOY_STR("msg", "a \"message\" of some length \xC3\xA4\xC3\xB6\n\n"),
        CONVOY_INT("number", 1234567890123),
        CONVOY_STR("plain", "cuda:0"),
        CONVOY_STR("text", "\xF0\x9F\x9A\x9A\xF0\x9F\x9A\x9A \x01\x02"),
        CONVOY_BOOL("last", true),
        {.kind = CONVOY_LOG_FIELD_END}};
    for (int format = CONVOY_LOG_LOGFMT; format <= CONVOY_LOG_JSON; format++) {
        size_t cut = 0, whole = 0;
        for (size_t capacity = 128; capacity < 400; capacity++) {
            char *line = malloc(capacity); /* exactly: the sanitizer sees a byte too many */
            size_t length = convoy_log_line(line, capacity, "<6>", (enum convoy_log_format)format,
                                            CONVOY_LOG_INFO, &moment, fields);
            cr_assert_leq(length, capacity);
            cr_assert_eq(memchr(line, '\n', length), line + length - 1);
            cr_assert(convoy_utf8_valid(line, length, NULL));
            bool truncated = memmem(line, length, "truncated", 9) != NULL;
            cr_assert_eq(truncated, memmem(line, length, "last", 4) == NULL);
            if (memmem(line, length, "number", 6) == NULL)
                cr_assert_null(memmem(line, length, "plain", 5), "nothing follows what was left out");
            cut += truncated;
            whole += !truncated;
            if (format == CONVOY_LOG_JSON) {
                cJSON *parsed = cJSON_ParseWithLength(line + 3, length - 3);
                cr_assert_not_null(parsed, "%.*s", (int)length, line);
                cr_assert_eq(cJSON_IsTrue(cJSON_GetObjectItem(parsed, "truncated")), truncated);
                cJSON_Delete(parsed);
            }
            free(line);
        }
        cr_assert(cut > 20 && whole > 20);
    }
}

Test(log, a_long_text_is_cut_on_a_character)
{
    char text[6001];
    for (int i = 0; i < 6000; i += 3)
        memcpy(text + i, "\xE2\x82\xAC", 3);
    text[6000] = '\0';
    for (int format = CONVOY_LOG_LOGFMT; format <= CONVOY_LOG_JSON; format++) {
        const char *line =
            line_of((enum convoy_log_format)format,
                    FIELDS(CONVOY_STR("msg", "m"), CONVOY_STR("long", text), CONVOY_INT("n", 1)));
        cr_assert(convoy_utf8_valid(line, strlen(line), NULL));
        cr_assert_geq(strlen(line), 4000);
        cr_assert_not_null(strstr(line, "truncated"));
        cr_assert_null(strstr(line, "n=1"));
    }
}

Test(log, levels)
{
    enum convoy_log_level level = CONVOY_LOG_ERROR;
    for (int i = CONVOY_LOG_DEBUG; i <= CONVOY_LOG_ERROR; i++) {
        cr_assert(convoy_log_level_parse(convoy_log_level_text((enum convoy_log_level)i), &level));
        cr_assert_eq((int)level, i);
    }
    cr_assert_not(convoy_log_level_parse("warn", &level));
    cr_assert_not(convoy_log_level_parse("", &level));
    cr_assert_eq(level, CONVOY_LOG_ERROR);
}

/* ---- Through standard error ---- */

/* Puts a pipe in place of standard error; returns its reading end. */
static int capture(void)
{
    int ends[2];
    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    cr_assert_eq(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    close(ends[1]);
    return ends[0];
}

/* What was written so far; at least a byte must have been. */
static const char *captured(int fd)
{
    static char text[65536];
    ssize_t length = read(fd, text, sizeof text - 1);
    cr_assert_gt(length, 0);
    text[length] = '\0';
    return text;
}

static int evaluated;

static int evaluate(void)
{
    return ++evaluated;
}

Test(log, what_is_below_the_level_costs_nothing)
{
    int fd = capture();
    convoy_log(CONVOY_LOG_DEBUG, "hidden", CONVOY_INT("n", evaluate()));
    cr_assert_eq(evaluated, 0);
    convoy_log(CONVOY_LOG_INFO, "shown"); /* info is the start */
    convoy_log_configure(CONVOY_LOG_JSON, CONVOY_LOG_ERROR);
    convoy_log(CONVOY_LOG_WARNING, "hidden", CONVOY_INT("n", evaluate()));
    convoy_log(CONVOY_LOG_ERROR, "worse", CONVOY_INT("n", evaluate()));
    const char *text = captured(fd);
    cr_assert_eq(evaluated, 1);
    cr_assert_null(strstr(text, "hidden"));
    cr_assert_not_null(strstr(text, " level=info msg=shown\n{\"ts\":"));
    cr_assert_not_null(strstr(text, "\"level\":\"error\",\"msg\":\"worse\",\"n\":1}\n"));
}

Test(log, the_level_alone_can_be_set)
{
    int fd = capture();
    cr_assert_eq(convoy_log_level(), CONVOY_LOG_INFO);
    convoy_log_configure(CONVOY_LOG_JSON, CONVOY_LOG_WARNING);
    cr_assert_eq(convoy_log_level(), CONVOY_LOG_WARNING);
    convoy_log_set_level(CONVOY_LOG_DEBUG);
    cr_assert_eq(convoy_log_level(), CONVOY_LOG_DEBUG);
    convoy_log(CONVOY_LOG_DEBUG, "shown");
    cr_assert_not_null(strstr(captured(fd), "\"level\":\"debug\",\"msg\":\"shown\"}\n"));
}

/* time() may lag behind the clock that the log reads by a tick of the kernel. */
static time_t now(void)
{
    struct timespec time;
    cr_assert_eq(clock_gettime(CLOCK_REALTIME, &time), 0);
    return time.tv_sec;
}

Test(log, the_time_is_now)
{
    int fd = capture();
    time_t before = now();
    convoy_log(CONVOY_LOG_INFO, "now");
    time_t after = now();
    struct tm utc = {0};
    const char *end = strptime(captured(fd), "ts=%Y-%m-%dT%H:%M:%S", &utc);
    cr_assert_not_null(end);
    cr_assert_eq(*end, '.');
    time_t logged = timegm(&utc);
    cr_assert(before <= logged && logged <= after);
}

static void set_journal(unsigned long long device, unsigned long long inode, const char *tail)
{
    char value[64];
    snprintf(value, sizeof value, "%llu:%llu%s", device, inode, tail);
    setenv("JOURNAL_STREAM", value, 1);
}

Test(log, priorities_only_for_the_journal)
{
    static const char *const prefixes[] = {"<7>ts=", "<6>ts=", "<4>ts=", "<3>ts="};
    int fd = capture();
    struct stat status;
    cr_assert_eq(fstat(STDERR_FILENO, &status), 0);
    set_journal(status.st_dev, status.st_ino, "");
    convoy_log_configure(CONVOY_LOG_LOGFMT, CONVOY_LOG_DEBUG);
    for (int level = CONVOY_LOG_DEBUG; level <= CONVOY_LOG_ERROR; level++) {
        convoy_log((enum convoy_log_level)level, "m");
        cr_assert_eq(strncmp(captured(fd), prefixes[level], 6), 0);
    }
    set_journal(status.st_dev, status.st_ino + 1, "");
    convoy_log_configure(CONVOY_LOG_LOGFMT, CONVOY_LOG_DEBUG);
    convoy_log(CONVOY_LOG_INFO, "m");
    cr_assert_eq(strncmp(captured(fd), "ts=", 3), 0, "standard error was redirected from the journal");
    set_journal(status.st_dev, status.st_ino, "x");
    convoy_log_configure(CONVOY_LOG_LOGFMT, CONVOY_LOG_DEBUG);
    convoy_log(CONVOY_LOG_INFO, "m");
    cr_assert_eq(strncmp(captured(fd), "ts=", 3), 0);
    unsetenv("JOURNAL_STREAM");
    convoy_log_configure(CONVOY_LOG_LOGFMT, CONVOY_LOG_DEBUG);
    convoy_log(CONVOY_LOG_INFO, "m");
    cr_assert_eq(strncmp(captured(fd), "ts=", 3), 0);
}

Test(log, a_standard_error_that_fails_harms_nothing)
{
    signal(SIGPIPE, SIG_DFL);
    convoy_log_configure(CONVOY_LOG_LOGFMT, CONVOY_LOG_INFO);
    close(capture()); /* a pipe without a reader */
    errno = EXDEV;
    convoy_log(CONVOY_LOG_INFO, "into a broken pipe");
    cr_assert_eq(errno, EXDEV);
    int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    cr_assert_geq(full, 0);
    dup2(full, STDERR_FILENO);
    convoy_log(CONVOY_LOG_INFO, "onto a full disk");
    cr_assert_eq(errno, EXDEV);
    close(STDERR_FILENO);
    convoy_log(CONVOY_LOG_INFO, "into nothing");
    cr_assert_eq(errno, EXDEV);
    convoy_log_configure(CONVOY_LOG_JSON, CONVOY_LOG_INFO);
}

enum { THREADS = 4, LINES = 300 };

static void *log_lines(void *argument)
{
    char text[600]; /* long enough that torn lines would show */
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    for (int i = 0; i < LINES; i++)
        convoy_log(CONVOY_LOG_INFO, "line", CONVOY_INT("thread", *(int *)argument), CONVOY_INT("i", i),
                   CONVOY_STR("text", text));
    return NULL;
}

/* Each thread's lines arrive whole and in order, while a further thread reconfigures. */
Test(log, lines_of_threads_do_not_mix)
{
    pthread_t threads[THREADS];
    int numbers[THREADS], next[THREADS] = {0};
    int fd = capture();
    /* Room for all lines: for a reader that is slow, because the machine is busy, lines are lost. */
    cr_assert_geq(fcntl(fd, F_SETPIPE_SZ, 1 << 20), THREADS * LINES * 800);
    convoy_log_configure(CONVOY_LOG_JSON, CONVOY_LOG_INFO);
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        cr_assert_eq(pthread_create(&threads[i], NULL, log_lines, &numbers[i]), 0);
    }
    FILE *lines = fdopen(fd, "r");
    char line[CONVOY_LOG_LINE_BYTES + 2];
    for (int i = 0; i < THREADS * LINES; i++) {
        cr_assert_not_null(fgets(line, sizeof line, lines));
        convoy_log_configure(CONVOY_LOG_JSON, CONVOY_LOG_INFO);
        cJSON *parsed = cJSON_Parse(line);
        cr_assert_not_null(parsed, "torn: %s", line);
        int thread = (int)cJSON_GetNumberValue(cJSON_GetObjectItem(parsed, "thread"));
        cr_assert_eq((int)cJSON_GetNumberValue(cJSON_GetObjectItem(parsed, "i")), next[thread]++);
        cJSON_Delete(parsed);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    fclose(lines);
}

Test(log, a_standard_error_that_nobody_reads_loses_lines_and_stops_nobody, .timeout = 20)
{
    int ends[2], saved = dup(STDERR_FILENO);
    cr_assert_eq(pipe(ends), 0);
    dup2(ends[1], STDERR_FILENO);
    /* A pipe holds 64 KiB: far less than this. */
    for (int i = 0; i < 5000; i++)
        convoy_log(CONVOY_LOG_ERROR, "this is not read", CONVOY_INT("line", i));
    dup2(saved, STDERR_FILENO);
    char text[64] = "";
    cr_assert_gt(read(ends[0], text, sizeof text - 1), 0);
    cr_assert_eq(strncmp(text, "ts=", 3), 0);
}
