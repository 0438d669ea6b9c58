/* The page of `convoy eval --report`. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "client/chart/markup.h"
#include "client/chart/matrix.h"
#include "client/chart/page.h"
#include "client/chart/plot.h"
#include "client/chart/rows.h"
#include "client/commands/eval.h"
#include "client/data/base64.h"
#include "client/data/picture_type.h"
#include "client/stats/interval.h"

#define ABOUT 96

struct class_share {
    size_t class, right, total;
};

static double percent(size_t right, size_t total)
{
    return total ? 100 * (double)right / (double)total : NAN;
}

static void write_fact(FILE *out, const char *name, const char *text)
{
    fputs("<tr>", out);
    client_page_element(out, "th scope=\"row\"", name);
    client_page_element(out, "td", *text ? text : "unknown");
    fputs("</tr>\n", out);
}

static void write_facts(FILE *out, const struct client_eval_page *page, size_t images)
{
    char number[32];
    fputs("<table id=\"facts\">\n", out);
    write_fact(out, "Model", page->result->model);
    write_fact(out, "Version", page->result->version);
    write_fact(out, "Server", page->server);
    write_fact(out, "Device", page->result->device);
    write_fact(out, "Data set", page->set);
    snprintf(number, sizeof number, "%zu", images);
    write_fact(out, "Images", number);
    write_fact(out, "Date", page->date);
    fputs("</table>\n", out);
}

static void write_accuracy(FILE *out, const struct client_eval_result *result, size_t right, size_t total)
{
    const struct client_interval interval = client_interval_wilson(right, total);
    client_page_element(out, "h2", "Accuracy");
    if (total == 0)
        client_page_element(out, "p id=\"accuracy\"", "No image was classified.");
    else
        client_page_format(out, "p id=\"accuracy\"",
                           "%.2f %%: %zu of %zu images are right. The 95 %% interval is %.2f to %.2f %%.",
                           percent(right, total), right, total, interval.low * 100, interval.high * 100);
    if (total)
        client_page_element(
            out, "p class=\"soft\"",
            "The interval (Wilson) says how far the accuracy on other images of the same kind "
            "may be from the one measured here.");
    if (result->failed)
        client_page_format(out, "p class=\"warn\"", "%zu images failed and are in no number, for example %s",
                           result->failed, result->failed_sample);
}

static int compare_shares(const void *a, const void *b)
{
    const struct class_share *one = a, *other = b;
    double difference = percent(one->right, one->total) - percent(other->right, other->total);
    if (difference != 0)
        return difference < 0 ? -1 : 1;
    /* The same share of more images says more. */
    if (one->total != other->total)
        return one->total > other->total ? -1 : 1;
    return one->class < other->class ? -1 : one->class > other->class;
}

static void draw_classes(FILE *out, const struct client_score *score, const struct class_share *shares,
                         size_t count, double all)
{
    const char *names[CLIENT_EVAL_PAGE_CLASSES], *about[CLIENT_EVAL_PAGE_CLASSES];
    double values[CLIENT_EVAL_PAGE_CLASSES], low[CLIENT_EVAL_PAGE_CLASSES], high[CLIENT_EVAL_PAGE_CLASSES];
    char text[CLIENT_EVAL_PAGE_CLASSES][ABOUT];
    for (size_t i = 0; i < count; i++) {
        const struct client_interval interval = client_interval_wilson(shares[i].right, shares[i].total);
        names[i] = score->labels[shares[i].class];
        values[i] = percent(shares[i].right, shares[i].total);
        low[i] = interval.low * 100;
        high[i] = interval.high * 100;
        snprintf(text[i], sizeof text[i], "%.2f %% (%.2f to %.2f): %zu of %zu", values[i], low[i], high[i],
                 shares[i].right, shares[i].total);
        about[i] = text[i];
    }
    struct client_ranges ranges = {
        .frame = {.id = "classes",
                  .title = "Accuracy of each class, with 95 % interval",
                  .description =
                      "A row for each class, the worst first. A dashed line is the accuracy of all.",
                  .x_name = "accuracy in %",
                  .width = 760},
        .names = names,
        .values = values,
        .low = low,
        .high = high,
        .about = about,
        .rows = count,
        .all = all};
    client_ranges_draw(out, &ranges);
    fputs("<details><summary>As a table</summary>\n<div class=\"wide\">\n<table "
          "id=\"class-table\">\n<thead><tr><th>class</th>"
          "<th class=\"number\">images</th><th class=\"number\">right</th><th class=\"number\">accuracy</th>"
          "<th class=\"number\">95 % interval</th></tr></thead>\n<tbody>\n",
          out);
    for (size_t i = 0; i < count; i++) {
        fputs("<tr>", out);
        client_page_element(out, "td", names[i]);
        client_page_format(out, "td class=\"number\"", "%zu", shares[i].total);
        client_page_format(out, "td class=\"number\"", "%zu", shares[i].right);
        client_page_format(out, "td class=\"number\"", "%.2f %%", values[i]);
        client_page_format(out, "td class=\"number\"", "%.2f to %.2f %%", low[i], high[i]);
        fputs("</tr>\n", out);
    }
    fputs("</tbody>\n</table>\n</div>\n</details>\n", out);
}

