/* What the supervisor sends to a worker, and what becomes of what cannot be sent. */
#include "tests/unit/server/workers/own_process/supervisor_harness.h"

#include "server/workers/worker_command.h"

#include "engine/base/clock.h"

TestSuite(supervisor_loading, .init = begin, .fini = end);

Test(supervisor_loading, a_load_that_could_not_be_sent_is_sent_later)
{
    struct convoy_model_record *model = add_model("a");
    say_hello();
    sent[0] = '\0';
    refusals = 3;
    load(model);
    cr_assert_str_empty(sent);
    cr_assert_not(convoy_supervisor_released(supervisor, model), "a worker is about to load it");
    until_sent("load 0\n");
    cr_assert_eq(refusals, 0);
    cr_assert_not(convoy_supervisor_released(supervisor, model));
    say_loaded(model);
    cr_assert(convoy_supervisor_released(supervisor, model), "it was asked for once");
}

Test(supervisor_loading, loads_after_hello_and_the_channel_are_sent_later_too)
{
    struct convoy_model_record *a = add_model("a"), *b = add_model("b");
    load(a);
    load(b);
    refusals = 1;
    say_hello();
    cr_assert_str_eq(sent, "measure 1\n");
    until_sent("measure 0\n");
    say_measured(a, 3);
    refusals = 2;
    say_measured(b, 3); /* the last one: slots are sized */
    cr_assert_eq(refusals, 0);
    cr_assert_null(strstr(sent, "channel"));
    cr_assert_null(strstr(sent, "load 0"));
    until_sent("channel\n");
    until_sent("load 0\n");
    say_loaded(b);
    say_loaded(a);
    uv_run(&loop, UV_RUN_ONCE);
    cr_assert_str_eq(sent, "measure 1\nmeasure 0\nload beside 1\nchannel\nload 0\n", "each once");
}

Test(supervisor_loading, the_default_model_is_loaded_first_and_served_while_others_load)
{
    struct convoy_model_record *a = add_model("a"), *b = add_model("b"), *c = add_model("c");
    config->default_model = strdup("b");
    load(a);
    load(b);
    load(c);
    say_hello();
    cr_assert_str_eq(sent, "measure 0\nmeasure 1\nmeasure 2\n");
    sent[0] = '\0';
    say_measured(a, 3);
    say_measured(b, 64); /* the largest rows */
    cr_assert_str_empty(sent, "one is not known yet");
    say("{\"type\":\"measured\",\"model\":2,\"reason\":\"it is damaged\"}");
    cr_assert_str_eq(sent, "channel\nload 1\nload beside 0\nload beside 2\n");
    cr_assert_geq(process->channel.size.input_bytes, 64 * 2 * 2);
    say("{\"type\":\"attached\"}");
    say_loaded_rows(b, 64);
    cr_assert_eq(b->state, CONVOY_MODEL_READY);
    cr_assert_eq(a->state, CONVOY_MODEL_LOADING);
    say("{\"type\":\"failed\",\"model\":2,\"reason\":\"it is damaged\"}");
    cr_assert_eq(c->state, CONVOY_MODEL_FAILED);
    say_loaded(a);
    cr_assert_eq(a->state, CONVOY_MODEL_READY);
}

Test(supervisor_loading, one_model_is_not_measured)
{
    struct convoy_model_record *model = add_model("a");
    load(model);
    say_hello();
    cr_assert_str_eq(sent, "load 0\n");
    say_loaded(model);
    cr_assert_str_eq(sent, "load 0\nchannel\n");
}

