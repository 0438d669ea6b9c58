/* worker.confine_files, worker.readable and worker.user. */
#include "server/config/worker_config.h"

#include "engine/base/json.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct convoy_worker_config worker;
static struct convoy_error error;

static int read_text(const char *text)
{
    cJSON *document;
    struct convoy_json root;
    cr_assert_eq(convoy_json_parse(text, strlen(text), "test.json", &document, &error), 0, "%s",
                 error.message);
    cr_assert_eq(convoy_json_root(document, "test.json", &root, &error), 0);
    int code = convoy_worker_config_read(&root, &worker, &error);
    cJSON_Delete(document);
    return code;
}

static void begin(void)
{
    worker = convoy_worker_config_default;
}

static void end(void)
{
    convoy_worker_config_clear(&worker);
}

TestSuite(worker_config, .init = begin, .fini = end);

Test(worker_config, what_workers_may_read)
{
    cr_assert_eq(
        read_text(
            "{\"worker\":{\"confine_files\":\"on\",\"readable\":[\"/data/a\",\"b\"],\"sandbox\":false}}"),
        0, "%s", error.message);
    cr_assert_eq(worker.confine_files, CONVOY_CONFINE_FILES_ON);
    cr_assert_str_eq(worker.readable[0], "/data/a");
    cr_assert_str_eq(worker.readable[1], "b");
    cr_assert_null(worker.readable[2]);
    cr_assert_not(worker.sandbox);
    cr_assert_null(worker.user);
}

Test(worker_config, the_own_user_is_as_good_as_any)
{
    char text[128], starts_with[32];
    const struct passwd *own = getpwuid(geteuid());
    if (own == NULL)
        cr_skip_test("this user has no name");
    snprintf(text, sizeof text, "{\"worker\":{\"user\":\"%s\"}}", own->pw_name);
    snprintf(starts_with, sizeof starts_with, "%u:%u", (unsigned)own->pw_uid, (unsigned)own->pw_gid);
    cr_assert_eq(read_text(text), 0, "%s", error.message);
    cr_assert_eq(strncmp(worker.user, starts_with, strlen(starts_with)), 0, "%s", worker.user);
    cr_assert_eq(read_text("{\"worker\":{\"user\":null}}"), 0);
    cr_assert_null(worker.user);
}

Test(worker_config, a_number_needs_no_user)
{
    cr_assert_eq(read_text("{\"worker\":{\"user\":\"4294960000\"}}"), 0, "%s", error.message);
    cr_assert_str_eq(worker.user, "4294960000:4294960000");
}
