#include "client/commands/eval.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/lib/failure.h"
#include "client/term/clock.h"
#include "client/term/terminal.h"

#define PATIENCE_S 60

struct eval {
    const struct client_eval_arguments *arguments;
    struct client_terminal terminal;
    pthread_mutex_t lock; /* protects the members below */
    struct client_data_set *set;
    struct client_eval_result *result;
    struct convoy_image *sample; /* whose layers will be timed: arguments->profiled at most */
    size_t sampled;
    size_t done;
    int status; /* the first failure ends the run */
    struct convoy_failure failure;
};

/* A connection and the images of its current request. */
struct eval_worker {
    pthread_t thread;
    struct eval *eval;
    struct convoy_client *client;
    struct client_labelled_image *labelled; /* arguments->batch of them */
    struct convoy_image *images;
};

/* Sends one request, and repeats it while the server is busy; adds the repetitions to *waits. */
static int classify_patiently(struct convoy_client *client, const struct convoy_image *images, size_t count,
                              const struct convoy_options *options, struct convoy_answer **answer,
                              size_t *waits, struct convoy_failure *failure)
{
    for (int waited = 0;;) {
        int status = convoy_client_classify(client, images, count, options, answer, failure);
        /* A 503 without Retry-After is permanent, for instance of a model that is FAILED. */
        if (status != -EREMOTEIO || failure->status != 503 || failure->retry_after_s == 0 ||
            waited >= PATIENCE_S)
            return status;
        int pause =
            failure->retry_after_s < PATIENCE_S - waited ? failure->retry_after_s : PATIENCE_S - waited;
        struct timespec time = {pause, 0};
        nanosleep(&time, NULL);
        waited += pause;
        (*waits)++;
    }
}

static int classify(struct eval_worker *worker, size_t count, int top, struct convoy_answer **answer,
                    size_t *waits, struct convoy_failure *failure)
{
    const struct client_common *common = &worker->eval->arguments->common;
    struct convoy_options options = {
        .model = common->model, .version = common->version, .top = top, .threshold = -1};
    return classify_patiently(worker->client, worker->images, count, &options, answer, waits, failure);
}

static void count_failed(struct client_eval_result *result, const char *name, const char *error)
{
    result->failed++;
    snprintf(result->failed_sample, sizeof result->failed_sample, "%s: %s", name, error);
}

/* Counts one image, and takes its bytes if they belong to the sample; the lock is held. */
static int count_image(struct eval *eval, struct client_labelled_image *labelled,
                       const struct convoy_result *answer, struct convoy_failure *failure)
{
    struct client_eval_result *result = eval->result;
    if (answer->error) {
        count_failed(result, labelled->name, answer->error);
        return 0;
    }
    long truth = client_score_class(&result->score, labelled->class);
    if (truth < 0)
        return client_fail_with(
            failure, -EINVAL,
            "'%s' has the class '%s', but the model '%s' has no such label: folders must be "
            "named like its labels or their index, 0 ('%s') to %zu ('%s')",
            labelled->name, labelled->class, result->model, result->score.labels[0],
            result->score.classes - 1, result->score.labels[result->score.classes - 1]);
    if (answer->prediction_count == 0)
        return client_fail_with(failure, -EPROTO, "the server names no class for '%s'", labelled->name);
    if (!client_score_count(&result->score, truth, answer->predictions[0].index))
        return client_fail_with(failure, -EPROTO, "the server's class %ld of '%s' is none of the model's",
                                answer->predictions[0].index, labelled->name);
    client_calibration_count(&result->calibration, answer->predictions[0].probability,
                             answer->predictions[0].index == truth);
    if (eval->arguments->report && answer->predictions[0].index != truth) {
        struct client_mistake mistake = {truth, answer->predictions[0].index,
                                         answer->predictions[0].probability, .picture = labelled->bytes,
                                         .size = labelled->size};
        snprintf(mistake.name, sizeof mistake.name, "%s", labelled->name);
        if (client_mistakes_add(&result->mistakes, &mistake) != 0)
            return client_fail_with(failure, -ENOMEM, "memory is out");
    }
    if (eval->sampled < (size_t)eval->arguments->profiled) {
        eval->sample[eval->sampled++] = (struct convoy_image){labelled->bytes, labelled->size};
        labelled->bytes = NULL;
    }
    return 0;
}

static void add_timing(struct client_eval_result *result, const struct convoy_timing *timing)
{
    result->requests++;
    result->timing.decode_us += timing->decode_us;
    result->timing.wait_us += timing->wait_us;
    result->timing.queue_us += timing->queue_us;
    result->timing.input_us += timing->input_us;
    result->timing.compute_us += timing->compute_us;
    result->timing.output_us += timing->output_us;
    result->timing.total_us += timing->total_us;
}

