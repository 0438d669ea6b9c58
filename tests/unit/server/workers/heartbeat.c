/* What a worker's phase means for its device: when tuning is given up. */
#include "server/workers/heartbeat.h"
#include "server/workers/supervisor_internal.h"

#include <criterion/criterion.h>

static struct convoy_config config = {.tune = CONVOY_TUNE_ON};
static struct convoy_supervisor supervisor = {.config = &config};

static void die(struct member *member, const char *phase, bool busy)
{
    snprintf(member->phase, sizeof member->phase, "%s", phase);
    convoy_heartbeat_died(member, busy);
    cr_assert_str_empty(member->phase, "the next worker has said nothing yet");
}

Test(heartbeat, tuning_is_given_up_after_two_deaths_of_it)
{
    struct member member = {.supervisor = &supervisor};
    die(&member, "tuning", false);
    cr_assert_str_eq(convoy_heartbeat_tune(&member), "on");
    die(&member, "tuning", false);
    cr_assert_str_eq(convoy_heartbeat_tune(&member), "off");
}

Test(heartbeat, deaths_of_something_else_leave_tuning_alone)
{
    struct member member = {.supervisor = &supervisor};
    for (int i = 0; i < 3; i++) {
        die(&member, "running", false);
        die(&member, "tuning", true); /* between two pieces of tuning it ran a slot, and died of that */
    }
    cr_assert_str_eq(convoy_heartbeat_tune(&member), "on");
}
