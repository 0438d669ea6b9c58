/* What the supervisor sends to a worker, and what becomes of what cannot be sent. */
#include "tests/unit/server/workers/own_process/supervisor_harness.h"

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