/* Takes up to `most` images from the set; the lock is held. Returns their number, or a negative errno. */
static int take_images(struct eval_worker *worker, long most, struct convoy_failure *failure)
{
    int taken = 0;
    while (taken < most) {
        int status = client_data_set_next(worker->eval->set, &worker->labelled[taken], failure);
        if (status <= 0)
            return status ? status : taken;
        worker->images[taken].bytes = worker->labelled[taken].bytes;
        worker->images[taken].size = worker->labelled[taken].size;
        taken++;
    }
    return taken;
}

static void drop_images(struct eval_worker *worker)
{
    for (long i = 0; i < worker->eval->arguments->batch; i++) {
        free(worker->labelled[i].bytes);
        worker->labelled[i].bytes = NULL;
    }
}

/* A lone image that is refused for itself: it failed, not the run. */
static bool is_the_images_fault(int status, size_t count, const struct convoy_failure *failure)
{
    return status == -EREMOTEIO && count == 1 &&
           (failure->status == 400 || failure->status == 413 || failure->status == 415 ||
            failure->status == 422);
}

/* Classifies single images, requesting all classes, until one is answered: its answer lists the classes. */
static int learn_classes(struct eval_worker *worker)
{
    struct eval *eval = worker->eval;
    struct client_eval_result *result = eval->result;
    struct convoy_failure *failure = &eval->failure;
    for (;;) {
        struct convoy_answer *answer = NULL;
        int taken = take_images(worker, 1, failure);
        if (taken <= 0)
            return taken ? taken
                         : client_fail_with(failure, -ENOENT, "'%s' has no image that can be classified%s%s",
                                            eval->arguments->path, result->failed ? ", for example " : "",
                                            result->failed_sample);
        int status = classify(worker, 1, 1000, &answer, &result->waits, failure);
        eval->done++;
        if (is_the_images_fault(status, 1, failure)) {
            count_failed(result, worker->labelled[0].name, failure->message);
            drop_images(worker);
            continue;
        }
        if (status == 0) {
            snprintf(result->model, sizeof result->model, "%s", answer->model);
            snprintf(result->version, sizeof result->version, "%s", answer->version);
            snprintf(result->device, sizeof result->device, "%s", answer->device);
            status = client_score_open(&result->score, &answer->results[0], failure);
        }
        if (status == 0) {
            add_timing(result, &answer->timing);
            status = count_image(eval, &worker->labelled[0], &answer->results[0], failure);
        }
        drop_images(worker);
        convoy_answer_free(answer);
        return status;
    }
}

/* Counts the results of a worker's images; the lock is held. */
static int count_answer(struct eval_worker *worker, size_t count, int status,
                        const struct convoy_answer *answer, struct convoy_failure *failure)
{
    struct client_eval_result *result = worker->eval->result;
    if (is_the_images_fault(status, count, failure)) {
        count_failed(result, worker->labelled[0].name, failure->message);
        return 0;
    }
    if (status)
        return status;
    add_timing(result, &answer->timing);
    for (size_t i = 0; status == 0 && i < count; i++)
        status = count_image(worker->eval, &worker->labelled[i], &answer->results[i], failure);
    return status;
}

static void *run_worker(void *context)
{
    struct eval_worker *worker = context;
    struct eval *eval = worker->eval;
    pthread_mutex_lock(&eval->lock);
    while (eval->status == 0) {
        struct convoy_answer *answer = NULL;
        struct convoy_failure failure;
        size_t waits = 0;
        int taken = take_images(worker, eval->arguments->batch, &failure), status = taken;
        if (taken == 0)
            break;
        if (taken > 0) {
            pthread_mutex_unlock(&eval->lock);
            status = classify(worker, (size_t)taken, 1, &answer, &waits, &failure);
            pthread_mutex_lock(&eval->lock);
            status = count_answer(worker, (size_t)taken, status, answer, &failure);
            eval->result->waits += waits;
            eval->done += (size_t)taken;
        }
        if (status && eval->status == 0) {
            eval->status = status;
            eval->failure = failure;
        }
        client_print_progress(stderr, &eval->terminal, eval->arguments->path, eval->done,
                              client_data_set_total(eval->set));
        drop_images(worker);
        convoy_answer_free(answer);
    }
    pthread_mutex_unlock(&eval->lock);
    return NULL;
}

