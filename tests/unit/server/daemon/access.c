/* What of a configuration that was read again only a restart takes over. */
#include "server/daemon/access.h"

#include <criterion/criterion.h>

static const struct convoy_access_config with = {.auth = {.keys = "keys"}, .admin_listen = "auto"};

/* "" where nothing needs a restart. */
static const char *restart_for(const struct convoy_access_config *started,
                               const struct convoy_access_config *fresh)
{
    static struct convoy_error restart;
    const struct convoy_config config = {.access = *started};
    const struct convoy_access_control access = {.gate = {.config = &config}};

    return convoy_access_restart(&access, fresh, &restart) ? restart.message : "";
}

Test(access, what_is_the_same_needs_no_restart)
{
    struct convoy_access_config same = {.auth = {.keys = (char[]){"keys"}}, .admin_listen = (char[]){"auto"}};
    const struct convoy_access_config without = {0};

    same.limits.burst = 7; /* SIGHUP takes it over */
    cr_assert_str_eq(restart_for(&with, &same), "");
    cr_assert_str_eq(restart_for(&without, &without), "");
}

Test(access, each_setting_is_named)
{
    struct convoy_access_config fresh = with;

    fresh.auth.keys = NULL;
    cr_assert_str_eq(restart_for(&with, &fresh), "auth.keys is taken over at a start alone: restart convoyd");
    fresh = with;
    fresh.auth.loopback_admin = true;
    cr_assert_str_eq(restart_for(&with, &fresh),
                     "auth.loopback_admin is taken over at a start alone: restart convoyd");
    fresh = with;
    fresh.admin_listen = "unix:/run/x";
    cr_assert_str_eq(restart_for(&with, &fresh),
                     "admin_listen is taken over at a start alone: restart convoyd");
}

Test(access, several_are_named_in_one_sentence)
{
    const struct convoy_access_config fresh = {.auth = {.keys = "others", .loopback_admin = true}};

    cr_assert_str_eq(restart_for(&with, &fresh), "auth.keys, auth.loopback_admin, admin_listen are taken "
                                                 "over at a start alone: restart convoyd");
    cr_assert_str_eq(restart_for(&fresh, &with), "auth.keys, auth.loopback_admin, admin_listen are taken "
                                                 "over at a start alone: restart convoyd");
}
