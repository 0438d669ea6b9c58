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
    cr_assert(arguments.connection_count == 1 && arguments.connections[0] == 8 && arguments.rate_count == 0 &&
              arguments.seconds == 10 && arguments.batch == 1);
    cr_assert_eq(arguments.path_count, 2);
    char *open_loop[] = {"bench", "a", "--rate", "2.5", "--seconds=0.5", "--batch", "16", NULL};
    cr_assert_eq(client_bench_arguments(7, open_loop, &arguments, &failure), 0, "%s", failure.message);
    cr_assert(arguments.connection_count == 1 && arguments.connections[0] == 128);
    cr_assert(arguments.rate_count == 1 && arguments.rates[0] == 2.5 && arguments.seconds == 0.5);
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

static void expect_usage(const char *part, int argc, char **argv)
{
    struct client_bench_arguments arguments;
    struct convoy_failure failure;
    cr_expect_eq(client_bench_arguments(argc, argv, &arguments, &failure), -EINVAL, "%s", part);
    cr_expect_not_null(strstr(failure.message, part), "'%s', not '%s'", failure.message, part);
}
#define USAGE(part, ...)                                                                                     \
    expect_usage(part, sizeof((char *[]){"bench", __VA_ARGS__}) / sizeof(char *),                            \
                 (char *[]){"bench", __VA_ARGS__, NULL})

Test(client_bench, sweep_arguments)
{
    struct client_bench_arguments arguments;
    struct convoy_failure failure;
    char *plain[] = {"bench", "--sweep", "a", NULL};
    cr_assert_eq(client_bench_arguments(3, plain, &arguments, &failure), 0, "%s", failure.message);
    cr_assert(arguments.sweep && arguments.connection_count == 7 && arguments.rate_count == 0);
    for (size_t i = 0; i < 7; i++)
        cr_assert_eq(arguments.connections[i], 1 << i);
    char *rates[] = {"bench", "--sweep", "--rate", "100,2.5,400", "--report", "x.html", "a", NULL};
    cr_assert_eq(client_bench_arguments(7, rates, &arguments, &failure), 0, "%s", failure.message);
    cr_assert(arguments.rate_count == 3 && arguments.rates[0] == 100 && arguments.rates[1] == 2.5 &&
              arguments.rates[2] == 400);
    cr_assert(arguments.connection_count == 1 && arguments.connections[0] == 128);
    cr_assert_str_eq(arguments.report, "x.html");
    char *connections[] = {"bench", "--sweep", "--connections=3,1", "--rate", "7", "a", NULL};
    cr_assert_eq(client_bench_arguments(6, connections, &arguments, &failure), 0, "%s", failure.message);
    cr_assert(arguments.connection_count == 2 && arguments.connections[0] == 3 &&
              arguments.connections[1] == 1 && arguments.rate_count == 1);
    char *compare[] = {"bench", "--compare", "a", "b", NULL};
    cr_assert_eq(client_bench_arguments(4, compare, &arguments, &failure), 0, "%s", failure.message);
    cr_assert(arguments.compare && arguments.path_count == 2);
}

Test(client_bench, sweep_arguments_that_are_wrong)
{
    char many[2 * CLIENT_BENCH_POINTS + 2]; /* one more than there may be */
    memset(many, '1', sizeof many);
    for (size_t i = 1; i < sizeof many; i += 2)
        many[i] = ',';
    many[sizeof many - 1] = '\0';
    USAGE("only --sweep measures", "--rate", "1,2", "a");
    USAGE("only --sweep measures", "--connections", "1,2", "a");
    USAGE("both lists", "--sweep", "--connections", "1,2", "--rate", "1,2", "a");
    USAGE("more than 64", "--sweep", "--rate", many, "a");
    USAGE("--rate is ''", "--sweep", "--rate", "1,,2", "a");
    USAGE("--rate is ''", "--sweep", "--rate", "1,", "a");
    USAGE("--rate is ''", "--sweep", "--rate", "", "a");
    USAGE("--connections is '0'", "--sweep", "--connections", "4,0", "a");
    USAGE("--rate is '1;2'", "--sweep", "--rate", "1;2", "a");
    USAGE("--rate is '11111111111", "--rate",
          "111111111111111111111111111111111111111111111111111111111111111111111111111111111111", "a");
    USAGE("needs --sweep or --compare", "--report", "x", "a");
    USAGE("the name of a file", "--sweep", "--report", "", "a");
    USAGE("exclude each other", "--sweep", "--compare", "a", "b");
    USAGE("two reports, 1", "--compare", "a");
    USAGE("two reports, 3", "--compare", "a", "b", "c");
    USAGE("name a folder", "--sweep");
}
