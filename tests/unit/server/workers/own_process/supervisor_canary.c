/* Whether a worker computes what others did. */
#include "tests/unit/server/workers/own_process/supervisor_harness.h"

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

/* The other end of the channel, as a process that was started has it. */
static void take_end(struct convoy_channel *end)
{
    struct convoy_error problem;
    /* Both ends share this process's descriptors: destroying the front's end closes them. */
    cr_assert_eq(convoy_channel_attach(end, process->channel.memory_fd, process->channel.worker_doorbell_fd,
                                       &process->channel.size, &problem),
                 0, "%s", problem.message);
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
