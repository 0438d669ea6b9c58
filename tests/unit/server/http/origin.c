#include "server/http/origin.h"

#include <criterion/criterion.h>

static char *const hosts[] = {"convoy.example", "10.1.2.3", NULL};

Test(origin, programs_send_none)
{
    cr_assert(convoy_origin_allowed(NULL, "anything", NULL));
    cr_assert(convoy_origin_allowed(NULL, NULL, hosts));
}

Test(origin, a_page_of_this_server_passes)
{
    static const char *const pairs[][2] = {
        {"http://localhost:8080", "localhost:8080"},
        {"http://127.0.0.1:8080", "127.0.0.1:8080"},
        {"http://127.9.9.9", "127.9.9.9"},
        {"https://[::1]:8443", "[::1]:8443"},
        {"http://LocalHost:1", "localhost:1"},
        {"https://convoy.example", "Convoy.Example"},
        {"http://convoy.example:80", "convoy.example:80"},
        {"http://10.1.2.3:8080", "10.1.2.3:8080"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        cr_assert(convoy_origin_allowed(pairs[i][0], pairs[i][1], hosts), "%s", pairs[i][0]);
}

Test(origin, others_do_not)
{
    static const char *const pairs[][2] = {
        {"http://evil.example", "localhost:8080"},
        {"http://localhost:8080", "localhost:8081"},
        {"http://localhost", "localhost:8080"},
        {"null", "localhost:8080"},
        {"", "localhost:8080"},
        {"localhost:8080", "localhost:8080"},
        {"file://localhost:8080", "localhost:8080"},
        {"http://localhost:8080", NULL},
        {"http://rebound.example:8080", "rebound.example:8080"}, /* a foreign name that resolves to us */
        {"http://localhost.evil.example", "localhost.evil.example"},
        {"http://127.0.0.1.evil.example", "127.0.0.1.evil.example"},
        {"http://127.1", "127.1"},
        {"http://[::1", "[::1"},
        {"http://convoy.example.evil", "convoy.example.evil"},
        {"http://10.1.2.30", "10.1.2.30"},
        {"http://128.0.0.1", "128.0.0.1"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        cr_assert_not(convoy_origin_allowed(pairs[i][0], pairs[i][1], hosts), "%s", pairs[i][0]);
    cr_assert_not(convoy_origin_allowed("http://convoy.example", "convoy.example", NULL));
}
