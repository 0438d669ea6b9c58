/* --check-config, with a worker that says what the tests want, and without memory. */
#include "server/daemon/check_config.h"
#include "server/workers/environment.h"
#include "server/workers/worker_check.h"

#include "tests/unit/folder.h"

#include <criterion/redirect.h>

static const char *hanging; /* a model that does not get loaded */
static int checked;         /* models that the worker was asked about */

char **convoy_worker_environment(void)
{
    return NULL;
}

int convoy_worker_program(char *path, size_t capacity, struct convoy_error *error)
{
    (void)error;
    snprintf(path, capacity, "convoy-worker");
    return 0;
}

int convoy_worker_check_run(const char *program, const struct convoy_config *config, const char *path,
                            const struct convoy_model_input *input, uint64_t limit_us, cJSON **answer,
                            struct convoy_error *error)
{
    (void)program, (void)config, (void)input;
    cr_assert_geq(limit_us, 60000000u, "a model that the daemon would load in time is in order");
    *answer = NULL;
    checked++;
    if (hanging != NULL && strstr(path, hanging) != NULL)
        return convoy_fail(error, -ETIMEDOUT, "it hangs");
    *answer = cJSON_Parse("{\"channels\":3,\"height\":2,\"width\":2,\"outputs\":[{\"elements\":2}]}");
    return 0;
}

/* In place of the C library's; the sanitizers bring their own, and go without this check. */
#ifndef __SANITIZE_ADDRESS__
static int fails_at; /* that call of calloc() finds no memory; 0: none */
static int calls;

extern void *__libc_calloc(size_t count, size_t size);
void *calloc(size_t count, size_t size);
__attribute__((visibility("default"))) void *calloc(size_t count, size_t size)
{
    return fails_at > 0 && ++calls == fails_at ? NULL : __libc_calloc(count, size);
}
#endif

static struct folder folder;
static struct convoy_config *config;

static void begin(void)
{
    folder = folder_make();
    folder_write(&folder, "good/1/model.onnx", "a network");
    folder_write(&folder, "slow/3/model.onnx", "a network");
    config = convoy_config_default();
    free(config->models);
    config->models = strdup(folder.path);
    cr_redirect_stdout();
    cr_redirect_stderr();
}

static void end(void)
{
    convoy_config_free(config);
    folder_remove(&folder);
}
TestSuite(check_config, .init = begin, .fini = end);

/* What is said of a model that is in order. */
#define REPORT                                                                                               \
    "  input    '', 3 x 2 x 2 (channels x height x width)\n"                                                 \
    "  pictures red, green, blue, stretched to 2 x 2 (width x height), bilinear\n"                           \
    "  pixels   (0 to 255) times 0.00392157, less 0, divided by 1\n"                                         \
    "  output   '', 2 classes, softmax makes probabilities\n"                                                \
    "  labels   none: classes are called by their numbers\n"                                                 \
    "  weights  0.0 MB on each device, fp32 at least\n"

Test(check_config, models_in_order)
{
    cr_assert_eq(convoy_check_config(config), 0);
    fflush(stdout);
    cr_assert_stdout_eq_str("configuration (built-in values): ok\n"
                            "model good version 1: ok\n" REPORT "model slow version 3: ok\n" REPORT);
}

Test(check_config, a_model_that_hangs_is_named_and_the_others_are_checked)
{
    hanging = "slow";
    cr_assert_eq(convoy_check_config(config), 1);
    fflush(stdout);
    cr_assert_stdout_eq_str("configuration (built-in values): ok\n"
                            "model good version 1: ok\n" REPORT "model slow version 3: it hangs\n");
}

#ifndef __SANITIZE_ADDRESS__
/* Whichever allocation fails: what was not checked is not in order. */
Test(check_config, without_memory_it_fails)
{
    int failures = 0;
    do {
        calls = checked = 0;
        fails_at++;
        int status = convoy_check_config(config);
        cr_assert(status != 0 || checked == 2, "call %d of calloc: %d of 2 were checked", fails_at, checked);
        failures += status != 0;
    } while (calls >= fails_at);
    cr_assert_gt(failures, 10, "%d", failures);
}
#endif