/* The file of one kills every worker that reads it: after two the others are served. */
Test(supervisor_loading, a_model_that_kills_while_it_is_measured)
{
    struct convoy_model_record *a = add_model("a"), *b = add_model("b");
    load(a);
    load(b);
    for (int death = 0; death < 2; death++) {
        sent[0] = '\0';
        say_hello();
        cr_assert_str_eq(sent, "measure 0\nmeasure 1\n");
        say("{\"type\":\"loading\",\"model\":0}");
        process->running = false;
        process->events->gone(process->context, process, "signal", "killed by signal 11");
        while (!process->running) /* it is started again after a while */
            cr_assert_neq(uv_run(&loop, UV_RUN_ONCE), 0);
    }
    cr_assert_eq(a->state, CONVOY_MODEL_FAILED);
    sent[0] = '\0';
    say_hello();
    cr_assert_str_eq(sent, "measure 1\n");
    say_measured(b, 3);
    cr_assert_str_eq(sent, "measure 1\nchannel\nload 1\n");
}

Test(supervisor_loading, an_unload_is_sent_later_also_when_the_record_is_gone)
{
    struct convoy_model_record *model = add_model("a");
    say_hello();
    load(model);
    say_loaded(model);
    sent[0] = '\0';
    refusals = 2;
    convoy_supervisor_unload(supervisor, model);
    convoy_registry_set_unloaded(registry, model, false);
    cr_assert(convoy_registry_remove(registry, model));
    until_sent("unload 0\n");
}

Test(supervisor_loading, a_load_takes_the_place_of_an_unload_that_was_not_sent)
{
    struct convoy_model_record *model = add_model("a");
    say_hello();
    load(model);
    say_loaded(model);
    sent[0] = '\0';
    refusals = 1;
    convoy_supervisor_unload(supervisor, model);
    load(model);
    cr_assert_str_eq(sent, "load 0\n");
    for (int i = 0; i < 3; i++)
        uv_run(&loop, UV_RUN_ONCE);
    cr_assert_str_eq(sent, "load 0\n", "the unload must not follow");
}

/* A front that follows another one: with a worker that has loaded what the front before asked for. */
static void end_adopting(void)
{
    adopted_size = (struct convoy_channel_size){0};
    end();
}
TestSuite(supervisor_adopt, .init = prepare, .fini = end_adopting);

/* The worker has the model loaded under this number, of files with this stamp. */
static void say_held(const struct convoy_model_record *model, int was, const char *stamp)
{
    char line[2000];
    cJSON *kind = convoy_worker_command_load_kind(model, CONVOY_LOAD_FILES);
    if (stamp != NULL)
        cJSON_ReplaceItemInObjectCaseSensitive(kind, "stamp", cJSON_CreateString(stamp));
    char *load = cJSON_PrintUnformatted(kind);
    snprintf(line, sizeof line,
             "{\"type\":\"held\",\"model\":%d,\"channels\":3,\"height\":2,\"width\":2,\"weight_bytes\":8,"
             "\"outputs\":[{\"name\":\"y\",\"elements\":2}],\"load\":%s}",
             was, load);
    cJSON_free(load);
    cJSON_Delete(kind);
    say(line);
}

static void start_adopting(void)
{
    adopted_size = (struct convoy_channel_size){.slots = 2, .input_bytes = 4096, .output_bytes = 4096};
    convoy_supervisor_start(supervisor, master);
    cr_assert(convoy_supervisor_adopts(supervisor));
}

Test(supervisor_adopt, what_the_worker_holds_is_not_loaded_again)
{
    struct convoy_model_record *a = add_model("a"), *b = add_model("b"), *c = add_model("c");
    load(a);
    load(b);
    load(c);
    start_adopting();
    say_hello();
    cr_assert_str_empty(sent, "nothing is asked of it before it said what it holds");
    say_held(b, 5, NULL);
    say_held(a, 1, NULL);
    say_held(c, 0, "another file");
    say("{\"type\":\"adopted\"}");
    cr_assert_str_eq(sent, "keep 1=0 5=1\nchannel\nload 2\n", "%s", sent);
    cr_assert_eq(a->state, CONVOY_MODEL_LOADING, "the worker knows it under another number still");
    cr_assert(convoy_supervisor_adopts(supervisor));
    say("{\"type\":\"attached\"}");
    cr_assert_eq(a->state, CONVOY_MODEL_READY);
    cr_assert_eq(b->state, CONVOY_MODEL_READY);
    cr_assert_eq(c->state, CONVOY_MODEL_LOADING);
    cr_assert_not(convoy_supervisor_adopts(supervisor));
    say_loaded(c);
    cr_assert_eq(c->state, CONVOY_MODEL_READY);
}