static int write_classes(FILE *out, const struct client_score *score, double all)
{
    struct class_share *shares = calloc(score->classes + 1, sizeof *shares);
    size_t count = 0;
    if (!shares)
        return -ENOMEM;
    for (size_t i = 0; i < score->classes; i++) {
        shares[count].class = i;
        client_score_sum(score, (long)i, &shares[count].right, &shares[count].total);
        count += shares[count].total > 0;
    }
    qsort(shares, count, sizeof *shares, compare_shares);
    client_page_element(out, "h2", "Classes");
    size_t shown = count < CLIENT_EVAL_PAGE_CLASSES ? count : CLIENT_EVAL_PAGE_CLASSES;
    if (shown < count)
        client_page_format(out, "p", "The %zu classes of the lowest accuracy, out of %zu that have images.",
                           shown, count);
    if (count < score->classes)
        client_page_format(out, "p", "%zu of the model's %zu classes have no image in the set.",
                           score->classes - count, score->classes);
    draw_classes(out, score, shares, shown, all);
    free(shares);
    return 0;
}

static void write_confusions(FILE *out, const struct client_score *score)
{
    struct client_confusion confusion = {0};
    client_page_format(out, "p", "The most frequent mistakes, at most %d.", CLIENT_EVAL_PAGE_CONFUSIONS);
    fputs("<div class=\"wide\">\n<table id=\"confusion-table\">\n<thead><tr><th>true class</th><th>taken "
          "for</th>"
          "<th class=\"number\">images</th><th class=\"number\">of the class</th></tr></thead>\n<tbody>\n",
          out);
    for (int i = 0; i < CLIENT_EVAL_PAGE_CONFUSIONS && client_score_next_confusion(score, &confusion); i++) {
        size_t right, total;
        client_score_sum(score, (long)confusion.truth, &right, &total);
        fputs("<tr>", out);
        client_page_element(out, "td", score->labels[confusion.truth]);
        client_page_element(out, "td", score->labels[confusion.answer]);
        client_page_format(out, "td class=\"number\"", "%zu", confusion.count);
        client_page_format(out, "td class=\"number\"", "%.1f %%", percent(confusion.count, total));
        fputs("</tr>\n", out);
    }
    fputs("</tbody>\n</table>\n</div>\n", out);
}

static void write_confusion(FILE *out, const struct client_score *score)
{
    struct client_confusion first = {0};
    client_page_element(out, "h2", "Confusion");
    if (score->classes <= CLIENT_MATRIX_CLASSES) {
        struct client_matrix matrix = {
            .frame = {.id = "confusion",
                      .title = "Images by true class and answer",
                      .description =
                          "A row for each true class, a column for each answer. The darker a cell, "
                          "the larger its share of the row."},
            .labels = score->labels,
            .counts = score->confusion,
            .classes = score->classes};
        fputs("<div class=\"wide\">\n", out);
        client_matrix_draw(out, &matrix);
        fputs("</div>\n", out);
    } else if (client_score_next_confusion(score, &first)) {
        write_confusions(out, score);
    } else {
        client_page_element(out, "p", "There are no mistakes.");
    }
}

static void write_bins(FILE *out, const struct client_calibration *calibration)
{
    fputs("<details><summary>As a table</summary>\n<div class=\"wide\">\n<table "
          "id=\"bin-table\">\n<thead><tr><th>probability</th>"
          "<th class=\"number\">images</th><th class=\"number\">mean probability</th>"
          "<th class=\"number\">right</th></tr></thead>\n<tbody>\n",
          out);
    for (size_t i = 0; i < CLIENT_CALIBRATION_BINS; i++) {
        const struct client_calibration_bin *bin = &calibration->bins[i];
        if (bin->count == 0)
            continue;
        fputs("<tr>", out);
        client_page_format(out, "td", "%zu to %zu %%", i * 100 / CLIENT_CALIBRATION_BINS,
                           (i + 1) * 100 / CLIENT_CALIBRATION_BINS);
        client_page_format(out, "td class=\"number\"", "%zu", bin->count);
        client_page_format(out, "td class=\"number\"", "%.2f %%", bin->sum / (double)bin->count * 100);
        client_page_format(out, "td class=\"number\"", "%.2f %%", percent(bin->right, bin->count));
        fputs("</tr>\n", out);
    }
    fputs("</tbody>\n</table>\n</div>\n</details>\n", out);
}

