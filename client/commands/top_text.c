/* What `convoy top` shows: rates, models, devices, and the latencies of each stage. What is most important
 * stands above and on the left, because small windows lose the rest. */
#include <math.h>
#include <string.h>

#include "client/commands/top.h"

/* A cell of numbers, right-aligned behind two spaces. */
#define CELL_BYTES 32

struct page {
    FILE *stream;
    const struct client_terminal *terminal;
    const struct client_top_view *view;
    int name_cells; /* for the names of models and devices */
};

static void colour(const struct page *page, enum client_colour which)
{
    fputs(client_colour(page->terminal, which), page->stream);
}

static void title(const struct page *page, const char *text)
{
    colour(page, CLIENT_BOLD);
    fputs(text, page->stream);
    colour(page, CLIENT_PLAIN);
}

/* Prints an untrusted name in `cells` cells; a longer one is truncated. */
static void print_name(const struct page *page, const char *name, int cells)
{
    char cut[128];
    snprintf(cut, sizeof cut, "%.*s", cells, name);
    client_print_safely(page->stream, cut);
    fprintf(page->stream, "%*s", cells - (int)strlen(cut), "");
}

static double rate_of(const struct page *page, double count)
{
    return page->view->seconds > 0 ? count / page->view->seconds : NAN;
}

/* A count per second, with one decimal. */
static const char *rate(const struct page *page, double count, char text[CELL_BYTES])
{
    double value = rate_of(page, count);
    if (isnan(value))
        return "-";
    snprintf(text, CELL_BYTES, "%.1f", value);
    return text;
}

/* Converts seconds of the histogram to milliseconds. */
static const char *quantile(const struct page *page, const struct client_histogram *histogram, double share,
                            char text[CELL_BYTES])
{
    bool beyond = false;
    char plain[CELL_BYTES - 1];
    double value =
        page->view->seconds > 0 ? client_histogram_quantile(histogram, share, &beyond) * 1000 : NAN;
    if (!beyond || isnan(value))
        return client_number_text(value, text, CELL_BYTES);
    snprintf(plain, sizeof plain, "%.0f", value);
    snprintf(text, CELL_BYTES, ">%s", plain);
    return text;
}

static const char *count_or_unknown(double value, char text[CELL_BYTES])
{
    if (isnan(value))
        return "-";
    snprintf(text, CELL_BYTES, "%.0f", value);
    return text;
}

static const char *mean(const struct page *page, const struct client_histogram *histogram, double scale,
                        char text[CELL_BYTES])
{
    return client_number_text(page->view->seconds > 0 ? client_histogram_mean(histogram) * scale : NAN, text,
                              CELL_BYTES);
}

/* No batch of that share was larger. */
static const char *batch_bound(const struct page *page, const struct client_histogram *sizes, double share,
                               char text[CELL_BYTES])
{
    return count_or_unknown(page->view->seconds > 0 ? client_histogram_bound(sizes, share) : NAN, text);
}

static const char *bytes(double value, char text[CELL_BYTES])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    for (; value >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++)
        value /= 1024;
    snprintf(text, CELL_BYTES, "%.*f %s", unit ? 1 : 0, value, units[unit]);
    return text;
}

static double sum_of(const struct client_named_list *list)
{
    double sum = 0;
    for (size_t i = 0; i < list->count; i++)
        sum += list->entries[i].value;
    return sum;
}

static void print_head(const struct page *page)
{
    const struct client_top_view *view = page->view;
    char clock[16] = "";
    struct tm local;
    if (localtime_r(&view->time.tv_sec, &local))
        strftime(clock, sizeof clock, "%H:%M:%S", &local);
    title(page, "convoyd ");
    client_print_safely(page->stream, view->between ? view->between->version : "");
    fprintf(page->stream, "%sat ", view->between && *view->between->version ? " " : "");
    client_print_safely(page->stream, view->url);
    fprintf(page->stream, "  %s", clock);
    if (view->restarted)
        fputs("  (the daemon was restarted)", page->stream);
    if (page->terminal->terminal)
        fprintf(page->stream, "%s  q quits%s", client_colour(page->terminal, CLIENT_DIM),
                client_colour(page->terminal, CLIENT_PLAIN));
    fputc('\n', page->stream);
}

