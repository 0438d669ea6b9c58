/* `convoy classify FILE...`: the files travel in one request, in order. */
#include "client/commands/classify.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/commands/layer_table.h"
#include "client/data/output_file.h"
#include "client/lib/failure.h"
#include "client/lib/file.h"
#include "client/term/terminal.h"

#define BAR_CELLS 24

static const char help[] =
    "Usage: convoy classify [OPTION]... FILE...\n"
    "Asks a convoyd what the images show. A FILE is a JPEG, PNG, WebP, BMP or GIF; - is standard input.\n"
    "Several files travel in one request, and one that is invalid does not hold up the others.\n"
    "\n"
    "  --top N          how many classes for each image, 1 to 1000 (default 5)\n"
    "  --threshold P    leave out classes of a lower probability, 0 to 1; without --top name all others\n"
    "                   (default: the model's)\n"
    "  --model NAME     which model (default: the server's); `convoy models` lists them\n"
    "  --version V      which version of it (default: the highest)\n"
    "  --profile        time every layer of the network too\n"
    "  --explain PNG    write where in the image the network found its best class, as a grey picture; of "
    "one\n"
    "                   image, and of networks that have a class activation map\n"
    "  --json           print one JSON document\n"
    "  --url URL        the server (default: $CONVOY_URL, else http://127.0.0.1:8080)\n" CLIENT_TLS_HELP "\n"
    "Exit status: 0 every image was classified, 1 some file or image failed, 2 wrong command line,\n"
    "3 no server, 4 the server refused.\n"
    "\n"
    "  convoy classify models/samples/ship.jpg\n"
    "  convoy classify --top 1 holiday/*.jpg\n"
    "  convoy classify --explain where.png models/samples/ship.jpg\n"
    "  curl -s http://example.org/cat.jpg | convoy classify --json -\n";

static int take(int letter, const char *value, void *context, struct convoy_failure *failure)
{
    struct client_classify_arguments *arguments = context;
    if (letter == 't')
        return client_read_whole("top", value, 1, 1000, &arguments->top, failure);
    if (letter == 'T') {
        int status = client_read_decimal("threshold", value, 0, 1, &arguments->threshold, failure);
        if (arguments->threshold == 0)
            arguments->threshold = -1; /* none is left out, whatever the model's is */
        return status;
    }
    if (letter == 'e')
        arguments->explain = value;
    else
        arguments->profile = true;
    return 0;
}

int client_classify_arguments(int argc, char **argv, struct client_classify_arguments *arguments,
                              struct convoy_failure *failure)
{
    static const struct option options[] = {CLIENT_COMMON_OPTIONS,
                                            CLIENT_MODEL_OPTIONS,
                                            {"top", required_argument, NULL, 't'},
                                            {"threshold", required_argument, NULL, 'T'},
                                            {"profile", no_argument, NULL, 'p'},
                                            {"explain", required_argument, NULL, 'e'},
                                            {0}};
    memset(arguments, 0, sizeof *arguments);
    int first = client_arguments(argc, argv, options, &arguments->common, take, arguments, failure);
    arguments->help = first == 0;
    if (first <= 0)
        return first;
    if (first == argc)
        return client_fail_with(failure, -EINVAL, "name a file to classify, or - for standard input");
    arguments->files = argv + first;
    arguments->file_count = (size_t)(argc - first);
    if (arguments->explain && arguments->file_count > 1)
        return client_fail_with(failure, -EINVAL, "--explain is of one file, not of %zu",
                                arguments->file_count);
    if (arguments->explain && arguments->profile)
        return client_fail_with(failure, -EINVAL, "--explain and --profile exclude each other: ask twice");
    return 0;
}

/* A file of the command line and its result. */
struct file {
    const char *path;
    void *bytes;
    size_t size;
    struct convoy_failure failure;      /* message "" when there is none */
    const struct convoy_result *result; /* NULL when there is none */
};

static const char *error_of(const struct file *file)
{
    if (file->failure.message[0])
        return file->failure.message;
    return file->result && file->result->error ? file->result->error : NULL;
}

static int width_of(const struct convoy_result *result)
{
    size_t width = 0;
    for (size_t i = 0; i < result->prediction_count; i++)
        width = strlen(result->predictions[i].label) > width ? strlen(result->predictions[i].label) : width;
    return width > 40 ? 40 : (int)width;
}

static void print_file(const struct client_terminal *terminal, const struct file *file)
{
    const char *error = error_of(file);
    fputs(client_colour(terminal, CLIENT_BOLD), stdout);
    client_print_safely(stdout, file->path);
    fputs(client_colour(terminal, CLIENT_PLAIN), stdout);
    if (error) {
        printf(": %sfailed%s: ", client_colour(terminal, CLIENT_RED), client_colour(terminal, CLIENT_PLAIN));
        client_print_safely(stdout, error);
        putchar('\n');
        return;
    }
    putchar('\n');
    int width = width_of(file->result);
    if (file->result->prediction_count == 0)
        puts("  no class reaches the threshold");
    for (size_t i = 0; i < file->result->prediction_count; i++) {
        const struct convoy_prediction *each = &file->result->predictions[i];
        fputs("  ", stdout);
        client_print_safely(stdout, each->label);
        printf("%*s  %7.3f %%", (int)strlen(each->label) < width ? width - (int)strlen(each->label) : 0, "",
               each->probability * 100);
        client_print_bar(stdout, terminal, each->probability, BAR_CELLS);
        putchar('\n');
    }
}