static int open_worker(struct eval_worker *worker, struct eval *eval)
{
    size_t batch = (size_t)eval->arguments->batch;
    worker->eval = eval;
    worker->labelled = calloc(batch, sizeof *worker->labelled);
    worker->images = calloc(batch, sizeof *worker->images);
    if (!worker->labelled || !worker->images)
        return client_fail_with(&eval->failure, -ENOMEM, "memory is out");
    return convoy_client_open(eval->arguments->common.url, &worker->client, &eval->failure);
}

static void close_worker(struct eval_worker *worker)
{
    convoy_client_close(worker->client);
    if (worker->labelled)
        drop_images(worker);
    free(worker->labelled);
    free(worker->images);
}

/* Runs the workers; a failure is in eval->status. */
static void run_workers(struct eval *eval, struct eval_worker *workers)
{
    long started = 0;
    for (; started < eval->arguments->connections; started++) {
        int status = -pthread_create(&workers[started].thread, NULL, run_worker, &workers[started]);
        if (status == 0)
            continue;
        pthread_mutex_lock(&eval->lock);
        eval->status =
            client_fail_with(&eval->failure, status, "a thread cannot be made: %s", strerror(-status));
        pthread_mutex_unlock(&eval->lock);
        break;
    }
    for (long i = 0; i < started; i++)
        pthread_join(workers[i].thread, NULL);
}

/* Times the layers for these images, one at a time, into result->layers. Accuracy does not depend on it: what
 * goes wrong is said in result->layers_problem. */
static void time_layers(const struct client_eval_arguments *arguments, struct convoy_client *client,
                        const struct convoy_image *images, size_t count, struct client_eval_result *result)
{
    const struct convoy_options options = {
        .model = arguments->common.model, .version = arguments->common.version, .top = 1, .profile = true};
    struct client_terminal terminal = client_terminal_open(stderr);
    size_t waits = 0; /* not the accuracy pass's */
    for (size_t i = 0; i < count && !result->layers_problem[0]; i++) {
        struct convoy_answer *answer = NULL;
        struct convoy_failure failure;
        int status = classify_patiently(client, &images[i], 1, &options, &answer, &waits, &failure);
        if (status == 0 && answer->layer_count == 0)
            snprintf(result->layers_problem, sizeof result->layers_problem,
                     "the server does not time layers");
        else if (status == 0)
            status = client_layer_means_add(&result->layers, answer->layers, answer->layer_count, &failure);
        if (status)
            snprintf(result->layers_problem, sizeof result->layers_problem, "%s", failure.message);
        convoy_answer_free(answer);
        client_print_progress(stderr, &terminal, "layers", i + 1, count);
    }
    client_end_progress(stderr, &terminal);
}

int client_eval_run(const struct client_eval_arguments *arguments, struct client_data_set *set,
                    struct client_eval_result *result, struct convoy_failure *failure)
{
    struct eval eval = {.arguments = arguments, .set = set, .result = result};
    long opened = 0, connections = arguments->connections;
    memset(result, 0, sizeof *result);
    if (connections < 1 || arguments->batch < 1 || arguments->profiled < 0)
        return client_fail_with(failure, -EINVAL, "connections and batch must be at least 1");
    struct eval_worker *workers = calloc((size_t)connections, sizeof *workers);
    eval.sample = calloc((size_t)arguments->profiled + 1, sizeof *eval.sample);
    if (!workers || !eval.sample) {
        free(workers);
        free(eval.sample);
        return client_fail_with(failure, -ENOMEM, "memory is out");
    }
    eval.terminal = client_terminal_open(stderr);
    pthread_mutex_init(&eval.lock, NULL);
    double start = client_clock_now();
    for (; eval.status == 0 && opened < connections; opened++)
        eval.status = open_worker(&workers[opened], &eval);
    if (eval.status == 0)
        eval.status = learn_classes(&workers[0]);
    if (eval.status == 0)
        run_workers(&eval, workers);
    client_end_progress(stderr, &eval.terminal);
    result->elapsed_s = client_clock_now() - start;
    if (eval.status == 0)
        time_layers(arguments, workers[0].client, eval.sample, eval.sampled, result);
    for (size_t i = 0; i < eval.sampled; i++)
        free((void *)eval.sample[i].bytes);
    free(eval.sample);
    for (long i = 0; i < opened; i++)
        close_worker(&workers[i]);
    free(workers);
    pthread_mutex_destroy(&eval.lock);
    if (eval.status && failure)
        *failure = eval.failure;
    return eval.status;
}

void client_eval_clear(struct client_eval_result *result)
{
    client_score_clear(&result->score);
    client_layer_means_clear(&result->layers);
    client_mistakes_clear(&result->mistakes);
}