/* Until it was told its new numbers, a LOAD would be for another model of the worker's. */
Test(supervisor_adopt, nothing_is_loaded_before_the_worker_knows_the_numbers)
{
    struct convoy_model_record *a = add_model("a");
    load(a);
    start_adopting();
    comes_beside();
    say_hello();
    left_is_gone();
    cr_assert_str_empty(sent, "the one before is gone: %s", sent);
    struct convoy_model_record *b = add_model("b");
    load(b);
    cr_assert_str_empty(sent, "a model is added: %s", sent);
    say_held(a, 1, NULL);
    say("{\"type\":\"adopted\"}");
    cr_assert_str_eq(sent, "keep 1=0\nchannel\nload 1\n", "%s", sent);
    say("{\"type\":\"attached\"}");
    say_loaded(b);
    cr_assert_eq(b->state, CONVOY_MODEL_READY);
}

Test(supervisor_adopt, a_number_is_given_once)
{
    struct convoy_model_record *a = add_model("a");
    load(a);
    start_adopting();
    say_hello();
    say_held(a, 3, NULL);
    say_held(a, 4, NULL);
    say("{\"type\":\"adopted\"}");
    cr_assert_str_eq(sent, "keep 3=0\nchannel\n", "%s", sent);
    say("{\"type\":\"attached\"}");
}

Test(supervisor_adopt, a_worker_that_dies_before_it_serves_is_replaced)
{
    struct convoy_model_record *a = add_model("a");
    load(a);
    start_adopting();
    say_hello();
    say_held(a, 3, NULL);
    process->running = false;
    process->events->gone(process->context, process, "exit", "exit status 1");
    cr_assert_not(convoy_supervisor_adopts(supervisor));
    sent[0] = '\0';
    until_started();
    say_hello();
    cr_assert_str_eq(sent, "channel\nload 0\n", "%s", sent);
    say("{\"type\":\"attached\"}");
    say_loaded(a);
    cr_assert_eq(a->state, CONVOY_MODEL_READY);
}

/* Whether a worker computes what others did. */
TestSuite(supervisor_canary, .init = begin, .fini = end);

static void say_hello_of(const char *description)
{
    char line[300];
    snprintf(line, sizeof line,
             "{\"type\":\"hello\",\"abi\":%d,\"device_count\":1,\"streams\":2,\"backend\":\"cpu\","
             "\"device\":\"cpu\",\"description\":\"%s\"}",
             CONVOY_CHANNEL_ABI, description);
    say(line);
}

/* LOADED with an answer of two numbers, read from these files. */
static void say_answer(const struct convoy_model_record *model, const char *files, const char *values)
{
    char line[500];
    snprintf(line, sizeof line,
             "{\"type\":\"loaded\",\"model\":%u,\"channels\":3,\"height\":2,\"width\":2,\"weight_bytes\":8,"
             "\"outputs\":[{\"name\":\"y\",\"elements\":2}],\"files\":\"%s\","
             "\"canary\":{\"finite\":%s,\"values\":[%s],\"ranges\":[4,4]}}",
             model->number, files, strstr(values, "null") == NULL ? "true" : "false", values);
    say(line);
}

static void say_checked(const struct convoy_model_record *model, const char *check, bool same)
{
    char line[200];
    snprintf(line, sizeof line, "{\"type\":\"checked\",\"model\":%u,\"check\":\"%s\",\"same\":%s%s}",
             model->number, check, same ? "true" : "false", same ? "" : ",\"reason\":\"it is off\"");
    say(line);
}