/* explained: the file that the answer's map went to. */
static void print_text(const struct file *files, size_t count, const struct convoy_answer *answer,
                       const char *explained)
{
    struct client_terminal terminal = client_terminal_open(stdout);
    for (size_t i = 0; i < count; i++)
        print_file(&terminal, &files[i]);
    if (!answer)
        return;
    if (answer->map) {
        fputs("  where: ", stdout);
        client_print_safely(stdout, answer->map->label);
        fputs(" in ", stdout);
        client_print_safely(stdout, explained);
        putchar('\n');
    }
    if (answer->layer_count) {
        putchar('\n');
        client_layer_table_print(&terminal, answer->layers, answer->layer_count);
    }
    const struct convoy_timing *timing = &answer->timing;
    fputs(client_colour(&terminal, CLIENT_DIM), stdout);
    client_print_safely(stdout, answer->model);
    fputs(" version ", stdout);
    client_print_safely(stdout, answer->version);
    if (*answer->device) {
        fputs(" on ", stdout);
        client_print_safely(stdout, answer->device);
        printf(", batch %ld\n", answer->batch_size);
    } else {
        puts(answer->cached > 0 ? " from the response cache" : " on no device");
    }
    printf(
        "in us: decode %.0f, wait %.0f, queue %.0f, input %.0f%s, compute %.0f, output %.0f, total %.0f%s\n",
        timing->decode_us, timing->wait_us, timing->queue_us, timing->input_us,
        answer->decoded_by_gpu > 0 ? " with decoding" : "", timing->compute_us, timing->output_us,
        timing->total_us, client_colour(&terminal, CLIENT_PLAIN));
}

static void add_result(cJSON *entry, const struct file *file)
{
    const char *error = error_of(file);
    if (error) {
        cJSON_AddStringToObject(entry, "error", error);
        cJSON_AddNumberToObject(entry, "status", file->result ? file->result->status : file->failure.status);
        return;
    }
    cJSON *list = cJSON_AddArrayToObject(entry, "predictions");
    for (size_t i = 0; i < file->result->prediction_count; i++) {
        cJSON *each = cJSON_CreateObject();
        cJSON_AddStringToObject(each, "label", file->result->predictions[i].label);
        cJSON_AddNumberToObject(each, "index", (double)file->result->predictions[i].index);
        cJSON_AddNumberToObject(each, "probability", file->result->predictions[i].probability);
        cJSON_AddItemToArray(list, each);
    }
}

static void add_map(cJSON *document, const struct convoy_map *map, const char *explained)
{
    cJSON *entry = cJSON_AddObjectToObject(document, "explanation");
    cJSON_AddStringToObject(entry, "file", explained);
    cJSON_AddStringToObject(entry, "label", map->label);
    cJSON_AddNumberToObject(entry, "index", (double)map->index);
    cJSON_AddNumberToObject(entry, "height", (double)map->height);
    cJSON_AddNumberToObject(entry, "width", (double)map->width);
    cJSON_AddNumberToObject(entry, "low", map->low);
    cJSON_AddNumberToObject(entry, "high", map->high);
    const double box[4] = {map->left, map->top, map->right, map->bottom};
    cJSON_AddItemToObject(entry, "box", cJSON_CreateDoubleArray(box, 4));
}

static void add_answer(cJSON *document, const struct convoy_answer *answer, const char *explained)
{
    cJSON_AddStringToObject(document, "model", answer->model);
    cJSON_AddStringToObject(document, "version", answer->version);
    cJSON_AddStringToObject(document, "device", answer->device);
    cJSON_AddStringToObject(document, "request_id", answer->request_id);
    cJSON_AddNumberToObject(document, "batch_size", (double)answer->batch_size);
    cJSON_AddNumberToObject(document, "cached", (double)answer->cached);
    cJSON_AddNumberToObject(document, "retries", (double)answer->retries);
    cJSON_AddNumberToObject(document, "decoded_by_gpu", (double)answer->decoded_by_gpu);
    cJSON *timing = cJSON_AddObjectToObject(document, "timing");
    cJSON_AddNumberToObject(timing, "decode_us", answer->timing.decode_us);
    cJSON_AddNumberToObject(timing, "wait_us", answer->timing.wait_us);
    cJSON_AddNumberToObject(timing, "queue_us", answer->timing.queue_us);
    cJSON_AddNumberToObject(timing, "input_us", answer->timing.input_us);
    cJSON_AddNumberToObject(timing, "compute_us", answer->timing.compute_us);
    cJSON_AddNumberToObject(timing, "output_us", answer->timing.output_us);
    cJSON_AddNumberToObject(timing, "total_us", answer->timing.total_us);
    if (answer->map)
        add_map(document, answer->map, explained);
    if (!answer->layer_count)
        return;
    cJSON *layers = cJSON_AddArrayToObject(document, "layers");
    for (size_t i = 0; i < answer->layer_count; i++) {
        cJSON *layer = cJSON_CreateObject();
        cJSON_AddStringToObject(layer, "name", answer->layers[i].name);
        cJSON_AddStringToObject(layer, "kernel", answer->layers[i].kernel);
        cJSON_AddNumberToObject(layer, "us", answer->layers[i].us);
        cJSON_AddItemToArray(layers, layer);
    }
}

