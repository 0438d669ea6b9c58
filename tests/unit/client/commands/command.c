/* The client's command line, what it sends for it, and what it prints of foreign text. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/commands/classify.h"
#include "client/lib/http.h"
#include "client/lib/request.h"
#include "client/term/terminal.h"

static struct convoy_failure failure;

#define ARGUMENTS(...)                                                                                       \
    (int)(sizeof((char *[]){__VA_ARGS__}) / sizeof(char *)), (char *[])                                      \
    {                                                                                                        \
        __VA_ARGS__, NULL                                                                                    \
    }

static void refused(int argc, char **argv, const char *part)
{
    struct client_classify_arguments arguments;
    cr_assert_eq(client_classify_arguments(argc, argv, &arguments, &failure), -EINVAL);
    cr_assert(strstr(failure.message, part), "'%s' lacks '%s'", failure.message, part);
}

Test(client_arguments, options_stand_anywhere)
{
    struct client_classify_arguments arguments;
    unsetenv("CONVOY_URL");
    char **argv =
        (char *[]){"classify", "a.jpg", "--top", "3", "-", "--model=m n", "--profile", "--json", NULL};
    cr_assert_eq(client_classify_arguments(8, argv, &arguments, &failure), 0, "%s", failure.message);
    cr_assert_eq(arguments.file_count, 2);
    cr_assert_str_eq(arguments.files[0], "a.jpg");
    cr_assert_str_eq(arguments.files[1], "-");
    cr_assert_eq(arguments.top, 3);
    cr_assert_str_eq(arguments.common.model, "m n");
    cr_assert_null(arguments.common.version);
    cr_assert(arguments.profile && arguments.common.json && !arguments.help);
    cr_assert_str_eq(arguments.common.url, "http://127.0.0.1:8080");
}

Test(client_arguments, the_environment_names_the_server_and_the_option_overrules_it)
{
    struct client_classify_arguments arguments;
    setenv("CONVOY_URL", "http://there:1", 1);
    cr_assert_eq(client_classify_arguments(ARGUMENTS("classify", "a"), &arguments, &failure), 0);
    cr_assert_str_eq(arguments.common.url, "http://there:1");
    cr_assert_eq(client_classify_arguments(ARGUMENTS("classify", "a", "--url", "b"), &arguments, &failure),
                 0);
    cr_assert_str_eq(arguments.common.url, "b");
}

Test(client_arguments, wrong_ones_are_named)
{
    refused(ARGUMENTS("classify"), "name a file");
    refused(ARGUMENTS("classify", "a", "--top", "0"), "--top is '0'");
    refused(ARGUMENTS("classify", "a", "--top", "5x"), "--top is '5x'");
    refused(ARGUMENTS("classify", "a", "--top", "1001"), "1 to 1000");
    refused(ARGUMENTS("classify", "a", "--top", "99999999999999999999"), "1 to 1000");
    refused(ARGUMENTS("classify", "a", "--top"), "'--top' needs a value");
    refused(ARGUMENTS("classify", "a", "--topp", "1"), "no option '--topp'");
    refused(ARGUMENTS("classify", "a", "-x"), "no option '-x'");
    struct client_classify_arguments arguments;
    cr_assert_eq(client_classify_arguments(ARGUMENTS("classify", "--help"), &arguments, &failure), 0);
    cr_assert(arguments.help);
}

Test(client_arguments, numbers)
{
    double value;
    long whole;
    cr_assert_eq(client_read_decimal("rate", "2.5", 0, 10, &value, &failure), 0);
    cr_assert_eq(value, 2.5);
    cr_assert_eq(client_read_decimal("rate", "nan", 0, 10, &value, &failure), -EINVAL);
    cr_assert_eq(client_read_decimal("rate", "inf", 0, 10, &value, &failure), -EINVAL);
    cr_assert_eq(client_read_decimal("rate", "", 0, 10, &value, &failure), -EINVAL);
    cr_assert_eq(client_read_decimal("rate", "11", 0, 10, &value, &failure), -EINVAL);
    cr_assert_eq(client_read_whole("n", "-3", -5, 5, &whole, &failure), 0);
    cr_assert_eq(whole, -3);
}

Test(client_arguments, a_request_encodes_what_it_names)
{
    struct client_request request;
    struct convoy_options options = {.model = "a&b=c/ d?\xC3\xA4",
                                     .version = "1",
                                     .top = 2,
                                     .timeout_ms = 30,
                                     .profile = true,
                                     .threshold = 1e-5};
    struct convoy_image images[] = {{"one", 3}, {"", 0}, {"three\0\r\n--", 10}};
    cr_assert_eq(client_request_build(images, 1, &options, &request, &failure), 0);
    cr_assert_str_eq(request.path, "/classify?model=a%26b%3Dc%2F%20d%3F%C3%A4&version=1&top=2&threshold=0."
                                   "000010000&timeout_ms=30&profile=1");
    cr_assert_eq(request.body, images[0].bytes);
    cr_assert_eq(request.body_size, 3);
    client_request_clear(&request);
    cr_assert_eq(
        client_request_build(images, 1, &(struct convoy_options){.threshold = -1}, &request, &failure), 0);
    cr_assert_str_eq(request.path, "/classify?threshold=0.000000000");
    client_request_clear(&request);
    cr_assert_eq(client_request_build(images, 3, NULL, &request, &failure), 0);
    cr_assert_str_eq(request.path, "/classify");
    const char *boundary = strstr(request.header, "boundary=") + strlen("boundary=");
    char part[200];
    snprintf(part, sizeof part, "\r\n\r\none\r\n--%s\r\n", boundary);
    cr_assert(memmem(request.body, request.body_size, part, strlen(part)));
    snprintf(part, sizeof part, "\r\n--%s--\r\n", boundary);
    cr_assert_eq(memcmp((const char *)request.body + request.body_size - strlen(part), part, strlen(part)),
                 0);
    cr_assert(memmem(request.body, request.body_size, "three\0\r\n--", 10));
    client_request_clear(&request);
}

Test(client_arguments, a_request_that_cannot_be_is_refused)
{
    struct client_request request;
    struct convoy_image image = {"x", 1};
    cr_assert_eq(client_request_build(&image, 0, NULL, &request, &failure), -EINVAL);
    client_request_clear(&request);
    cr_assert_eq(client_request_build(&image, 1, &(struct convoy_options){.top = 1001}, &request, &failure),
                 -EINVAL);
    client_request_clear(&request);
    cr_assert_eq(
        client_request_build(&image, 1, &(struct convoy_options){.threshold = 1.1}, &request, &failure),
        -EINVAL);
    client_request_clear(&request);
    cr_assert_eq(client_request_build(&image, 1, &(struct convoy_options){.model = ""}, &request, &failure),
                 -EINVAL);
    client_request_clear(&request);
}

Test(client_arguments, urls)
{
    static const char *const good[] = {"http://127.0.0.1:8080", "127.0.0.1:8080", "https://a.example/convoy/",
                                       "localhost", "http://[::1]:80"};
    static const char *const bad[] = {"",
                                      "ftp://a",
                                      "http://",
                                      "http://a b",
                                      "http://a/?x=1",
                                      "http://a/#x",
                                      "file:///etc/passwd",
                                      "http://a:99999"};
    struct convoy_client *client;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        cr_assert_eq(convoy_client_open(good[i], &client, &failure), 0, "%s: %s", good[i], failure.message);
        convoy_client_close(client);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_eq(convoy_client_open(bad[i], &client, &failure), -EINVAL, "%s", bad[i]);
        cr_assert_null(client);
    }
}

Test(client_arguments, foreign_text_cannot_steer_the_terminal)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    client_print_safely(out, "a\033[31m\r\n\xC2\x9B"
                             "b\xC3\xA4\x7F");
    fclose(out);
    cr_assert_str_eq(text, "a?[31m???b\xC3\xA4?", "%s", text);
    free(text);
}
