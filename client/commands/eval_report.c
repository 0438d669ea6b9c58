/* The reports of `convoy eval`. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "client/commands/eval.h"
#include "client/commands/layer_table.h"
#include "client/stats/interval.h"
#include "client/term/terminal.h"

/* A larger matrix does not fit a terminal; the most frequent errors are listed instead. */
#define MATRIX_CLASSES 20
#define MISTAKES       20
#define LABEL_CELLS    16
#define BAR_CELLS      20

static double share_of(size_t right, size_t total)
{
    return total ? (double)right / (double)total : 0;
}

/* Prints the label in exactly width cells, truncated or padded. */
static void print_label(const char *label, int width)
{
    char cut[64];
    snprintf(cut, sizeof cut, "%.*s", width, label);
    client_print_safely(stdout, cut);
    printf("%*s", width - (int)strlen(cut), "");
}

static int digits_of(size_t number)
{
    int digits = 1;
    for (; number >= 10; number /= 10)
        digits++;
    return digits;
}

static void print_matrix(const struct client_score *score)
{
    size_t largest = score->classes;
    for (size_t cell = 0; cell < score->classes * score->classes; cell++)
        largest = score->confusion[cell] > largest ? score->confusion[cell] : largest;
    int width = digits_of(largest) + 1;
    puts("\nconfusion matrix (rows: true class, columns: answer)");
    printf("%*s", LABEL_CELLS + 5, "");
    for (size_t column = 0; column < score->classes; column++)
        printf(" %*zu", width, column);
    putchar('\n');
    for (size_t row = 0; row < score->classes; row++) {
        printf("%4zu ", row);
        print_label(score->labels[row], LABEL_CELLS);
        for (size_t column = 0; column < score->classes; column++)
            printf(" %*zu", width, score->confusion[row * score->classes + column]);
        putchar('\n');
    }
}

static void print_mistakes(const struct client_score *score)
{
    struct client_confusion confusion = {0};
    puts("\nthe most frequent mistakes");
    for (int listed = 0; listed < MISTAKES && client_score_next_confusion(score, &confusion); listed++) {
        printf("%6zu  ", confusion.count);
        print_label(score->labels[confusion.truth], LABEL_CELLS);
        fputs(" taken for ", stdout);
        client_print_safely(stdout, score->labels[confusion.answer]);
        putchar('\n');
    }
}

static void print_stages(const struct client_eval_result *result)
{
    double requests = (double)result->requests;
    const struct convoy_timing *sum = &result->timing;
    printf("\nmean time of a request at the server, in us (decode: all its images)\n  decode %.0f, wait "
           "%.0f, queue %.0f, "
           "input %.0f, compute %.0f, output %.0f, total %.0f\n",
           sum->decode_us / requests, sum->wait_us / requests, sum->queue_us / requests,
           sum->input_us / requests, sum->compute_us / requests, sum->output_us / requests,
           sum->total_us / requests);
}

static void print_layer_times(const struct client_eval_result *result, const struct client_terminal *terminal)
{
    if (result->layers.images) {
        printf("\nmean time of each layer (%zu image%s, each alone in its batch)\n", result->layers.images,
               result->layers.images == 1 ? "" : "s");
        client_layer_table_print(terminal, result->layers.layers, result->layers.count);
    }
    if (result->layers_problem[0]) {
        fputs("the layers were not all timed: ", stdout);
        client_print_safely(stdout, result->layers_problem);
        putchar('\n');
    }
}