/* The worker is gone, and the next one has said HELLO. */
static void die(const char *description)
{
    process->running = false;
    process->events->gone(process->context, process, killed_for != NULL ? killed_for : "signal",
                          "it is dead");
    killed_for = NULL;
    while (!process->running)
        cr_assert_neq(uv_run(&loop, UV_RUN_ONCE), 0);
    say_hello_of(description);
}

static void expect_killed(const char *reason)
{
    cr_assert_not_null(killed_for, "the worker lives");
    cr_assert_str_eq(killed_for, reason);
}

static struct convoy_model_record *served(void)
{
    struct convoy_model_record *model = add_model("a");
    expects_kill = true;
    load(model);
    say_hello_of("one kind");
    say_answer(model, "a1", "1,-4");
    say("{\"type\":\"attached\"}");
    cr_assert_eq(model->state, CONVOY_MODEL_READY);
    return model;
}

/* How often /metrics counts this. */
static int counted(const char *series)
{
    size_t length;
    char *text = convoy_metrics_render(metrics, &length);
    cr_assert_not_null(text);
    const char *line = strstr(text, series);
    int count = line != NULL ? atoi(line + strlen(series)) : 0;
    free(text);
    return count;
}

Test(supervisor_canary, a_worker_that_differs_is_killed_before_it_serves)
{
    struct convoy_model_record *model = served();
    die("one kind");
    say_answer(model, "a1", "1.03,-4.03"); /* within 1 % of 4 */
    cr_assert_null(killed_for);
    die("one kind");
    say_answer(model, "a1", "1.05,-4");
    expect_killed("canary");
    cr_assert_eq(counted("device_checks_total{device=\"cpu\",check=\"canary\",result=\"differs\"} "), 1);
    sent[0] = '\0';
    say_answer(model, "a1", "1,-4"); /* what it says now is of no interest */
    cr_assert_str_empty(sent);
    die("one kind");
    say_answer(model, "a1", "1,-4");
    cr_assert_null(killed_for);
    cr_assert_eq(model->state, CONVOY_MODEL_READY);
    cr_assert_eq(counted("device_checks_total{device=\"cpu\",check=\"canary\",result=\"same\"} "), 3);
}

Test(supervisor_canary, an_answer_that_is_not_finite_any_more)
{
    struct convoy_model_record *model = served();
    die("one kind");
    say_answer(model, "a1", "1,null");
    expect_killed("canary");
}

Test(supervisor_canary, less_exact_arithmetic_may_differ_by_more)
{
    struct convoy_model_record *model = served();
    model->config->precision = CONVOY_PRECISION_FP16;
    die("one kind");
    say_answer(model, "a1", "2,-4"); /* the first one of this precision */
    die("one kind");
    say_answer(model, "a1", "1.2,-3.2");
    cr_assert_null(killed_for);
    die("one kind");
    say_answer(model, "a1", "2,-2");
    expect_killed("canary");
}

Test(supervisor_canary, other_files_and_other_devices_may_answer_otherwise)
{
    struct convoy_model_record *model = served();
    die("another kind");
    say_answer(model, "a1", "3,0");
    cr_assert_null(killed_for);
    die("one kind");
    say_answer(model, "a1", "1,-4"); /* both are kept */
    die("another kind");
    say_answer(model, "a1", "3,0");
    cr_assert_null(killed_for);
    die("one kind");
    say_answer(model, "b2", "0,0");
    die("one kind");
    say_answer(model, "b2", "0,0");
    cr_assert_null(killed_for);
    die("one kind");
    say_answer(model, "b2", "1,-4");
    expect_killed("canary");
    die("one kind");
    say_loaded(model); /* a worker that had no memory for it */
    cr_assert_null(killed_for);
}

