/* `convoy verify NAME`: sends the record's image, once for the network's own outputs and once for classes. */
#include "client/commands/verify.h"

#include <curl/curl.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/commands/verify_record.h"
#include "client/data/base64.h"
#include "client/lib/failure.h"
#include "client/lib/file.h"
#include "client/lib/json.h"
#include "client/term/terminal.h"

/* Classes that are asked for beyond the recorded ones: neighbours in rank may have changed places. */
#define MORE_CLASSES 20

static const char help[] =
    "Usage: convoy verify [OPTION]... NAME\n"
    "Sends a convoyd the test image of the model NAME and compares the answer with the one recorded in\n"
    "NAME/verify.json, which models/from_pytorch.py wrote beside the model: the network's outputs, as ONNX\n"
    "Runtime computes them, and the classes with their labels and probabilities.\n"
    "\n"
    "  --model NAME     the same as NAME\n"
    "  --models DIR     the folder that holds NAME/verify.json (default: models)\n"
    "  --tolerance T    how far outputs may be from the recorded ones, in parts of the largest (default:\n"
    "                   the record's)\n"
    "  --version V      which version of the model (default: the record's)\n"
    "  --json           print one JSON document\n"
    "  --url URL        the server (default: $CONVOY_URL, else http://127.0.0.1:8080)\n" CLIENT_TLS_HELP "\n"
    "Exit status: 0 it answers as recorded, 1 it does not, or a file cannot be read, 2 wrong command line,\n"
    "3 no server, 4 the server refused.\n"
    "\n"
    "  convoy verify resnet50\n"
    "  convoy verify --models /srv/models resnet50\n";

static int take(int letter, const char *value, void *context, struct convoy_failure *failure)
{
    struct client_verify_arguments *arguments = context;
    if (letter == 't')
        return client_read_decimal("tolerance", value, 0, 1, &arguments->tolerance, failure);
    arguments->models = value;
    return 0;
}

int client_verify_arguments(int argc, char **argv, struct client_verify_arguments *arguments,
                            struct convoy_failure *failure)
{
    static const struct option options[] = {CLIENT_COMMON_OPTIONS,
                                            CLIENT_MODEL_OPTIONS,
                                            {"models", required_argument, NULL, 'M'},
                                            {"tolerance", required_argument, NULL, 't'},
                                            {0}};
    *arguments = (struct client_verify_arguments){.models = "models", .tolerance = -1};
    struct client_common *common = &arguments->common;
    int first = client_arguments(argc, argv, options, common, take, arguments, failure);
    arguments->help = first == 0;
    if (first <= 0)
        return first;
    if (client_take_model(argc, argv, first, common, failure) != 0)
        return -EINVAL;
    if (!common->model)
        return client_fail_with(failure, -EINVAL, "name a model");
    if (strchr(common->model, '/'))
        return client_fail_with(failure, -EINVAL, "'%s' is no model's name; --models names the folder",
                                common->model);
    return client_check_model_name(common->model, failure);
}

/* A recorded class, and what the server says of it. */
struct found_class {
    const struct client_verify_class *recorded;
    char label[256];
    double probability; /* NaN where it is not among the classes that were asked for */
    bool agrees;
};

struct verification {
    const struct client_verify_arguments *arguments;
    struct client_verify_record record;
    const char *version;
    double tolerance;
    void *image;
    size_t image_size;
    struct client_verify_difference worst;
    struct found_class classes[CLIENT_VERIFY_CLASSES];
    bool agrees;
};

/* A file of the model's folder. */
static int read_beside(const struct client_verify_arguments *arguments, const char *name, char **path,
                       void **bytes, size_t *size, struct convoy_failure *failure)
{
    if (asprintf(path, "%s/%s/%s", arguments->models, arguments->common.model, name) < 0) {
        *path = NULL;
        return client_fail_with(failure, -ENOMEM, "memory is out");
    }
    return client_file_read(*path, bytes, size, failure);
}

static int read_record(struct verification *verification, struct convoy_failure *failure)
{
    const struct client_verify_arguments *arguments = verification->arguments;
    char *path = NULL, *image = NULL;
    void *text = NULL;
    size_t size = 0;
    int status = read_beside(arguments, "verify.json", &path, &text, &size, failure);
    if (status == -ENOENT)
        client_fail_with(failure, status,
                         "there is no record %s: models/from_pytorch.py writes one with a model's folder; "
                         "--models DIR names the folder of models in which it lies",
                         path);
    if (status == 0) {
        status = client_verify_record_read(text, size, path, &verification->record, failure);
        if (status == -EINVAL)
            status = -EILSEQ; /* the file is at fault, not the command line */
    }
    if (status == 0)
        status = read_beside(arguments, verification->record.image, &image, &verification->image,
                             &verification->image_size, failure);
    verification->version =
        arguments->common.version ? arguments->common.version : verification->record.version;
    verification->tolerance =
        arguments->tolerance < 0 ? verification->record.tolerance : arguments->tolerance;
    free(text);
    free(path);
    free(image);
    return status;
}

