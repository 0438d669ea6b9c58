/* The command lines of `convoy load` and `convoy unload`, the path that they ask for, and what answers mean.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/commands/load.h"

static struct convoy_failure failure;

/* The words of line, between bars, after the command's name. */
static int read_line(const char *line, struct client_load_arguments *arguments)
{
    static char text[200]; /* arguments point into it */
    char *words[16], *rest = NULL;
    int count = 0;
    snprintf(text, sizeof text, "load%s%s", *line ? "|" : "", line);
    for (char *at = text; at && count < 15; at = rest) {
        rest = strchr(at, '|');
        if (rest)
            *rest++ = '\0';
        words[count++] = at;
    }
    words[count] = NULL;
    memset(&failure, 0, sizeof failure);
    return client_load_arguments(count, words, arguments, &failure);
}

Test(client_load, command_lines)
{
    static const struct {
        const char *line, *model, *url;
        long timeout_s;
        bool json;
    } cases[] = {
        {"cat", "cat", "http://127.0.0.1:8080", 600, false},
        {"--json|cat", "cat", "http://127.0.0.1:8080", 600, true},
        {"cat|--timeout|1", "cat", "http://127.0.0.1:8080", 1, false},
        {"--timeout=86400|--url|there|cat", "cat", "there", 86400, false},
        {"--|--json", "--json", "http://127.0.0.1:8080", 600, false},
    };
    struct client_load_arguments arguments;
    unsetenv("CONVOY_URL");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert_eq(read_line(cases[i].line, &arguments), 0, "%s: %s", cases[i].line, failure.message);
        cr_assert_str_eq(arguments.common.model, cases[i].model);
        cr_assert_str_eq(arguments.common.url, cases[i].url);
        cr_assert_eq(arguments.timeout_s, cases[i].timeout_s);
        cr_assert_eq(arguments.common.json, cases[i].json);
        cr_assert_not(arguments.help);
    }
    cr_assert_eq(read_line("--help", &arguments), 0);
    cr_assert(arguments.help);
}

Test(client_load, command_lines_that_are_wrong)
{
    static const struct {
        const char *line, *named;
    } cases[] = {
        {"", "name a model"},
        {"--json", "name a model"},
        {"cat|dog", "'dog'"},
        {"|cat", "'cat'"}, /* an empty word, and one too many */
        {"--|", "empty"},
        {".", "'.'"},
        {"..", "'..'"},
        {"cat|--timeout", "'--timeout' needs a value"},
        {"cat|--timeout|0", "1 to 86400"},
        {"cat|--timeout|86401", "1 to 86400"},
        {"cat|--timeout|1.5", "'1.5'"},
        {"cat|--version|1", "--version"},
        {"--model|cat", "--model"},
        {"cat|-t", "'-t'"},
    };
    struct client_load_arguments arguments;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert_eq(read_line(cases[i].line, &arguments), -EINVAL, "%s", cases[i].line);
        cr_assert_not_null(strstr(failure.message, cases[i].named), "%s: %s", cases[i].line, failure.message);
    }
}

static void asks(const char *model, const char *verb, const char *wanted)
{
    char *path = client_load_path(model, verb);
    cr_assert_str_eq(path, wanted);
    free(path);
}

Test(client_load, a_name_stays_one_part_of_the_path)
{
    asks("cat", "load", "/v2/repository/models/cat/load");
    asks("cat", "unload", "/v2/repository/models/cat/unload");
    asks("unload", "load", "/v2/repository/models/unload/load");
    asks("a/../b?c#d%41 e", "load", "/v2/repository/models/a%2F..%2Fb%3Fc%23d%2541%20e/load");
    asks("...", "unload", "/v2/repository/models/.../unload");
}

static int read_text(const char *text, int status)
{
    struct client_response response = {text, strlen(text), status, 3, "an-id"};
    memset(&failure, 0, sizeof failure);
    return client_load_read(&response, &failure);
}

Test(client_load, answers)
{
    static const char *const others[] = {"", "[]", "7", "<html>", "{", "{}x", "null", "\"{}\""};
    cr_assert_eq(read_text("{}\n", 200), 0);
    cr_assert_eq(read_text("{\"from_the_future\":[1]}", 200), 0);
    cr_assert_eq(read_text("{\"error\":\"models/net/2 is damaged\"}", 400), -EREMOTEIO);
    cr_assert_str_eq(failure.message, "models/net/2 is damaged");
    cr_assert_str_eq(failure.request_id, "an-id");
    cr_assert(failure.status == 400 && failure.retry_after_s == 3);
    /* Done is what 200 says alone. */
    cr_assert_eq(read_text("{}", 201), -EPROTO);
    cr_assert_eq(read_text("{}", 404), -EPROTO);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        cr_assert_eq(read_text(others[i], 200), -EPROTO, "%s", others[i]);
        cr_assert_not_null(strstr(failure.message, "not a convoyd's"), "%s", failure.message);
    }
}