Test(supervisor_canary, two_in_a_row_and_the_model_is_given_up)
{
    struct convoy_model_record *model = served();
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(model->state, CONVOY_MODEL_READY);
        die("one kind");
        say_answer(model, "a1", "-4,1");
        expect_killed("canary");
    }
    cr_assert_eq(model->state, CONVOY_MODEL_FAILED);
    cr_assert_not_null(strstr(model->reason, "computed it wrongly"), "%s", model->reason);
    sent[0] = '\0';
    die("one kind");
    cr_assert_null(strstr(sent, "load"), "%s", sent);
    load(model);
    cr_assert_null(strstr(sent, "load"), "%s", sent);
    cr_assert_eq(model->state, CONVOY_MODEL_FAILED);
    model->stamp++; /* its files change */
    load(model);
    cr_assert_not_null(strstr(sent, "load 0"), "%s", sent);
}

/* Right at its loading means little of a device that goes wrong later. */
Test(supervisor_canary, what_goes_wrong_later_counts_until_it_is_right_later)
{
    struct convoy_model_record *model = served();
    say_checked(model, "weights", true);
    say_checked(model, "canary", true);
    uint32_t load_number = atomic_load(&model->load);
    say_checked(model, "weights", false);
    expect_killed("weights");
    cr_assert_neq(atomic_load(&model->load), load_number, "answers of the response cache are still good");
    die("one kind");
    say_answer(model, "a1", "1,-4");
    say_checked(model, "weights", true);
    say_checked(model, "canary", true);
    say_checked(model, "canary", false);
    expect_killed("canary");
    cr_assert_eq(model->state, CONVOY_MODEL_READY, "not in a row");
    die("one kind");
    say_answer(model, "a1", "1,-4");
    say_checked(model, "canary", false);
    expect_killed("canary");
    cr_assert_eq(model->state, CONVOY_MODEL_FAILED);
    cr_assert_eq(counted("worker_restarts_total{device=\"cpu\",reason=\"weights\"} "), 1);
    cr_assert_eq(counted("worker_restarts_total{device=\"cpu\",reason=\"canary\"} "), 1);
}

/* The decoder is the device's: no model is to blame, however often it goes wrong. */
Test(supervisor_canary, a_decoder_that_goes_wrong_is_no_models_fault)
{
    struct convoy_model_record *model = served();
    for (int i = 0; i < 3; i++) {
        uint32_t load_number = atomic_load(&model->load);
        say("{\"type\":\"checked\",\"check\":\"decoder\",\"same\":true}");
        cr_assert_null(killed_for);
        say("{\"type\":\"checked\",\"check\":\"decoder\",\"same\":false,\"reason\":\"it is off\"}");
        expect_killed("decoder");
        cr_assert_neq(atomic_load(&model->load), load_number, "answers of the response cache are still good");
        die("one kind");
        say_answer(model, "a1", "1,-4");
        cr_assert_null(killed_for);
        cr_assert_eq(model->state, CONVOY_MODEL_READY);
    }
    cr_assert_eq(counted("device_checks_total{device=\"cpu\",check=\"decoder\",result=\"same\"} "), 3);
    cr_assert_eq(counted("device_checks_total{device=\"cpu\",check=\"decoder\",result=\"differs\"} "), 3);
    cr_assert_eq(counted("worker_restarts_total{device=\"cpu\",reason=\"decoder\"} "), 3);
}

/* With worker.per_model a worker is heard of its own model, and of the device. */
Test(supervisor_canary, a_model_s_worker_is_heard_of_the_decoder)
{
    struct convoy_model_record *model = served();
    struct device_worker worker = {.supervisor = supervisor};
    struct convoy_worker_message message = {.type = CONVOY_WORKER_CHECKED, .model = model->number};
    snprintf(worker.of, sizeof worker.of, "another");
    message.checked.check = CONVOY_CHECK_CANARY;
    cr_assert_not(convoy_per_model_hears(&worker, &message));
    message.checked.check = CONVOY_CHECK_DECODER;
    cr_assert(convoy_per_model_hears(&worker, &message));
}

