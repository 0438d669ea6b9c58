/* `convoy bench --sweep` and `--compare`: sweep.c measures a range of loads, sweep_command.c has the steps,
 * sweep_text.c prints, sweep_json.c makes the report JSON and back, sweep_read.c reads it from a file,
 * sweep_page.c writes the page, sweep_compare.c and sweep_compare_page.c compare two reports, sweep_chart.c
 * draws for both. */
#ifndef CONVOY_CLIENT_SWEEP_H
#define CONVOY_CLIENT_SWEEP_H

#include <cjson/cJSON.h>
#include <stdio.h>

#include "client/commands/bench.h"

#define CLIENT_SWEEP_FILE_BYTES ((size_t)8 << 20) /* of a report that is read */

/* One load and what was measured. */
struct client_sweep_point {
    double rate; /* requests a second that were due; 0: closed loop */
    long connections;
    struct client_bench_result result;
};

/* Texts are "" where they are unknown. */
struct client_sweep {
    char date[64], client[64], machine[256]; /* the client's version and the machine that it ran on */
    char url[256], server[128];
    char model[128], version[64], device[64], precision[32];
    size_t images; /* how many different ones */
    size_t images_per_request;
    double seconds, warm_up_s; /* of each point; the warm-up is not in the numbers */
    size_t planned;            /* points */
    char ended[600];           /* why fewer were measured, "" otherwise */
    struct client_sweep_point *points;
    size_t count;
};

/* Measures the loads of the arguments, and calls measured (may be NULL) after each. SIGINT and SIGTERM end
 * the sweep after the points that are complete; *signal is that signal, or 0. Call client_sweep_clear also
 * after an error. Returns 0 with at least one point or a signal, -ECONNREFUSED, -EREMOTEIO when no request of
 * the first warm-up was answered 200, or as client_bench_run. */
int client_sweep_run(const struct client_bench_arguments *arguments, const struct client_bench_set *set,
                     void (*measured)(const struct client_sweep *sweep), struct client_sweep *sweep,
                     int *signal, struct convoy_failure *failure);

void client_sweep_clear(struct client_sweep *sweep);

/* Returns how many requests of a point were not answered 200. */
size_t client_sweep_errors(const struct client_sweep_point *point);

/* Returns the answers 200 per second; 0 where no time passed. */
double client_sweep_throughput(const struct client_sweep_point *point);

/* Writes what a point is: "16 connections" or "200 requests/s due". Returns text. */
const char *client_sweep_name(const struct client_sweep_point *point, char *text, size_t bytes);

/* Writes what became of the requests without an answer 200: "3 answered 503, 1 not sent"; "" without one.
 * Returns text. */
const char *client_sweep_problems(const struct client_sweep_point *point, char *text, size_t bytes);

/* Returns the report as JSON, for cJSON_Delete; NULL when out of memory. */
cJSON *client_sweep_to_json(const struct client_sweep *sweep);

/* Reads what client_sweep_to_json gave; derived members (percentiles, rates) are not read. The document is
 * not trusted. Call client_sweep_clear also after an error. Returns 0, -EBADMSG with a message that names the
 * member, or -ENOMEM. */
int client_sweep_from_json(const cJSON *document, struct client_sweep *sweep, struct convoy_failure *failure);

/* Reads a report from a file: the page, or the JSON alone. Returns 0, or a negative errno with a message that
 * names the file. */
int client_sweep_read(const char *path, struct client_sweep *sweep, struct convoy_failure *failure);

/* Print a table on standard output: its head, then a line for the last point; and what is to be said at the
 * end. */
void client_sweep_print_point(const struct client_sweep *sweep);
void client_sweep_print_end(const struct client_sweep *sweep);

/* Writes the page. Texts may come from anywhere. Returns 0 or -ENOMEM; whether out took everything is the
 * caller's to check. context: a struct client_sweep. */
int client_sweep_page_write(FILE *out, const void *context);

/* A load that is in both reports, or in one of them alone. */
struct client_sweep_pair {
    const struct client_sweep_point *first, *second; /* one may be NULL */
};

