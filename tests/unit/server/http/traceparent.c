/* The header traceparent: what is one, and what becomes of it. */
#include "server/http/traceparent.h"

#include <criterion/criterion.h>
#include <string.h>

#define TRACE  "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00f067aa0ba902b7"

Test(traceparent, reads_what_is_to_the_letter)
{
    static const struct {
        const char *text;
        bool valid, sampled;
    } cases[] = {
        {"00-" TRACE "-" PARENT "-01", true, true},
        {"00-" TRACE "-" PARENT "-00", true, false},
        {"00-" TRACE "-" PARENT "-02", true, false},
        {"00-" TRACE "-" PARENT "-ff", true, true},
        {"cc-" TRACE "-" PARENT "-01", true, true},
        {"cc-" TRACE "-" PARENT "-01-what-comes", true, true},
        {"cc-" TRACE "-" PARENT "-01.what", false, false},
        {"00-" TRACE "-" PARENT "-01-", false, false},
        {"00-" TRACE "-" PARENT "-01 ", false, false},
        {" 00-" TRACE "-" PARENT "-01", false, false},
        {"ff-" TRACE "-" PARENT "-01", false, false},
        {"0-" TRACE "-" PARENT "-01", false, false},
        {"00-" TRACE "-" PARENT "-0", false, false},
        {"00-" TRACE "-" PARENT, false, false},
        {"00-00000000000000000000000000000000-" PARENT "-01", false, false},
        {"00-" TRACE "-0000000000000000-01", false, false},
        {"00-4BF92F3577B34DA6A3CE929D0E0E4736-" PARENT "-01", false, false},
        {"00-" TRACE "-00F067aa0ba902b7-01", false, false},
        {"00-" TRACE "-" PARENT "-0G", false, false},
        {"00_" TRACE "-" PARENT "-01", false, false},
        {"00-" TRACE "_" PARENT "-01", false, false},
        {"00-" TRACE "-" PARENT "_01", false, false},
        {"", false, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct convoy_trace_context context = {.trace_id = "x"};
        cr_assert_eq(convoy_traceparent_parse(cases[i].text, &context), cases[i].valid, "%s", cases[i].text);
        cr_assert_str_eq(context.trace_id, cases[i].valid ? TRACE : "x");
        cr_assert_str_eq(context.parent_id, cases[i].valid ? PARENT : "");
        cr_assert_eq(context.sampled, cases[i].sampled, "%s", cases[i].text);
    }
}

Test(traceparent, goes_on_or_begins)
{
    struct convoy_trace_context context, next;
    char text[CONVOY_TRACEPARENT_BYTES];
    convoy_traceparent_take("00-" TRACE "-" PARENT "-01", true, &context);
    cr_assert_str_eq(context.trace_id, TRACE);
    cr_assert_str_eq(context.parent_id, PARENT);
    cr_assert_str_neq(context.span_id, PARENT);
    convoy_traceparent_write(&context, text);
    cr_assert(convoy_traceparent_parse(text, &next), "%s", text);
    cr_assert_str_eq(next.trace_id, TRACE);
    cr_assert_str_eq(next.parent_id, context.span_id, "this request is the parent of what follows");
    cr_assert(next.sampled);

    convoy_traceparent_take("00-" TRACE "-" PARENT "-01", false, &context);
    cr_assert_str_neq(context.trace_id, TRACE, "two headers name no trace");
    cr_assert_str_eq(context.parent_id, "");
    cr_assert_not(context.sampled);
    convoy_traceparent_write(&context, text);
    cr_assert(convoy_traceparent_parse(text, &next), "%s", text);
    convoy_traceparent_take("wrong", true, &next);
    cr_assert_str_neq(context.trace_id, next.trace_id, "each trace is another");
}

Test(traceparent, a_trace_that_begins_here_is_recorded)
{
    struct convoy_trace_context context, next, other;
    char text[CONVOY_TRACEPARENT_BYTES];
    convoy_traceparent_begin(&context);
    convoy_traceparent_begin(&other);
    cr_assert_str_neq(context.trace_id, other.trace_id);
    cr_assert_str_neq(context.span_id, other.span_id);
    cr_assert_str_eq(context.parent_id, "");
    convoy_traceparent_write(&context, text);
    cr_assert(convoy_traceparent_parse(text, &next), "%s", text);
    cr_assert_str_eq(next.trace_id, context.trace_id);
    cr_assert(next.sampled);
}