static void print_totals(const struct page *page)
{
    const struct client_snapshot *snapshot = page->view->between;
    char text[CELL_BYTES];
    double requests, failed, versions = 0, ready = 0, up = 0;
    client_snapshot_requests(snapshot, &requests, &failed);
    for (size_t i = 0; i < snapshot->model_count; i++) {
        versions += (double)snapshot->models[i].versions.count;
        ready += sum_of(&snapshot->models[i].versions);
    }
    for (size_t i = 0; i < snapshot->device_count; i++)
        up += snapshot->devices[i].up;
    fprintf(page->stream, "requests %s/s", rate(page, requests, text));
    fprintf(page->stream, "  images %s/s", rate(page, client_snapshot_images(snapshot), text));
    fprintf(page->stream, "  %snot 200: %s/s%s",
            client_colour(page->terminal, failed > 0 ? CLIENT_RED : CLIENT_PLAIN), rate(page, failed, text),
            client_colour(page->terminal, CLIENT_PLAIN));
    fprintf(page->stream, "  slots %s", count_or_unknown(snapshot->slots, text));
    fprintf(page->stream, "  models %.0f/%.0f ready  workers %.0f/%zu up\n", ready, versions, up,
            snapshot->device_count);
    if (failed <= 0 || page->view->seconds <= 0)
        return;
    fputs("answers", page->stream);
    for (int status = 0; status < CLIENT_SNAPSHOT_STATUSES; status++)
        if (snapshot->statuses[status] > 0)
            fprintf(page->stream, "  %d: %s/s", status, rate(page, snapshot->statuses[status], text));
    fputc('\n', page->stream);
}

static void print_models(const struct page *page)
{
    const struct client_snapshot *snapshot = page->view->between;
    char cell[CELL_BYTES];
    fputc('\n', page->stream);
    colour(page, CLIENT_BOLD);
    fprintf(page->stream, "%-*s %7s %10s %9s %7s %8s %8s %8s %7s %7s %9s %9s", page->name_cells, "model",
            "ready", "requests/s", "images/s", "queue", "p50 ms", "p90 ms", "p99 ms", "batch", "b. p90",
            "not 200/s", "retried");
    colour(page, CLIENT_PLAIN);
    fputc('\n', page->stream);
    for (size_t i = 0; i < snapshot->model_count; i++) {
        const struct client_snapshot_model *model = &snapshot->models[i];
        const struct client_histogram *request = &model->stages[CLIENT_SNAPSHOT_REQUEST];
        double ready = sum_of(&model->versions);
        print_name(page, model->name, page->name_cells);
        snprintf(cell, sizeof cell, "%.0f of %zu", ready, model->versions.count);
        fputc(' ', page->stream);
        colour(page, ready < (double)model->versions.count ? CLIENT_RED : CLIENT_GREEN);
        fprintf(page->stream, "%7s", cell);
        colour(page, CLIENT_PLAIN);
        fprintf(page->stream, " %10s", rate(page, model->requests, cell));
        fprintf(page->stream, " %9s", rate(page, model->images, cell));
        fprintf(page->stream, " %7.0f", model->queue);
        fprintf(page->stream, " %8s", quantile(page, request, 0.5, cell));
        fprintf(page->stream, " %8s", quantile(page, request, 0.9, cell));
        fprintf(page->stream, " %8s", quantile(page, request, 0.99, cell));
        fprintf(page->stream, " %7s", mean(page, &model->sizes, 1, cell));
        fprintf(page->stream, " %7s", batch_bound(page, &model->sizes, 0.9, cell));
        fprintf(page->stream, " %9s", rate(page, model->failed, cell));
        fprintf(page->stream, " %9.0f\n", model->retried);
    }
    if (snapshot->model_count == 0)
        fputs("(no model)\n", page->stream);
}

/* NaN when there is none of that name. */
static double value_of(const struct client_named_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->entries[i].name, name) == 0)
            return list->entries[i].value;
    return NAN;
}

static void print_alarming(const struct page *page, bool alarming, const char *what, double value)
{
    if (isnan(value))
        return;
    colour(page, alarming ? CLIENT_RED : CLIENT_PLAIN);
    fprintf(page->stream, "  %s %.0f", what, value);
    colour(page, CLIENT_PLAIN);
}

/* A line of what the GPU's driver says of it; nothing where that is not known. */
static void print_health(const struct page *page, const struct client_snapshot_device *device)
{
    const struct client_named_list *health = &device->health;
    double temperature = value_of(health, "temperature_celsius"), power = value_of(health, "power_watts"),
           limit = value_of(health, "power_limit_watts"), used = value_of(&device->used_memory, "used"),
           total = value_of(&device->used_memory, "total"), ecc = value_of(&device->ecc, "volatile"),
           xids = value_of(health, "xid_errors");
    char one[CELL_BYTES], other[CELL_BYTES];
    if (device->utilization.count + device->used_memory.count + health->count == 0)
        return;
    fprintf(page->stream, "%*s GPU", page->name_cells, "");
    for (size_t i = 0; i < device->utilization.count; i++) {
        fputs("  ", page->stream);
        client_print_safely(page->stream, device->utilization.entries[i].name);
        fprintf(page->stream, " %.0f %%", device->utilization.entries[i].value * 100);
    }
    if (!isnan(used) && !isnan(total))
        fprintf(page->stream, "  %s of %s", bytes(used, one), bytes(total, other));
    if (!isnan(temperature))
        fprintf(page->stream, "  %.0f C", temperature);
    if (!isnan(power))
        fprintf(page->stream, "  %.0f W", power);
    if (!isnan(limit))
        fprintf(page->stream, " of %.0f W", limit);
    for (size_t i = 0; i < device->throttled.count; i++) {
        colour(page, CLIENT_RED);
        fputs(i == 0 ? "  throttled: " : ", ", page->stream);
        client_print_safely(page->stream, device->throttled.entries[i].name);
        colour(page, CLIENT_PLAIN);
    }
    print_alarming(page, ecc > 0, "ECC errors", ecc);
    print_alarming(page, xids > 0, "Xids", xids);
    if (xids > 0)
        fprintf(page->stream, " (last %.0f)", value_of(health, "last_xid"));
    fputc('\n', page->stream);
}