/* A worker says so while it loads, and ends: its loading did not kill it. */
Test(supervisor_canary, a_worker_that_disagrees_with_itself)
{
    struct convoy_model_record *model = served();
    die("one kind");
    say("{\"type\":\"loading\",\"model\":0}");
    say_checked(model, "canary", false);
    expect_killed("canary");
    die("one kind");
    say("{\"type\":\"loading\",\"model\":0}");
    die("one kind"); /* that does: the first time */
    cr_assert_eq(model->state, CONVOY_MODEL_READY);
    say_answer(model, "a1", "1,-4"); /* clears both */
    die("one kind");
    say("{\"type\":\"loading\",\"model\":0}");
    say_checked(model, "canary", false);
    die("one kind");
    cr_assert_eq(model->state, CONVOY_MODEL_READY);
}

static int answers;

static void on_done(struct convoy_item *item)
{
    (void)item;
    answers++;
}

/* The other end of the channel, as a process that was started has it. */
static void take_end(struct convoy_channel *end)
{
    struct convoy_error problem;
    /* Both ends share this process's descriptors: destroying the front's end closes them. */
    cr_assert_eq(convoy_channel_attach(end, process->channel.memory_fd, process->channel.worker_doorbell_fd,
                                       &process->channel.size, &problem),
                 0, "%s", problem.message);
}

static float outputs[2]; /* of the item */

/* An image for the model. */
static struct convoy_item *submit_item(struct convoy_model_record *model)
{
    static uint8_t row[3 * 2 * 2];
    static struct convoy_item_group group;
    static struct convoy_item item;
    struct convoy_batcher *batcher = convoy_supervisor_batcher(supervisor);
    uint64_t wait_us;
    group = (struct convoy_item_group){.deadline_us = UINT64_MAX};
    item = (struct convoy_item){.model = model,
                                .group = &group,
                                .outputs = outputs,
                                .source = row,
                                .source_bytes = sizeof row,
                                .done = on_done};
    cr_assert_eq(convoy_batcher_admit(batcher, model, 1, CONVOY_PRIORITY_NORMAL, UINT64_MAX, &wait_us), 0);
    convoy_batcher_submit(batcher, (struct convoy_item *[]){&item}, 1);
    return &item;
}

/* A batch that is done, but was not collected when the difference became known, runs again elsewhere. */
Test(supervisor_canary, what_was_not_collected_is_not_believed)
{
    struct convoy_model_record *model = served();
    struct convoy_channel end;
    uint32_t slot;
    take_end(&end);
    const struct convoy_item *item = submit_item(model);
    for (int worker = 0; worker < 2; worker++) {
        cr_assert(convoy_channel_take_submitted(&end, &slot));
        struct convoy_slot header = *convoy_channel_slot(&end, slot);
        float *result =
            (float *)(void *)(convoy_channel_outputs(&end, slot) + header.first * header.output_stride);
        result[0] = worker == 0 ? 666 : 1;
        convoy_channel_finish(&end, &(struct convoy_done){slot, header.generation, 0});
        if (worker == 0)
            say_checked(model, "canary", false);
        process->events->finished_slots(process->context, process);
        cr_assert_eq(answers, worker);
        if (worker == 0) {
            die("one kind");
            end.submit_head = 0;
            say_answer(model, "a1", "1,-4");
            say("{\"type\":\"attached\"}");
        }
    }
    cr_assert(item->status == 0 && outputs[0] == 1, "%g", (double)outputs[0]);
}

/* The first answer to the canary's row is the worker's to tell to a front that follows. */
Test(supervisor_adopt, a_known_answer_comes_with_the_worker)
{
    struct convoy_model_record *model = add_model("a");
    char line[2000];
    load(model);
    start_adopting();
    say_hello();
    cJSON *kind = convoy_worker_command_load_kind(model, CONVOY_LOAD_FILES);
    char *text = cJSON_PrintUnformatted(kind);
    snprintf(line, sizeof line,
             "{\"type\":\"held\",\"model\":0,\"channels\":3,\"height\":2,\"width\":2,\"weight_bytes\":8,"
             "\"outputs\":[{\"name\":\"y\",\"elements\":2}],\"files\":\"a1\",\"load\":%s,"
             "\"canary\":{\"finite\":true,\"values\":[1,-4],\"ranges\":[4,4]}}",
             text);
    cJSON_free(text);
    cJSON_Delete(kind);
    say(line);
    say("{\"type\":\"adopted\"}");
    say("{\"type\":\"attached\"}");
    cr_assert_eq(model->state, CONVOY_MODEL_READY);
    expects_kill = true;
    process->running = false;
    process->events->gone(process->context, process, "signal", "it is dead");
    until_started();
    say_hello();
    say_answer(model, "a1", "-4,1");
    expect_killed("canary");
}

