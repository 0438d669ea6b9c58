/* When a spare may take the place of a worker that is ending. */
#include "server/workers/supervisor_internal.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct convoy_config config;
static struct convoy_supervisor supervisor = {.config = &config};
static struct device_worker worker = {.supervisor = &supervisor};
static int spare; /* its end of its control socket */

static void begin(void)
{
    int pair[2];
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    worker.process.spares.each[1] =
        (struct convoy_worker_spare){.exists = true, .number = 4, .control = pair[0]};
    spare = pair[1];
}

static void end(void)
{
    close(worker.process.spares.each[1].control);
    close(spare);
}
TestSuite(supervisor_ending, .init = begin, .fini = end);

static void says(const char *line)
{
    cr_assert_eq(send(spare, line, strlen(line), 0), (ssize_t)strlen(line));
}

static bool may(void)
{
    return convoy_ending_may_leave(&worker, &worker.process);
}

Test(supervisor_ending, a_spare_has_to_be_ready)
{
    cr_assert(!may(), "it has said nothing");
    says("{\"type\":\"log\",\"level\":\"info\",\"text\":\"opened\"}\n{\"type\":\"opened\",\"free\":51,");
    cr_assert(!may(), "it has not said all");
    says("\"total\":100}\n");
    cr_assert(may());
    cr_assert(may(), "what it says was taken out");
    worker.process.spares.each[0] =
        (struct convoy_worker_spare){.exists = true, .number = 3, .control = spare};
    cr_assert(!may(), "an older one would be taken, which is not ready");
    worker.process.spares.each[0].exists = worker.process.spares.each[1].exists = false;
    cr_assert(!may(), "there is none");
}

Test(supervisor_ending, half_of_the_memory_has_to_be_free)
{
    says("{\"type\":\"opened\",\"free\":50,\"total\":100}\n");
    cr_assert(!may());
}

Test(supervisor_ending, what_is_no_memory_is_not_believed)
{
    says("{\"type\":\"memory\",\"free\":60,\"total\":100}\n");
    says("{\"type\":\"opened\",\"free\":1e300,\"total\":1e300}\n{\"type\":\"opened\",\"free\":60,\"total\":"
         "50}\n"
         "{\"type\":\"opened\",\"free\":-1,\"total\":50}\n{\"type\":\"opened\"}\nno JSON\n");
    cr_assert(!may());
}

static void on_stopped(void *context)
{
    (void)context;
}

Test(supervisor_ending, one_at_a_time_and_not_at_the_end)
{
    says("{\"type\":\"opened\",\"free\":60,\"total\":100}\n");
    worker.process.left.exists = true;
    cr_assert(!may());
    worker.process.left.exists = false;
    cr_assert(may());
    supervisor.stopped = on_stopped;
    cr_assert(!may());
    supervisor.stopped = NULL;
    worker.retires = true;
    cr_assert(!may());
}