void client_eval_print_text(const struct client_eval_result *result)
{
    struct client_terminal terminal = client_terminal_open(stdout);
    const struct client_score *score = &result->score;
    size_t right, total;
    client_score_sum(score, -1, &right, &total);
    client_print_safely(stdout, result->model);
    fputs(" version ", stdout);
    client_print_safely(stdout, result->version);
    fputs(" on ", stdout);
    client_print_safely(stdout, result->device);
    printf(": %zu images in %.2f s, %.0f images/s\n", total, result->elapsed_s,
           (double)total / result->elapsed_s);
    printf("\n%saccuracy %.2f %% +- %.2f%s (%zu of %zu)\n", client_colour(&terminal, CLIENT_BOLD),
           share_of(right, total) * 100, client_score_error(right, total) * 100,
           client_colour(&terminal, CLIENT_PLAIN), right, total);
    for (size_t i = 0; i < score->classes; i++) {
        client_score_sum(score, (long)i, &right, &total);
        if (total == 0)
            continue;
        fputs("  ", stdout);
        print_label(score->labels[i], LABEL_CELLS);
        printf(" %6.2f %% +- %5.2f  (%zu of %zu)", share_of(right, total) * 100,
               client_score_error(right, total) * 100, right, total);
        client_print_bar(stdout, &terminal, share_of(right, total), BAR_CELLS);
        putchar('\n');
    }
    if (score->classes <= MATRIX_CLASSES)
        print_matrix(score);
    else
        print_mistakes(score);
    print_stages(result);
    print_layer_times(result, &terminal);
    if (result->waits)
        printf("the server was busy %zu times; those requests were sent again\n", result->waits);
    if (result->failed) {
        printf("%zu images failed and are in no number above, for example ", result->failed);
        client_print_safely(stdout, result->failed_sample);
        putchar('\n');
    }
}

static cJSON *share_to_json(size_t right, size_t total)
{
    cJSON *object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, "images", (double)total);
    cJSON_AddNumberToObject(object, "right", (double)right);
    cJSON_AddNumberToObject(object, "accuracy", total ? share_of(right, total) : client_score_error(0, 0));
    cJSON_AddNumberToObject(object, "standard_error", client_score_error(right, total));
    const struct client_interval interval = client_interval_wilson(right, total);
    cJSON_AddItemToObject(object, "interval",
                          cJSON_CreateDoubleArray((const double[]){interval.low, interval.high}, 2));
    return object;
}

static void add_stages(cJSON *document, const struct client_eval_result *result)
{
    double requests = (double)result->requests;
    cJSON *stages = cJSON_AddObjectToObject(document, "mean_request_us");
    cJSON_AddNumberToObject(stages, "decode", result->timing.decode_us / requests);
    cJSON_AddNumberToObject(stages, "wait", result->timing.wait_us / requests);
    cJSON_AddNumberToObject(stages, "queue", result->timing.queue_us / requests);
    cJSON_AddNumberToObject(stages, "input", result->timing.input_us / requests);
    cJSON_AddNumberToObject(stages, "compute", result->timing.compute_us / requests);
    cJSON_AddNumberToObject(stages, "output", result->timing.output_us / requests);
    cJSON_AddNumberToObject(stages, "total", result->timing.total_us / requests);
}

static void add_calibration(cJSON *document, const struct client_calibration *calibration)
{
    cJSON *object = cJSON_AddObjectToObject(document, "calibration");
    cJSON_AddNumberToObject(object, "expected_error", client_calibration_error(calibration));
    cJSON_AddNumberToObject(object, "without_probability", (double)calibration->without);
    cJSON *bins = cJSON_AddArrayToObject(object, "bins");
    for (size_t i = 0; i < CLIENT_CALIBRATION_BINS; i++) {
        const struct client_calibration_bin *bin = &calibration->bins[i];
        cJSON *item = cJSON_CreateObject();
        cJSON_AddNumberToObject(item, "images", (double)bin->count);
        cJSON_AddNumberToObject(item, "right", (double)bin->right);
        cJSON_AddNumberToObject(item, "mean_probability", bin->count ? bin->sum / (double)bin->count : NAN);
        cJSON_AddItemToArray(bins, item);
    }
}

static void add_layers(cJSON *document, const struct client_eval_result *result)
{
    cJSON_AddNumberToObject(document, "profiled_images", (double)result->layers.images);
    if (result->layers_problem[0])
        cJSON_AddStringToObject(document, "layers_problem", result->layers_problem);
    cJSON *layers = cJSON_AddArrayToObject(document, "layers");
    for (size_t i = 0; i < result->layers.count; i++) {
        cJSON *layer = cJSON_CreateObject();
        cJSON_AddStringToObject(layer, "name", result->layers.layers[i].name);
        cJSON_AddStringToObject(layer, "kernel", result->layers.layers[i].kernel);
        cJSON_AddNumberToObject(layer, "mean_us", result->layers.layers[i].us);
        cJSON_AddItemToArray(layers, layer);
    }
}