TestSuite(supervisor_files, .init = begin, .fini = end);

static void say_hello_with(int devices, const char *device, bool takes_files)
{
    char line[300];
    snprintf(line, sizeof line,
             "{\"type\":\"hello\",\"abi\":%d,\"device_count\":%d,\"streams\":2,\"backend\":\"cuda\","
             "\"device\":\"%s\",\"jpeg_jobs\":%d}",
             CONVOY_CHANNEL_ABI, devices, device, takes_files ? 4 : 0);
    say(line);
}

static void say_loaded_with(const struct convoy_model_record *model, const char *more)
{
    char line[300];
    snprintf(line, sizeof line,
             "{\"type\":\"loaded\",\"model\":%u,\"channels\":3,\"height\":2,\"width\":2,\"weight_bytes\":8,"
             "\"outputs\":[{\"name\":\"y\",\"elements\":2}]%s}",
             model->number, more);
    say(line);
}

Test(supervisor_files, a_model_takes_files_where_its_worker_says_so)
{
    struct convoy_model_record *model = add_model("a");
    load(model);
    say_hello_with(1, "cuda:0", true);
    say_loaded_with(model, ",\"takes_jpeg\":true");
    cr_assert_not(atomic_load(&model->takes_files), "not before it is served");
    say("{\"type\":\"attached\"}");
    cr_assert_eq(model->state, CONVOY_MODEL_READY);
    cr_assert(atomic_load(&model->takes_files));
    cr_assert_geq(process->channel.size.input_bytes, 16u << 20, "slots have room for photographs");
    /* The next worker finds no decoder. */
    process->running = false;
    process->events->gone(process->context, process, "signal", "it is dead");
    until_started();
    cr_assert(atomic_load(&model->takes_files), "files wait for it");
    say_hello_with(1, "cuda:0", false);
    say_loaded_with(model, "");
    say("{\"type\":\"attached\"}");
    cr_assert_not(atomic_load(&model->takes_files));
}

Test(supervisor_files, all_devices_must_take_them)
{
    struct convoy_model_record *model = add_model("a");
    load(model);
    struct convoy_worker_process *first = process;
    say_hello_with(2, "cuda:0", true);
    struct convoy_worker_process *second = process;
    cr_assert_neq(first, second);
    process = first;
    say_loaded_with(model, ",\"takes_jpeg\":true");
    say("{\"type\":\"attached\"}");
    cr_assert(atomic_load(&model->takes_files), "so far one device has it");
    process = second;
    say_hello_with(2, "cuda:1", false);
    say_loaded_with(model, ",\"takes_jpeg\":false");
    say("{\"type\":\"attached\"}");
    cr_assert_not(atomic_load(&model->takes_files));
    first->running = false;
}

static void say_tuned_with(const struct convoy_model_record *model, const char *more)
{
    char line[300];
    snprintf(line, sizeof line, "{\"type\":\"tuned\",\"model\":%u,\"weight_bytes\":8,\"layers\":[]%s}",
             model->number, more);
    say(line);
}

Test(supervisor_files, a_model_takes_files_when_its_worker_is_prepared)
{
    struct convoy_model_record *model = add_model("a");
    load(model);
    say_hello_with(1, "cuda:0", true);
    say_loaded_with(model, ",\"takes_jpeg\":false");
    say("{\"type\":\"attached\"}");
    cr_assert_eq(model->state, CONVOY_MODEL_READY);
    cr_assert_not(atomic_load(&model->takes_files));
    cr_assert_geq(process->channel.size.input_bytes, 16u << 20, "slots have room for photographs");
    say_tuned_with(model, ",\"takes_jpeg\":true");
    cr_assert(atomic_load(&model->takes_files));
    say_tuned_with(model, "");
    cr_assert(atomic_load(&model->takes_files), "it says nothing of them");
}

