/* What `convoy stats` shows: two tables, whose columns are as wide as what stands in them. A line has no
 * empty cell, so that awk and sort can deal with them. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "client/commands/stats.h"

/* Bytes of a number or time; counts of 2^64 give rates of 48 digits. */
#define CELL_BYTES 64

/* A line of either table; batch is NULL in the table of versions. */
struct row {
    const struct client_version_stats *version;
    const struct client_batch_stats *batch;
};

struct column {
    const char *heading;
    bool left; /* aligned to the left */
    /* Returns the cell's text: `cell` after filling it, or a string that outlives the row. */
    const char *(*text)(const struct row *row, char cell[CELL_BYTES]);
};

static const char *count(double value, char cell[CELL_BYTES])
{
    snprintf(cell, CELL_BYTES, "%.0f", value);
    return cell;
}

static const char *number(double value, char cell[CELL_BYTES])
{
    return client_number_text(value, cell, CELL_BYTES);
}

static const char *mean_us(const struct client_duration *duration, char cell[CELL_BYTES])
{
    return number(client_duration_mean_us(duration), cell);
}

static const char *model(const struct row *row, char cell[CELL_BYTES])
{
    (void)cell;
    return row->version->name;
}

static const char *version(const struct row *row, char cell[CELL_BYTES])
{
    (void)cell;
    return row->version->version;
}

static const char *success(const struct row *row, char cell[CELL_BYTES])
{
    return count(row->version->success.count, cell);
}

static const char *fail(const struct row *row, char cell[CELL_BYTES])
{
    return count(row->version->fail.count, cell);
}

static const char *images(const struct row *row, char cell[CELL_BYTES])
{
    return count(row->version->images, cell);
}

static const char *batches(const struct row *row, char cell[CELL_BYTES])
{
    return count(row->version->batches, cell);
}

static const char *batch_size(const struct row *row, char cell[CELL_BYTES])
{
    return number(client_version_batch_size(row->version), cell);
}

static const char *request(const struct row *row, char cell[CELL_BYTES])
{
    return number(client_version_request_us(row->version), cell);
}

static const char *queue(const struct row *row, char cell[CELL_BYTES])
{
    return mean_us(&row->version->queue, cell);
}

static const char *input(const struct row *row, char cell[CELL_BYTES])
{
    return mean_us(row->batch ? &row->batch->input : &row->version->input, cell);
}

static const char *compute(const struct row *row, char cell[CELL_BYTES])
{
    return mean_us(row->batch ? &row->batch->compute : &row->version->compute, cell);
}

static const char *output(const struct row *row, char cell[CELL_BYTES])
{
    return mean_us(row->batch ? &row->batch->output : &row->version->output, cell);
}

/* ISO 8601 with T, so that the time is one word. */
static const char *last_inference(const struct row *row, char cell[CELL_BYTES])
{
    struct tm local;
    time_t seconds = (time_t)(row->version->last_inference_ms / 1000);
    if (row->version->last_inference_ms <= 0)
        return "never";
    if (!localtime_r(&seconds, &local) || strftime(cell, CELL_BYTES, "%Y-%m-%dT%H:%M:%S", &local) == 0)
        return "-";
    return cell;
}

static const char *size(const struct row *row, char cell[CELL_BYTES])
{
    return count(row->batch->size, cell);
}

static const char *size_batches(const struct row *row, char cell[CELL_BYTES])
{
    return count(row->batch->compute.count, cell);
}

static const char *size_rate(const struct row *row, char cell[CELL_BYTES])
{
    return number(client_batch_rate(row->batch), cell);
}

static const struct column version_columns[] = {
    {"model", true, model},
    {"version", true, version},
    {"success", false, success},
    {"fail", false, fail},
    {"images", false, images},
    {"batches", false, batches},
    {"batch", false, batch_size},
    {"request us", false, request},
    {"queue us", false, queue},
    {"input us", false, input},
    {"compute us", false, compute},
    {"output us", false, output},
    {"last inference", true, last_inference},
};

static const struct column size_columns[] = {
    {"model", true, model},           {"version", true, version},     {"batch", false, size},
    {"batches", false, size_batches}, {"input us", false, input},     {"compute us", false, compute},
    {"output us", false, output},     {"images/s", false, size_rate},
};

#define COLUMNS_MAX (sizeof version_columns / sizeof *version_columns)

struct table {
    FILE *stream;
    const struct client_terminal *terminal;
    const struct client_server_stats *stats;
    const struct column *columns;
    size_t column_count;
    bool sizes; /* a row for each batch size, not for each version */
    int widths[COLUMNS_MAX];
};

static void measure(struct table *table, const struct row *row)
{
    char cell[CELL_BYTES];
    for (size_t i = 0; i < table->column_count; i++) {
        int width = (int)strlen(row ? table->columns[i].text(row, cell) : table->columns[i].heading);
        table->widths[i] = width > table->widths[i] ? width : table->widths[i];
    }
}

/* row NULL: the headings. */
static void print_row(struct table *table, const struct row *row)
{
    char cell[CELL_BYTES];
    for (size_t i = 0; i < table->column_count; i++) {
        const struct column *column = &table->columns[i];
        const char *text = row ? column->text(row, cell) : column->heading;
        int gap = table->widths[i] - (int)strlen(text);
        fprintf(table->stream, "%s%*s", i ? "  " : "", column->left ? 0 : gap, "");
        client_print_safely(table->stream, text);
        if (column->left && i + 1 < table->column_count)
            fprintf(table->stream, "%*s", gap, "");
    }
}

/* Calls `what` for each row. */
static void each_row(struct table *table, void (*what)(struct table *table, const struct row *row))
{
    for (size_t v = 0; v < table->stats->count; v++) {
        struct row row = {.version = &table->stats->versions[v]};
        if (!table->sizes)
            what(table, &row);
        for (size_t s = 0; table->sizes && s < row.version->size_count; s++) {
            row.batch = &row.version->sizes[s];
            what(table, &row);
        }
    }
}

static void print_line(struct table *table, const struct row *row)
{
    print_row(table, row);
    fputc('\n', table->stream);
}

static void print_table(struct table *table)
{
    measure(table, NULL);
    each_row(table, measure);
    fputs(client_colour(table->terminal, CLIENT_BOLD), table->stream);
    print_row(table, NULL);
    fputs(client_colour(table->terminal, CLIENT_PLAIN), table->stream);
    fputc('\n', table->stream);
    each_row(table, print_line);
}

void client_stats_print_text(FILE *stream, const struct client_terminal *terminal,
                             const struct client_server_stats *stats, bool with_batches)
{
    struct table versions = {.stream = stream,
                             .terminal = terminal,
                             .stats = stats,
                             .columns = version_columns,
                             .column_count = sizeof version_columns / sizeof *version_columns};
    struct table sizes = {.stream = stream,
                          .terminal = terminal,
                          .stats = stats,
                          .columns = size_columns,
                          .column_count = sizeof size_columns / sizeof *size_columns,
                          .sizes = true};
    if (stats->count == 0) {
        fputs("No model is READY, and there are no statistics of others.\n", stream);
        return;
    }
    print_table(&versions);
    if (!with_batches)
        return;
    fputc('\n', stream);
    print_table(&sizes);
}
