/* The command line of convoyd. */
#include "server/daemon/options.h"

#include "tests/unit/folder.h"

static struct convoy_error error;
static struct convoy_daemon_options options;

static int parse(char **arguments)
{
    int count = 0;
    while (arguments[count] != NULL)
        count++;
    return convoy_options_parse(count, arguments, &options, &error);
}

#define PARSE(...) parse((char *[]){"convoyd", ##__VA_ARGS__, NULL})

Test(options, none)
{
    cr_assert_eq(PARSE(), 0);
    cr_assert(options.config == NULL && options.models == NULL && options.listen_count == 0 &&
              options.backend == NULL && options.tune == NULL);
    cr_assert_not(options.check_config || options.version || options.help);
}

Test(options, go_over_the_file)
{
    struct convoy_config *config;
    cr_assert_eq(convoy_config_load(CONVOY_TEST_DATA "/config/every_key.json", &config, &error), 0, "%s",
                 error.message);
    cr_assert_eq(PARSE("--config", "c.json", "--models=m", "--listen", "127.0.0.1:0", "--listen=unix:/run/x",
                       "--backend=null", "--health-listen", "[::1]:9", "--tune", "off", "--check-config"),
                 0, "%s", error.message);
    cr_assert_str_eq(options.config, "c.json");
    cr_assert(options.check_config && !options.help && !options.version);
    cr_assert_eq(convoy_options_apply(&options, config, &error), 0);
    cr_assert_str_eq(config->models, "m");
    cr_assert_eq(config->listen.count, 2);
    cr_assert_str_eq(config->listen.list[0].written, "127.0.0.1:0");
    cr_assert_str_eq(config->listen.list[0].host, "127.0.0.1");
    cr_assert_eq(config->listen.list[0].port, 0);
    cr_assert_str_eq(config->listen.list[1].path, "/run/x");
    cr_assert_str_eq(config->health_listen, "[::1]:9");
    cr_assert_str_eq(config->health_host, "::1");
    cr_assert_eq(config->health_port, 9);
    cr_assert_eq(config->backend, CONVOY_BACKEND_NULL);
    cr_assert_eq(config->tune, CONVOY_TUNE_OFF);
    cr_assert_eq(config->timeout_ms, 2001, "what no option says stays");

    cr_assert_eq(PARSE("--models", "a", "--models", "b"), 0);
    cr_assert_eq(convoy_options_apply(&options, config, &error), 0);
    cr_assert_str_eq(config->models, "b");
    cr_assert_eq(config->backend, CONVOY_BACKEND_NULL);
    cr_assert_eq(PARSE("-h", "--version"), 0);
    cr_assert(options.help && options.version);
    convoy_config_free(config);
}

Test(options, one_address_cannot_be_both)
{
    struct convoy_config *config = convoy_config_default();
    cr_assert_eq(PARSE("--listen=h:1", "--health-listen=h:1"), 0);
    cr_assert_eq(convoy_options_apply(&options, config, &error), -EINVAL);
    assert_says(error, "health_listen and listen are both h:1");
    cr_assert_eq(PARSE("--listen=h:1", "--health-listen=h:2"), 0);
    cr_assert_eq(convoy_options_apply(&options, config, &error), 0);
    cr_assert_eq(PARSE("--listen=:0", "--health-listen=:0"), 0);
    cr_assert_eq(convoy_options_apply(&options, config, &error), 0, "any two free ports");
    convoy_config_free(config);
}

Test(options, mistakes_are_named)
{
    cr_assert_eq(PARSE("--modles", "x"), -EINVAL);
    assert_says(error, "unknown option '--modles'; convoyd --help lists the options");
    cr_assert_eq(PARSE("--model=x"), -EINVAL);
    assert_says(error, "unknown option '--model=x'");
    cr_assert_eq(PARSE("--c"), -EINVAL);
    assert_says(error, "unknown option '--c'");
    cr_assert_eq(PARSE("-x"), -EINVAL);
    assert_says(error, "unknown option '-x'");
    cr_assert_eq(PARSE("-hx"), -EINVAL);
    assert_says(error, "unknown option '-hx'");
    cr_assert_eq(PARSE("models"), -EINVAL);
    assert_says(error, "'models' is no option");
    cr_assert_eq(PARSE("--check-config", "models", "--help"), -EINVAL);
    assert_says(error, "'models' is no option");
    cr_assert_eq(PARSE("--", "--help"), -EINVAL);
    assert_says(error, "'--help' is no option");
    cr_assert_eq(PARSE("models"), -EINVAL);
    assert_says(error, "'models' is no option");
    cr_assert_eq(PARSE(""), -EINVAL);
    cr_assert_eq(PARSE("--models"), -EINVAL);
    assert_says(error, "--models needs a value");
    cr_assert_eq(PARSE("--models="), -EINVAL);
    assert_says(error, "--models needs a value that is not empty");
    cr_assert_eq(PARSE("--backend", "gpu"), -EINVAL);
    assert_says(error, "--backend must be one of auto, cpu, cuda, null; found 'gpu'");
    cr_assert_eq(PARSE("--tune=maybe"), -EINVAL);
    assert_says(error, "--tune must be one of on, off, force; found 'maybe'");
    cr_assert_eq(PARSE("--listen", "8080"), -EINVAL);
    assert_says(error, "--listen must be HOST:PORT");
    cr_assert_eq(PARSE("--listen", "a:1", "--listen", "a:1"), -EINVAL);
    assert_says(error, "--listen: 'a:1' is there twice");
    cr_assert_eq(PARSE("--health-listen", "8081"), -EINVAL);
    assert_says(error, "--health-listen must be HOST:PORT");
    cr_assert_eq(PARSE("--version=1"), -EINVAL);
    assert_says(error, "--version takes no value");
}

Test(options, help_names_every_option)
{
    static const char *const names[] = {
        "--config FILE",  "--models DIR", "--listen HOST:PORT", "--health-listen HOST:PORT",
        "--backend NAME", "--tune MODE",  "--check-config",     "--version",
        "--help"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        cr_assert_not_null(strstr(convoy_options_help(), names[i]), "%s", names[i]);
}