Test(supervisor_files, all_devices_must_be_prepared)
{
    struct convoy_model_record *model = add_model("a");
    load(model);
    struct convoy_worker_process *first = process;
    say_hello_with(2, "cuda:0", true);
    struct convoy_worker_process *second = process;
    for (int i = 0; i < 2; i++) {
        process = i == 0 ? first : second;
        if (i == 1)
            say_hello_with(2, "cuda:1", true);
        say_loaded_with(model, ",\"takes_jpeg\":false");
        say("{\"type\":\"attached\"}");
    }
    say_tuned_with(model, ",\"takes_jpeg\":true");
    cr_assert_not(atomic_load(&model->takes_files), "the other one is not");
    process = first;
    say_tuned_with(model, ",\"takes_jpeg\":true");
    cr_assert(atomic_load(&model->takes_files));
    first->running = second->running = false;
}

/* Nothing but the decoder is to blame, and the third worker does without. */
Test(supervisor_files, a_decoder_that_kills_its_workers_is_left_out)
{
    struct convoy_model_record *model = add_model("a"), *other = add_model("b");
    load(model);
    for (int deaths = 0; deaths < 2; deaths++) {
        say_hello_with(1, "cuda:0", true);
        cr_assert(loads_files, "%d deaths", deaths);
        say_loaded_with(model, ",\"takes_jpeg\":false");
        say("{\"type\":\"attached\"}");
        say("{\"type\":\"heartbeat\",\"phase\":\"running\",\"preparing\":true}");
        if (deaths == 0)
            load(other);
        say("{\"type\":\"loading\",\"model\":1}");
        process->running = false;
        process->events->gone(process->context, process, "signal", "it is dead");
        until_started();
    }
    say_hello_with(1, "cuda:0", true);
    cr_assert_not(loads_files);
    say_loaded_with(model, ",\"takes_jpeg\":false");
    say("{\"type\":\"attached\"}");
    cr_assert_eq(model->state, CONVOY_MODEL_READY);
    say_loaded_with(other, ",\"takes_jpeg\":false");
    cr_assert_eq(other->state, CONVOY_MODEL_READY, "that it was being loaded is chance");
}

/* An image that is alone in flight at two deaths in a row would be answered as one that kills workers. */
Test(supervisor_files, an_image_is_not_to_blame_for_a_decoder_that_kills)
{
    struct convoy_model_record *model = add_model("a");
    const struct convoy_item *item = NULL;
    load(model);
    for (int deaths = 0; deaths < 2; deaths++) {
        say_hello_with(1, "cuda:0", true);
        say_loaded_with(model, ",\"takes_jpeg\":false");
        say("{\"type\":\"attached\"}");
        if (item == NULL)
            item = submit_item(model);
        say("{\"type\":\"heartbeat\",\"phase\":\"running\",\"preparing\":true}");
        process->running = false;
        process->events->gone(process->context, process, "signal", "it is dead");
        until_started();
        cr_assert_eq(answers, 0, "status %d after %d deaths", item->status, deaths + 1);
    }
}

Test(supervisor_files, no_file_goes_to_a_device_where_the_front_decodes)
{
    struct convoy_model_record *model = add_model("a");
    config->images.decoder = CONVOY_IMAGE_DECODER_CPU;
    load(model);
    say_hello_with(1, "cuda:0", true);
    say_loaded_with(model, ",\"takes_jpeg\":true");
    say("{\"type\":\"attached\"}");
    cr_assert_eq(model->state, CONVOY_MODEL_READY);
    cr_assert_not(atomic_load(&model->takes_files));
    cr_assert_lt(process->channel.size.input_bytes, 16u << 20);
}