/* Returns the body of the inference request; cJSON_free frees it. NULL when out of memory. */
static char *infer_body(const struct verification *verification)
{
    char *body = NULL, *data = client_base64_encode(verification->image, verification->image_size);
    cJSON *document = cJSON_CreateObject();
    cJSON *inputs = cJSON_AddArrayToObject(document, "inputs"), *input = cJSON_CreateObject();
    if (inputs && !cJSON_AddItemToArray(inputs, input))
        cJSON_Delete(input);
    const int one = 1;
    cJSON *parameters = cJSON_AddObjectToObject(document, "parameters");
    /* The record was made of the whole image, as Pillow decodes it. */
    if (data && inputs && cJSON_AddFalseToObject(parameters, "scaled_decoding") &&
        cJSON_AddStringToObject(parameters, "decoder", "cpu") &&
        cJSON_AddStringToObject(input, "name", verification->record.input) &&
        cJSON_AddStringToObject(input, "datatype", "BYTES") &&
        cJSON_AddItemToObject(input, "shape", cJSON_CreateIntArray(&one, 1)) &&
        cJSON_AddItemToObject(input, "data", cJSON_CreateStringArray((const char *const *)&data, 1)))
        body = cJSON_PrintUnformatted(document);
    cJSON_Delete(document);
    free(data);
    return body;
}

static char *infer_path(const struct verification *verification)
{
    char *path = NULL, *name = curl_easy_escape(NULL, verification->arguments->common.model, 0);
    char *version = curl_easy_escape(NULL, verification->version, 0);
    if (name && version && asprintf(&path, "/v2/models/%s/versions/%s/infer", name, version) < 0)
        path = NULL;
    curl_free(name);
    curl_free(version);
    return path;
}

/* The server writes numbers that are not finite as JSON does not know them. */
static bool has_infinite(const struct client_response *response)
{
    return response->status == 200 && (strstr(response->text, "NaN") || strstr(response->text, "Infinity"));
}

/* Asks for the network's own outputs and compares them. */
static int check_outputs(struct verification *verification, struct convoy_failure *failure)
{
    static char header[] = "Content-Type: application/json";
    struct client_http *http = NULL;
    struct client_response response;
    cJSON *answer = NULL;
    char *body = infer_body(verification), *path = infer_path(verification);
    int status;
    if (!body || !path) {
        status = client_fail_with(failure, -ENOMEM, "memory is out");
        goto out;
    }
    struct client_request request = {.path = path, .header = header, .body = body, .body_size = strlen(body)};
    status = client_http_open(verification->arguments->common.url, &http, failure);
    if (status == 0)
        status = client_http_post(http, &request, client_http_patience_ms(0), &response, failure);
    if (status)
        goto out;
    status = client_json_parse_ok(&response, &answer, failure);
    if (status == -EPROTO && has_infinite(&response))
        status = client_fail_with(failure, -EDOM, "an output of the network is not finite");
    if (status == 0)
        status = client_verify_compare(&verification->record, answer, &verification->worst, failure);
    if (status == 0 && !(verification->worst.relative <= verification->tolerance))
        verification->agrees = false;
out:
    cJSON_Delete(answer);
    client_http_close(http);
    cJSON_free(body);
    free(path);
    return status;
}

static void compare_class(struct verification *verification, size_t i, const struct convoy_result *result)
{
    const struct client_verify_class *recorded = &verification->record.classes[i];
    struct found_class *found = &verification->classes[i];
    *found = (struct found_class){.recorded = recorded, .probability = NAN};
    for (size_t k = 0; k < result->prediction_count; k++) {
        const struct convoy_prediction *each = &result->predictions[k];
        if (each->index != recorded->index)
            continue;
        snprintf(found->label, sizeof found->label, "%s", each->label);
        found->probability = each->probability;
        found->agrees =
            fabs(each->probability - recorded->probability) <= verification->record.probability_tolerance &&
            (!recorded->label || strcmp(recorded->label, each->label) == 0);
    }
    if (!found->agrees)
        verification->agrees = false;
}

/* Asks for classes, which shows labels and what makes probabilities of the outputs. */
static int check_classes(struct verification *verification, struct convoy_failure *failure)
{
    const struct convoy_image image = {verification->image, verification->image_size};
    const struct convoy_options options = {.model = verification->arguments->common.model,
                                           .version = verification->version,
                                           .top = (int)verification->record.class_count + MORE_CLASSES,
                                           .threshold = -1};
    struct convoy_client *client = NULL;
    struct convoy_answer *answer = NULL;
    if (verification->record.class_count == 0)
        return 0;
    int status = convoy_client_open(verification->arguments->common.url, &client, failure);
    if (status == 0)
        status = convoy_client_classify(client, &image, 1, &options, &answer, failure);
    for (size_t i = 0; status == 0 && i < verification->record.class_count; i++)
        compare_class(verification, i, &answer->results[0]);
    convoy_answer_free(answer);
    convoy_client_close(client);
    return status;
}