/* Two reports; the second is judged by the first. */
struct client_sweep_comparison {
    const struct client_sweep *first, *second;
    const char *first_name, *second_name; /* of the files */
    struct client_sweep_pair pairs[2 * CLIENT_BENCH_POINTS];
    size_t count;
};

/* Finds the pairs, in the first's order; then what the second alone has. Members up to second_name are the
 * caller's. */
void client_sweep_match(struct client_sweep_comparison *comparison);

/* Differences of less than this share are called equal: two runs of the same server differ, too. */
#define CLIENT_SWEEP_EQUAL 0.05

enum client_sweep_verdict {
    CLIENT_SWEEP_UNKNOWN,
    CLIENT_SWEEP_SAME,
    CLIENT_SWEEP_BETTER,
    CLIENT_SWEEP_WORSE
};

/* Returns whether the load is in both reports, without errors: a server that refuses requests answers the
 * rest faster, so that others are not judged. */
bool client_sweep_is_judged(const struct client_sweep_pair *pair);

/* A percentile with fewer slower answers is chance. */
#define CLIENT_SWEEP_SLOWER 10

/* Judges the ratio second / first of a pair that is in both: of the throughput, which is better when it is
 * large (percent 0), or of a percentile of the latency. */
enum client_sweep_verdict client_sweep_judge(const struct client_sweep_pair *pair, double ratio,
                                             double percent);

/* The verdict as a word, "-" for UNKNOWN. */
const char *client_sweep_word(enum client_sweep_verdict verdict);

/* Writes sentences about what else differs between the reports, one a line, "" when nothing does: then
 * numbers do not compare the servers alone. Returns text. */
const char *client_sweep_differences(const struct client_sweep_comparison *comparison, char *text,
                                     size_t bytes);

/* Returns the comparison as JSON, for cJSON_Delete; NULL when out of memory. */
cJSON *client_sweep_compare_json(const struct client_sweep_comparison *comparison);

void client_sweep_compare_print(const struct client_sweep_comparison *comparison);

/* Writes the page of a comparison, as client_sweep_page_write. context: a struct client_sweep_comparison. */
int client_sweep_compare_page_write(FILE *out, const void *context);

/* The parts that a latency is made of, in the order of time. */
enum client_sweep_part {
    CLIENT_SWEEP_OUTSIDE, /* sent late, network, HTTP on both sides */
    CLIENT_SWEEP_DECODE,  /* with the wait for a decoder */
    CLIENT_SWEEP_QUEUE,
    CLIENT_SWEEP_COPY, /* to the device and back */
    CLIENT_SWEEP_COMPUTE,
    CLIENT_SWEEP_OTHER, /* what the server does not explain */
    CLIENT_SWEEP_PARTS
};

extern const char *const client_sweep_part_names[CLIENT_SWEEP_PARTS];

/* Computes the means of a point's parts in milliseconds; 0 without answers that tell. */
void client_sweep_parts(const struct client_sweep_point *point, double parts[CLIENT_SWEEP_PARTS]);

/* Latency against throughput: of one sweep all percentiles; of two (names: theirs) the 50th and 99th. */
void client_sweep_draw_latency(FILE *out, const struct client_sweep *const *sweeps, const char *const *names,
                               size_t count);

/* A row for each point: its parts. With `second` a row of it below each, paler; either may be NULL. */
void client_sweep_draw_parts(FILE *out, const struct client_sweep_pair *pairs, size_t count, bool two);

/* The histogram of a point's latency, and the outline of another's (NULL: none). id: unique in the page. The
 * axis holds low_ms to high_ms at least (0: neither). */
void client_sweep_draw_histogram(FILE *out, const char *id, const struct client_sweep_point *point,
                                 const struct client_sweep_point *other, const char *const *names,
                                 double low_ms, double high_ms);

/* Returns the point with the most answers 200 a second among those without errors, else among all. */
const struct client_sweep_point *client_sweep_fullest(const struct client_sweep *sweep);

/* Run --sweep and --compare. Return the exit status; a signal that ended a sweep ends the process, after the
 * report. */
int client_sweep_command(const struct client_bench_arguments *arguments, const struct client_bench_set *set);
int client_sweep_compare_command(const struct client_bench_arguments *arguments);

#endif
