/* When tuning of a device is given up. */
#include "server/workers/supervisor_internal.h"

#include <criterion/criterion.h>

static struct convoy_config config = {.tune = CONVOY_TUNE_ON};
static struct convoy_supervisor supervisor = {.config = &config};

static void die(struct device_worker *worker, const char *phase, bool busy)
{
    snprintf(worker->phase, sizeof worker->phase, "%s", phase);
    convoy_heartbeat_died(worker, busy);
    cr_assert_str_empty(worker->phase, "the next worker has said nothing yet");
}

Test(heartbeat, tuning_is_given_up_after_two_deaths_of_it)
{
    struct device_worker worker = {.supervisor = &supervisor};
    die(&worker, "tuning", false);
    cr_assert_str_eq(convoy_heartbeat_tune(&worker), "on");
    die(&worker, "tuning", false);
    cr_assert_str_eq(convoy_heartbeat_tune(&worker), "off");
}

Test(heartbeat, deaths_of_something_else_leave_tuning_alone)
{
    struct device_worker worker = {.supervisor = &supervisor};
    for (int i = 0; i < 3; i++) {
        die(&worker, "running", false);
        die(&worker, "tuning", true); /* between two pieces of tuning it ran a slot, and died of that */
    }
    cr_assert_str_eq(convoy_heartbeat_tune(&worker), "on");
}
