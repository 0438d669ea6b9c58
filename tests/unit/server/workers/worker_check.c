/* `convoy-worker --check`, played by shell scripts. */
#include "server/workers/worker_check.h"

#include "tests/unit/folder.h"

#include <signal.h>

static struct folder folder;
static struct convoy_error error;
static cJSON *answer;

static struct convoy_model_input input;
static struct convoy_config config = {
    .backend = CONVOY_BACKEND_CPU, .models = "models", .worker = {.sandbox = true}};

static int check(const char *script, uint64_t limit_us)
{
    char text[400];
    snprintf(text, sizeof text, "#!/bin/sh\n%s\n", script);
    const char *program = folder_write(&folder, "worker", text);
    cr_assert_eq(chmod(program, 0700), 0);
    return convoy_worker_check_run(program, &config, "some/model.onnx", &input, limit_us, &answer, &error);
}

static void begin(void)
{
    folder = folder_make();
}

static void end(void)
{
    cJSON_Delete(answer);
    folder_remove(&folder);
}
TestSuite(worker_check, .init = begin, .fini = end);

#define LONG_US 60000000u

Test(worker_check, it_is_asked_about_the_model_and_its_answer_is_handed_over)
{
    cr_assert_eq(check("echo \"{\\\"asked\\\": \\\"$*\\\"}\"", LONG_US), 0, "%s", error.message);
    cr_assert_str_eq(cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(answer, "asked")),
                     "--check some/model.onnx --backend cpu --read models");
}

Test(worker_check, what_the_configuration_says_of_the_input_is_handed_over)
{
    input = (struct convoy_model_input){.layout = CONVOY_AXES_NHWC, .height = 65535, .width = 7};
    cr_assert_eq(check("echo \"{\\\"asked\\\": \\\"$*\\\"}\"", LONG_US), 0, "%s", error.message);
    cr_assert_str_eq(
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(answer, "asked")),
        "--check some/model.onnx --backend cpu --layout nhwc --height 65535 --width 7 --read models");
}

Test(worker_check, one_that_hangs_is_ended)
{
    char script[200];
    snprintf(script, sizeof script, "echo $$ >%s; exec sleep 600", folder_path(&folder, "pid"));
    cr_assert_eq(check(script, 300000), -ETIMEDOUT);
    cr_assert_not_null(strstr(error.message, "0.3 s"), "%s", error.message);
    cr_assert_null(answer);
    FILE *file = fopen(folder_path(&folder, "pid"), "r");
    int pid;
    if (file != NULL && fscanf(file, "%d", &pid) == 1) /* it came so far */
        cr_assert(kill(pid, 0) != 0 && errno == ESRCH, "it is still there");
    if (file != NULL)
        fclose(file);
}

Test(worker_check, one_that_answers_and_does_not_end_is_ended)
{
    cr_assert_eq(check("echo '{}'; exec sleep 600", LONG_US), 0, "%s", error.message);
}

Test(worker_check, one_that_dies_is_told_apart_from_one_that_talks_nonsense)
{
    cr_assert_eq(check("kill -9 $$", LONG_US), -EIO);
    cr_assert_eq(check("echo '{\"half\": '", LONG_US), -EPROTO);
    cr_assert_eq(check("exec cat /dev/zero", LONG_US), -EMSGSIZE);
    cr_assert_eq(
        convoy_worker_check_run(folder_path(&folder, "none"), &config, "m", &input, LONG_US, &answer, &error),
        -ENOENT);
    assert_says(error, "cannot start");
}