static void print_json(const struct file *files, size_t count, const struct convoy_answer *answer,
                       const char *explained)
{
    cJSON *document = cJSON_CreateObject();
    cJSON *list = cJSON_AddArrayToObject(document, "files");
    for (size_t i = 0; i < count; i++) {
        cJSON *entry = cJSON_CreateObject();
        cJSON_AddStringToObject(entry, "file", files[i].path);
        add_result(entry, &files[i]);
        cJSON_AddItemToArray(list, entry);
    }
    if (answer)
        add_answer(document, answer, explained);
    char *text = cJSON_Print(document);
    if (text)
        puts(text);
    cJSON_free(text);
    cJSON_Delete(document);
}

/* Reads the files; those that cannot be read keep their failure. Returns the number read. */
static size_t read_files(struct file *files, size_t count, struct convoy_image *images)
{
    size_t loaded = 0;
    for (size_t i = 0; i < count; i++) {
        if (client_file_read(files[i].path, &files[i].bytes, &files[i].size, &files[i].failure))
            continue;
        files[i].failure.message[0] = '\0';
        images[loaded++] = (struct convoy_image){files[i].bytes, files[i].size};
    }
    return loaded;
}

/* A lone image that is refused for itself, not for the request: its sentence is the file's. */
static bool is_the_images_fault(int status)
{
    return status == 413 || status == 415 || status == 422;
}

/* Assigns the results, which exist only for the files that could be read, to the files. */
static void spread(struct file *files, size_t count, const struct convoy_answer *answer)
{
    size_t next = 0;
    for (size_t i = 0; i < count; i++) {
        if (files[i].bytes)
            files[i].result = &answer->results[next++];
    }
}

static int write_png(FILE *out, const void *context)
{
    const struct convoy_map *map = context;
    return fwrite(map->png, 1, map->png_size, out) == map->png_size ? 0 : -EIO;
}

static int classify(const struct client_classify_arguments *arguments, struct file *files,
                    struct convoy_image *images)
{
    struct convoy_options options = {.model = arguments->common.model,
                                     .version = arguments->common.version,
                                     .top = (int)arguments->top,
                                     .threshold = arguments->threshold,
                                     .profile = arguments->profile,
                                     .explain = arguments->explain != NULL};
    struct convoy_client *client = NULL;
    struct convoy_answer *answer = NULL;
    struct convoy_failure failure;
    size_t count = arguments->file_count;
    int exit_status = CLIENT_EXIT_OK;
    int status = convoy_client_open(arguments->common.url, &client, &failure);
    size_t loaded = status ? 0 : read_files(files, count, images);
    if (loaded)
        status = convoy_client_classify(client, images, loaded, &options, &answer, &failure);
    if (status == -EREMOTEIO && loaded == 1 && is_the_images_fault(failure.status)) {
        for (size_t i = 0; i < count; i++) {
            if (files[i].bytes)
                files[i].failure = failure;
        }
        status = 0;
    }
    if (status == 0 && answer && answer->map)
        status = client_output_file_write(arguments->explain, write_png, answer->map, &failure);
    if (status) {
        exit_status = client_report("classify", status, &failure);
        goto out;
    }
    if (answer)
        spread(files, count, answer);
    if (arguments->common.json)
        print_json(files, count, answer, arguments->explain);
    else
        print_text(files, count, answer, arguments->explain);
    for (size_t i = 0; i < count; i++) {
        if (error_of(&files[i]))
            exit_status = CLIENT_EXIT_IMAGE;
    }
out:
    convoy_answer_free(answer);
    convoy_client_close(client);
    return exit_status;
}

int client_classify_command(int argc, char **argv)
{
    struct client_classify_arguments arguments;
    struct convoy_failure failure;
    int status = client_classify_arguments(argc, argv, &arguments, &failure);
    if (status)
        return client_report("classify", status, &failure);
    if (arguments.help) {
        fputs(help, stdout);
        return CLIENT_EXIT_OK;
    }
    struct file *files = calloc(arguments.file_count, sizeof *files);
    struct convoy_image *images = calloc(arguments.file_count, sizeof *images);
    if (!files || !images) {
        free(files);
        free(images);
        client_fail_with(&failure, -ENOMEM, "memory is out");
        return client_report("classify", -ENOMEM, &failure);
    }
    for (size_t i = 0; i < arguments.file_count; i++)
        files[i].path = arguments.files[i];
    int exit_status = classify(&arguments, files, images);
    for (size_t i = 0; i < arguments.file_count; i++)
        free(files[i].bytes);
    free(files);
    free(images);
    return exit_status;
}