static void print_devices(const struct page *page)
{
    const struct client_snapshot *snapshot = page->view->between;
    char cell[CELL_BYTES];
    fputc('\n', page->stream);
    colour(page, CLIENT_BOLD);
    fprintf(page->stream, "%-*s %7s %10s  %s", page->name_cells, "device", "worker", "batches/s",
            "restarts, memory");
    colour(page, CLIENT_PLAIN);
    fputc('\n', page->stream);
    for (size_t i = 0; i < snapshot->device_count; i++) {
        const struct client_snapshot_device *device = &snapshot->devices[i];
        print_name(page, device->name, page->name_cells);
        fputc(' ', page->stream);
        colour(page, device->up ? CLIENT_GREEN : CLIENT_RED);
        fprintf(page->stream, "%7s", !device->known ? "-" : device->up ? "up" : "down");
        colour(page, CLIENT_PLAIN);
        fprintf(page->stream, " %10s  ", rate(page, device->batches, cell));
        fprintf(page->stream, "%.0f restarts", sum_of(&device->restarts));
        for (size_t r = 0; r < device->restarts.count; r++) {
            fprintf(page->stream, "%s", r ? ", " : " (");
            client_print_safely(page->stream, device->restarts.entries[r].name);
            fprintf(page->stream, " %.0f", device->restarts.entries[r].value);
        }
        fputs(device->restarts.count ? ")" : "", page->stream);
        for (size_t m = 0; m < device->memory.count; m++) {
            fputs(", ", page->stream);
            client_print_safely(page->stream, device->memory.entries[m].name);
            fprintf(page->stream, " %s", bytes(device->memory.entries[m].value, cell));
        }
        fputc('\n', page->stream);
        print_health(page, device);
    }
    if (snapshot->device_count == 0)
        fputs("(no device yet)\n", page->stream);
}

static void print_stages(const struct page *page, const struct client_snapshot_model *model)
{
    char cell[CELL_BYTES];
    fputc('\n', page->stream);
    colour(page, CLIENT_BOLD);
    print_name(page, model->name, page->name_cells);
    fprintf(page->stream, " %7s %10s %8s %8s %8s %8s", "", "times/s", "mean ms", "p50 ms", "p90 ms",
            "p99 ms");
    colour(page, CLIENT_PLAIN);
    fputc('\n', page->stream);
    for (int stage = 0; stage < CLIENT_SNAPSHOT_STAGES; stage++) {
        const struct client_histogram *times = &model->stages[stage];
        fprintf(page->stream, "  %-*s", page->name_cells + 6, client_snapshot_stage_names[stage]);
        fprintf(page->stream, " %10s", rate(page, client_histogram_total(times), cell));
        fprintf(page->stream, " %8s", mean(page, times, 1000, cell));
        fprintf(page->stream, " %8s", quantile(page, times, 0.5, cell));
        fprintf(page->stream, " %8s", quantile(page, times, 0.9, cell));
        fprintf(page->stream, " %8s\n", quantile(page, times, 0.99, cell));
    }
}

/* Width of the longest name or heading, at most a third of the window. */
static int name_cells(const struct client_snapshot *snapshot, int width)
{
    size_t longest = 8;
    for (size_t i = 0; i < snapshot->model_count; i++)
        longest = strlen(snapshot->models[i].name) > longest ? strlen(snapshot->models[i].name) : longest;
    for (size_t i = 0; i < snapshot->device_count; i++)
        longest = strlen(snapshot->devices[i].name) > longest ? strlen(snapshot->devices[i].name) : longest;
    int most = width / 3 < 8 ? 8 : width / 3 > 40 ? 40 : width / 3;
    return longest > (size_t)most ? most : (int)longest;
}

void client_top_print_text(FILE *stream, const struct client_terminal *terminal,
                           const struct client_top_view *view, int width)
{
    struct page page = {.stream = stream, .terminal = terminal, .view = view};
    print_head(&page);
    if (view->failure) {
        colour(&page, CLIENT_RED);
        fprintf(stream, "no answer for %.0f s, trying again: ", view->silent_s);
        client_print_safely(stream, view->failure);
        colour(&page, CLIENT_PLAIN);
        fputc('\n', stream);
        return;
    }
    page.name_cells = name_cells(view->between, width);
    print_totals(&page);
    print_models(&page);
    print_devices(&page);
    for (size_t i = 0; i < view->between->model_count; i++)
        print_stages(&page, &view->between->models[i]);
}
