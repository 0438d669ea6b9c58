/* What a worker is asked for beside a process that is ending and not dead. */
#include "tests/unit/server/workers/own_process/supervisor_harness.h"

#include "engine/base/clock.h"

TestSuite(supervisor_ending, .init = begin, .fini = end);

Test(supervisor_ending, what_does_not_fit_beside_the_worker_before_is_loaded_when_that_is_gone)
{
    struct convoy_model_record *a = add_model("a"), *b = add_model("b");
    load(a);
    load(b);
    comes_beside();
    say_hello();
    say_measured(a, 3);
    say_measured(b, 3);
    say("{\"type\":\"attached\"}");
    say("{\"type\":\"loading\",\"model\":0}");
    say_loaded(a);
    say("{\"type\":\"loading\",\"model\":1}");
    say("{\"type\":\"failed\",\"model\":1,\"reason\":\"no memory\"}");
    cr_assert_eq(b->state, CONVOY_MODEL_LOADING);
    sent[0] = '\0';
    left_is_gone();
    cr_assert_str_eq(sent, "load beside 1\nmemory\n");
    say("{\"type\":\"loading\",\"model\":1}");
    say_loaded(b);
    cr_assert_eq(b->state, CONVOY_MODEL_READY);
}

/* A front that has just adopted what the one before has left: slots have no size yet. */
Test(supervisor_ending, a_model_that_is_not_measured_is_loaded_again_too)
{
    struct convoy_model_record *a = add_model("a");
    load(a);
    comes_beside();
    say_hello();
    say("{\"type\":\"loading\",\"model\":0}");
    say("{\"type\":\"failed\",\"model\":0,\"reason\":\"no memory\"}");
    cr_assert_eq(a->state, CONVOY_MODEL_LOADING);
    sent[0] = '\0';
    left_is_gone();
    cr_assert_str_eq(sent, "load 0\nmemory\n");
}

Test(supervisor_ending, while_models_are_measured_none_is_loaded)
{
    load(add_model("a"));
    load(add_model("b"));
    comes_beside();
    say_hello();
    sent[0] = '\0';
    left_is_gone();
    cr_assert_str_eq(sent, "memory\n");
}

/* Whether the next spare is started now. */
static bool starts_spare(void)
{
    spares_kept = 0;
    convoy_spare_keep(process->context, convoy_now_us());
    return spares_kept > 0;
}

Test(supervisor_ending, the_next_spare_comes_when_models_are_loaded_and_the_worker_before_is_gone)
{
    struct convoy_model_record *a = add_model("a"), *b = add_model("b");
    load(a);
    load(b);
    process->spares.wanted = 1;
    process->was_spare = true;
    comes_beside();
    say_hello();
    snprintf(supervisor->backend, sizeof supervisor->backend, "cuda");
    say_measured(a, 3);
    say_measured(b, 3);
    say("{\"type\":\"attached\"}");
    say_loaded(a);
    say("{\"type\":\"memory\",\"weights\":1,\"workspace\":1,\"free\":8e10,\"total\":9e10}");
    say("{\"type\":\"heartbeat\",\"phase\":\"running\"}");
    cr_assert(!starts_spare(), "beside the loading of another model");
    say_loaded(b);
    cr_assert(!starts_spare(), "beside a worker that is ending");
    left_is_gone();
    cr_assert(starts_spare());
    process->was_spare = false;
    cr_assert(!starts_spare(), "beside one that has just been started");
}

Test(supervisor_ending, what_does_not_fit_at_all_fails_all_the_same)
{
    struct convoy_model_record *a = add_model("a");
    load(a);
    comes_beside();
    say_hello();
    say("{\"type\":\"loading\",\"model\":0}");
    left_is_gone(); /* while it is loaded */
    sent[0] = '\0';
    say("{\"type\":\"failed\",\"model\":0,\"reason\":\"no memory\"}");
    cr_assert_str_eq(sent, "load 0\n");
    cr_assert_eq(a->state, CONVOY_MODEL_LOADING);
    say("{\"type\":\"failed\",\"model\":0,\"reason\":\"no memory\"}");
    cr_assert_eq(a->state, CONVOY_MODEL_FAILED);
    cr_assert_null(strstr(sent + 1, "load"), "again and again");
}

/* The supervisor looks at it when it is ending for so long. */
static void watch_after(uint64_t ending_us)
{
    process->heard_us = convoy_now_us();
    process->left.since_us = process->heard_us - ending_us;
    convoy_watch(&supervisor->watch);
}

Test(supervisor_ending, one_that_does_not_end_is_no_excuse_for_ever)
{
    struct convoy_model_record *a = add_model("a"), *b = add_model("b");
    uint64_t limit_us = convoy_supervisor_load_limit_us(config);
    load(a);
    load(b);
    process->spares.wanted = 1;
    process->was_spare = true;
    comes_beside();
    say_hello();
    snprintf(supervisor->backend, sizeof supervisor->backend, "cuda");
    say_measured(a, 3);
    say_measured(b, 3);
    say("{\"type\":\"attached\"}");
    say_loaded(a);
    say("{\"type\":\"memory\",\"weights\":1,\"workspace\":1,\"free\":8e10,\"total\":9e10}");
    say("{\"type\":\"heartbeat\",\"phase\":\"running\"}");
    say("{\"type\":\"loading\",\"model\":1}");
    say("{\"type\":\"failed\",\"model\":1,\"reason\":\"no memory\"}");
    sent[0] = '\0';
    watch_after(limit_us / 2);
    cr_assert_str_empty(sent);
    watch_after(limit_us + 1);
    cr_assert_str_eq(sent, "load beside 1\nmemory\n", "it is tried for the last time: %s", sent);
    watch_after(limit_us + 1);
    cr_assert_str_eq(sent, "load beside 1\nmemory\n", "once: %s", sent);
    say("{\"type\":\"loading\",\"model\":1}");
    say("{\"type\":\"failed\",\"model\":1,\"reason\":\"no memory\"}");
    cr_assert_eq(b->state, CONVOY_MODEL_FAILED);
    cr_assert_str_eq(sent, "load beside 1\nmemory\n", "again and again: %s", sent);
    cr_assert(starts_spare(), "none is kept for as long as it is ending");
}

/* The front was stopped meanwhile. */
Test(supervisor_ending, a_load_that_began_beside_it_is_excused_whatever_the_clock_says)
{
    struct convoy_model_record *a = add_model("a");
    load(a);
    comes_beside();
    say_hello();
    say("{\"type\":\"loading\",\"model\":0}");
    left_is_gone();
    atomic_store(&supervisor->turned_us, convoy_now_us() - 60000000);
    convoy_watch(&supervisor->watch);
    say("{\"type\":\"failed\",\"model\":0,\"reason\":\"no memory\"}");
    cr_assert_eq(a->state, CONVOY_MODEL_LOADING);
}

Test(supervisor_ending, a_load_that_began_when_it_was_gone_is_not_excused)
{
    struct convoy_model_record *a = add_model("a");
    load(a);
    comes_beside();
    say_hello();
    left_is_gone();
    say("{\"type\":\"loading\",\"model\":0}");
    say("{\"type\":\"failed\",\"model\":0,\"reason\":\"no memory\"}");
    cr_assert_eq(a->state, CONVOY_MODEL_FAILED);
}