static void print_json(const struct verification *verification)
{
    const struct client_verify_difference *worst = &verification->worst;
    cJSON *document = cJSON_CreateObject();
    cJSON_AddStringToObject(document, "model", verification->arguments->common.model);
    cJSON_AddStringToObject(document, "version", verification->version);
    cJSON_AddBoolToObject(document, "agrees", verification->agrees);
    cJSON_AddNumberToObject(document, "difference", worst->relative);
    cJSON_AddNumberToObject(document, "tolerance", verification->tolerance);
    cJSON_AddStringToObject(document, "output", worst->output);
    cJSON_AddNumberToObject(document, "element", (double)worst->element);
    cJSON_AddNumberToObject(document, "value", worst->value);
    cJSON_AddNumberToObject(document, "recorded", worst->recorded);
    cJSON *list = cJSON_AddArrayToObject(document, "classes");
    for (size_t i = 0; i < verification->record.class_count; i++) {
        const struct found_class *found = &verification->classes[i];
        cJSON *each = cJSON_CreateObject();
        cJSON_AddNumberToObject(each, "index", (double)found->recorded->index);
        cJSON_AddStringToObject(each, "label", found->label);
        cJSON_AddNumberToObject(each, "probability", found->probability);
        cJSON_AddNumberToObject(each, "recorded", found->recorded->probability);
        cJSON_AddBoolToObject(each, "agrees", found->agrees);
        cJSON_AddItemToArray(list, each);
    }
    char *text = cJSON_Print(document);
    if (text)
        puts(text);
    cJSON_free(text);
    cJSON_Delete(document);
}

static void print_class(const struct client_terminal *terminal, const struct found_class *found)
{
    const struct client_verify_class *recorded = found->recorded;
    printf("  class %ld ", recorded->index);
    if (isnan(found->probability)) {
        printf("%sis not among the first%s", client_colour(terminal, CLIENT_RED),
               client_colour(terminal, CLIENT_PLAIN));
    } else {
        client_print_safely(stdout, found->label);
        printf(" %.4f", found->probability);
    }
    printf(", recorded ");
    if (recorded->label)
        client_print_safely(stdout, recorded->label);
    printf(" %.4f%s\n", recorded->probability, found->agrees ? "" : ": differs");
}

static void print_text(const struct verification *verification)
{
    struct client_terminal terminal = client_terminal_open(stdout);
    const struct client_verify_difference *worst = &verification->worst;
    client_print_safely(stdout, verification->arguments->common.model);
    fputs(" version ", stdout);
    client_print_safely(stdout, verification->version);
    printf(" %s%s%s\n", client_colour(&terminal, verification->agrees ? CLIENT_GREEN : CLIENT_RED),
           verification->agrees ? "answers as recorded" : "answers otherwise than recorded",
           client_colour(&terminal, CLIENT_PLAIN));
    fputs("  largest difference: output '", stdout);
    client_print_safely(stdout, worst->output);
    printf("', element %zu: %.6g, recorded %.6g; %.2g of the largest value, %.2g is allowed\n",
           worst->element, worst->value, worst->recorded, worst->relative, verification->tolerance);
    for (size_t i = 0; i < verification->record.class_count; i++)
        print_class(&terminal, &verification->classes[i]);
}

int client_verify_command(int argc, char **argv)
{
    struct client_verify_arguments arguments;
    struct convoy_failure failure;
    int status = client_verify_arguments(argc, argv, &arguments, &failure);
    if (status)
        return client_report("verify", status, &failure);
    if (arguments.help) {
        fputs(help, stdout);
        return CLIENT_EXIT_OK;
    }
    struct verification *verification = calloc(1, sizeof *verification);
    if (!verification) {
        client_fail_with(&failure, -ENOMEM, "memory is out");
        return client_report("verify", -ENOMEM, &failure);
    }
    *verification = (struct verification){.arguments = &arguments, .agrees = true};
    int exit_status = CLIENT_EXIT_OK;
    status = read_record(verification, &failure);
    if (status == 0)
        status = check_outputs(verification, &failure);
    if (status == 0)
        status = check_classes(verification, &failure);
    if (status) {
        exit_status = client_report("verify", status, &failure);
    } else {
        if (arguments.common.json)
            print_json(verification);
        else
            print_text(verification);
        exit_status = verification->agrees ? CLIENT_EXIT_OK : CLIENT_EXIT_IMAGE;
    }
    client_verify_record_clear(&verification->record);
    free(verification->image);
    free(verification);
    return exit_status;
}
