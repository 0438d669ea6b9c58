/* What a worker is started with, of what it is confined to. */
#include "server/workers/worker_arguments.h"

#include <criterion/criterion.h>
#include <string.h>

static void expect(const struct convoy_worker_arguments *arguments, const char *wanted)
{
    char text[600] = "";
    for (uint32_t i = 0; i < arguments->count; i++) {
        strcat(text, " ");
        strcat(text, arguments->list[i]);
    }
    cr_assert_str_eq(text, wanted);
    cr_assert_null(arguments->list[arguments->count]);
}

Test(worker_arguments, by_default_the_models_folder_alone_is_told)
{
    struct convoy_worker_arguments arguments = {0};
    struct convoy_worker_sandbox sandbox = {&convoy_worker_config_default, "models", false};
    convoy_worker_arguments_confine(&arguments, &sandbox);
    expect(&arguments, " --read models");
    arguments = (struct convoy_worker_arguments){0};
    sandbox.models_change = true;
    convoy_worker_arguments_confine(&arguments, &sandbox);
    expect(&arguments, " --confine-files off --read models");
}

Test(worker_arguments, all_that_is_configured)
{
    char *readable[] = {"/data", "/more", NULL}, user[] = "5:6,7";
    struct convoy_worker_config config = {
        .confine_files = CONVOY_CONFINE_FILES_ON, .readable = readable, .user = user};
    struct convoy_worker_arguments arguments = {0};
    const struct convoy_worker_sandbox sandbox = {&config, "models", true};
    convoy_worker_arguments_confine(&arguments, &sandbox);
    expect(&arguments,
           " --sandbox off --user 5:6,7 --confine-files on --read models --read /data --read /more");
}

Test(worker_arguments, there_is_room_for_the_most_that_a_configuration_holds)
{
    char *readable[CONVOY_MOST_READABLE + 1], user[] = "5:6", folder[] = "f";
    for (int i = 0; i < CONVOY_MOST_READABLE; i++)
        readable[i] = folder;
    readable[CONVOY_MOST_READABLE] = NULL;
    struct convoy_worker_config config = {
        .confine_files = CONVOY_CONFINE_FILES_OFF, .readable = readable, .user = user};
    struct convoy_worker_settings settings = {.device_index = 1000,
                                              .streams = 16,
                                              .cache_dir = "cache",
                                              .pixels_only = true,
                                              .canary_ms = 1,
                                              .orphan_ms = 1,
                                              .sandbox = {&config, "models", false}};
    struct convoy_worker_arguments arguments;
    struct convoy_error error;
    cr_assert_eq(convoy_worker_arguments_make(&arguments, &settings, "cuda", "force", &error), 0);
    uint32_t before = arguments.count;
    convoy_worker_arguments_add(&arguments, "the last");
    cr_assert_eq(arguments.count, before + 1);
    cr_assert_str_eq(arguments.list[before - 1], "f");
    cr_assert_eq(before, 18u + 2 * (4 + CONVOY_MOST_READABLE));
}