char *client_eval_json(const struct client_eval_result *result)
{
    const struct client_score *score = &result->score;
    size_t right, total;
    cJSON *document = cJSON_CreateObject();
    cJSON_AddStringToObject(document, "model", result->model);
    cJSON_AddStringToObject(document, "version", result->version);
    cJSON_AddStringToObject(document, "device", result->device);
    client_score_sum(score, -1, &right, &total);
    cJSON_AddItemToObject(document, "overall", share_to_json(right, total));
    cJSON *classes = cJSON_AddArrayToObject(document, "classes");
    cJSON *matrix = cJSON_AddArrayToObject(document, "confusion");
    for (size_t i = 0; i < score->classes; i++) {
        client_score_sum(score, (long)i, &right, &total);
        cJSON *class = share_to_json(right, total);
        cJSON_AddStringToObject(class, "label", score->labels[i]);
        cJSON_AddItemToArray(classes, class);
        cJSON *row = cJSON_CreateArray();
        for (size_t column = 0; column < score->classes; column++)
            cJSON_AddItemToArray(row,
                                 cJSON_CreateNumber((double)score->confusion[i * score->classes + column]));
        cJSON_AddItemToArray(matrix, row);
    }
    cJSON_AddNumberToObject(document, "failed", (double)result->failed);
    if (result->failed)
        cJSON_AddStringToObject(document, "failed_example", result->failed_sample);
    cJSON_AddNumberToObject(document, "requests", (double)result->requests);
    cJSON_AddNumberToObject(document, "sent_again", (double)result->waits);
    cJSON_AddNumberToObject(document, "seconds", result->elapsed_s);
    add_calibration(document, &result->calibration);
    add_stages(document, result);
    add_layers(document, result);
    char *text = cJSON_PrintUnformatted(document);
    cJSON_Delete(document);
    return text;
}

void client_eval_print_json(const struct client_eval_result *result)
{
    char *text = client_eval_json(result);
    if (text)
        puts(text);
    cJSON_free(text);
}

/* Prints a quoted field, as in RFC 4180. */
static void print_quoted(const char *prefix, const char *text)
{
    printf("\"%s", prefix);
    for (; *text; text++) {
        if (*text == '"')
            putchar('"');
        putchar(*text);
    }
    putchar('"');
}

static void print_comma_quoted(const char *prefix, const char *text)
{
    putchar(',');
    print_quoted(prefix, text);
}

static void print_layers_csv(const struct client_layer_means *means)
{
    puts("\nlayer,kernel,mean_us,images");
    for (size_t i = 0; i < means->count; i++) {
        print_quoted("", means->layers[i].name);
        print_comma_quoted("", means->layers[i].kernel);
        printf(",%.3f,%zu\n", means->layers[i].us, means->images);
    }
}

void client_eval_print_csv(const struct client_eval_result *result)
{
    const struct client_score *score = &result->score;
    fputs("index,class,images,right,accuracy,standard_error", stdout);
    for (size_t i = 0; i < score->classes; i++)
        print_comma_quoted("as ", score->labels[i]);
    putchar('\n');
    for (size_t i = 0; i < score->classes; i++) {
        size_t right, total;
        client_score_sum(score, (long)i, &right, &total);
        printf("%zu", i);
        print_comma_quoted("", score->labels[i]);
        printf(",%zu,%zu,", total, right);
        if (total)
            printf("%.6f,%.6f", share_of(right, total), client_score_error(right, total));
        else
            putchar(',');
        for (size_t column = 0; column < score->classes; column++)
            printf(",%zu", score->confusion[i * score->classes + column]);
        putchar('\n');
    }
    if (result->layers.images)
        print_layers_csv(&result->layers);
}
