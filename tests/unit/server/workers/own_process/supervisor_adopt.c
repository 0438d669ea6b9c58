/* A front that follows another one: with a worker that has loaded what the front before asked for. */
#include "tests/unit/server/workers/own_process/supervisor_harness.h"

#include "server/workers/worker_command.h"

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