static void write_calibration(FILE *out, const struct client_calibration *calibration)
{
    double x[CLIENT_CALIBRATION_BINS], y[CLIENT_CALIBRATION_BINS];
    double low[CLIENT_CALIBRATION_BINS], high[CLIENT_CALIBRATION_BINS];
    char text[CLIENT_CALIBRATION_BINS][ABOUT];
    const char *about[CLIENT_CALIBRATION_BINS];
    size_t count = 0;
    for (size_t i = 0; i < CLIENT_CALIBRATION_BINS; i++) {
        const struct client_calibration_bin *bin = &calibration->bins[i];
        if (bin->count == 0)
            continue;
        const struct client_interval interval = client_interval_wilson(bin->right, bin->count);
        x[count] = bin->sum / (double)bin->count * 100;
        y[count] = percent(bin->right, bin->count);
        low[count] = interval.low * 100;
        high[count] = interval.high * 100;
        snprintf(text[count], sizeof text[count], "%zu images: mean probability %.2f %%, right %.2f %%",
                 bin->count, x[count], y[count]);
        about[count] = text[count];
        count++;
    }
    client_page_element(out, "h2", "Calibration");
    client_page_element(out, "p",
                        "Is the model right as often as its probabilities say? Answers are grouped by "
                        "the probability of the first class; a model that knows itself lies on the "
                        "dashed line, one that is too sure of itself below.");
    if (count)
        client_page_format(out, "p id=\"calibration-error\"",
                           "The expected calibration error, the mean distance from the line, is %.2f %%.",
                           client_calibration_error(calibration) * 100);
    if (calibration->without)
        client_page_format(out, "p class=\"warn\"", "%zu answers have no probability from 0 to 1.",
                           calibration->without);
    const struct client_series series = {
        .x = x, .y = y, .low = low, .high = high, .about = about, .count = count};
    struct client_plot plot = {
        .frame = {.id = "reliability",
                  .title = "Reliability, with 95 % intervals",
                  .description = "A point for each tenth of the probability: the share of right answers.",
                  .x_name = "probability in %",
                  .y_name = "right in %",
                  .width = 520,
                  .height = 440},
        .series = &series,
        .count = 1,
        .shares = true};
    client_plot_draw(out, &plot);
    if (count)
        write_bins(out, calibration);
}

static int write_picture(FILE *out, const struct client_mistake *mistake)
{
    const char *type = mistake->picture ? client_picture_type(mistake->picture, mistake->size) : NULL;
    if (!type) {
        client_page_element(out, "div class=\"gone\"",
                            mistake->picture ? "no picture that a browser shows"
                                             : "the picture is too large");
        return 0;
    }
    char *text = client_base64_encode(mistake->picture, mistake->size);
    if (!text)
        return -ENOMEM;
    fprintf(out, "<img src=\"data:%s;base64,%s\" alt=\"\" />\n", type, text);
    free(text);
    return 0;
}

static int write_mistakes(FILE *out, const struct client_eval_result *result, size_t wrong)
{
    const struct client_mistakes *mistakes = &result->mistakes;
    const struct client_score *score = &result->score;
    client_page_element(out, "h2", "The surest mistakes");
    if (mistakes->count == 0)
        client_page_element(out, "p", "There are no mistakes.");
    else if (mistakes->count < wrong)
        client_page_format(out, "p", "The %zu mistakes of the highest probability, out of %zu.",
                           mistakes->count, wrong);
    fputs("<div class=\"pair\" id=\"mistakes\">\n", out);
    for (size_t i = 0; i < mistakes->count; i++) {
        const struct client_mistake *mistake = &mistakes->items[i];
        fputs("<figure>\n", out);
        if (write_picture(out, mistake) != 0)
            return -ENOMEM;
        fputs("<figcaption>", out);
        client_page_element(out, "strong class=\"true\"", score->labels[mistake->truth]);
        fputs("taken for\n", out);
        client_page_element(out, "strong class=\"given\"", score->labels[mistake->answer]);
        if (isfinite(mistake->probability))
            client_page_format(out, "div class=\"probability\"", "%.2f %%", mistake->probability * 100);
        client_page_element(out, "div class=\"soft\"", mistake->name);
        fputs("</figcaption>\n</figure>\n", out);
    }
    fputs("</div>\n", out);
    return 0;
}

int client_eval_page_write(FILE *out, const struct client_eval_page *page)
{
    const struct client_eval_result *result = page->result;
    char title[256];
    size_t right, total;
    client_score_sum(&result->score, -1, &right, &total);
    snprintf(title, sizeof title, "Accuracy of %s version %s", result->model, result->version);
    client_page_open(out, title);
    write_facts(out, page, total);
    write_accuracy(out, result, right, total);
    int status = write_classes(out, &result->score, percent(right, total));
    write_confusion(out, &result->score);
    write_calibration(out, &result->calibration);
    if (status == 0)
        status = write_mistakes(out, result, total - right);
    char *json = client_eval_json(result);
    int ended = client_page_end(out, "result", json);
    cJSON_free(json);
    return ended != 0 ? ended : status;
}
