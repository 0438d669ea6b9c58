/* The arguments of `convoy bench`. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "client/commands/bench.h"

Test(client_bench, bench_arguments)
{
    struct client_bench_arguments arguments;
    struct convoy_failure failure;
    char *plain[] = {"bench", "a", "b", NULL};
    cr_assert_eq(client_bench_arguments(3, plain, &arguments, &failure), 0);
    cr_assert(arguments.connections == 8 && arguments.rate == 0 && arguments.seconds == 10 &&
              arguments.batch == 1);
    cr_assert_eq(arguments.path_count, 2);
    char *open_loop[] = {"bench", "a", "--rate", "2.5", "--seconds=0.5", "--batch", "16", NULL};
    cr_assert_eq(client_bench_arguments(7, open_loop, &arguments, &failure), 0, "%s", failure.message);
    cr_assert(arguments.connections == 128 && arguments.rate == 2.5 && arguments.seconds == 0.5);
    cr_assert_eq(arguments.batch, 16);
    static const char *const wrong[][2] = {{"--rate", "0"},    {"--rate", "-1"}, {"--rate", "nan"},
                                           {"--seconds", "0"}, {"--batch", "0"}, {"--connections", "1e3"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char *argv[] = {"bench", "a", (char *)wrong[i][0], (char *)wrong[i][1], NULL};
        cr_assert_eq(client_bench_arguments(4, argv, &arguments, &failure), -EINVAL, "%s", wrong[i][0]);
        cr_assert(strstr(failure.message, wrong[i][0]), "%s", failure.message);
    }
    char *none[] = {"bench", NULL};
    cr_assert_eq(client_bench_arguments(1, none, &arguments, &failure), -EINVAL);
}
