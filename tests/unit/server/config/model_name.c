/* What models and versions may be called. */
#include "server/config/model_name.h"

#include <criterion/criterion.h>

#include <string.h>

Test(model_name, names_and_versions)
{
    char name[CONVOY_MODEL_NAME_BYTES + 2];
    memset(name, 'a', sizeof name);
    name[CONVOY_MODEL_NAME_BYTES + 1] = '\0';
    cr_assert_not(convoy_model_name_valid(name));
    name[CONVOY_MODEL_NAME_BYTES] = '\0';
    cr_assert(convoy_model_name_valid(name));
    static const char *const good[] = {"a", "A-b_c.9", "9", "_", "a..b"};
    static const char *const bad[] = {"",    ".",        "..", ".a", "a/b", "../../etc/passwd",
                                      "a b", "\xC3\xA4", "a\n"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        cr_assert(convoy_model_name_valid(good[i]), "%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_assert_not(convoy_model_name_valid(bad[i]), "%s", bad[i]);
    static const char *const versions[] = {"1", "10", "999999999"};
    static const char *const wrong[] = {"", "0", "01", "1000000000", "-1", "+1", "1.0", "1 ", "v1", "1\n"};
    for (size_t i = 0; i < sizeof versions / sizeof versions[0]; i++)
        cr_assert(convoy_model_version_valid(versions[i]), "%s", versions[i]);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        cr_assert_not(convoy_model_version_valid(wrong[i]), "%s", wrong[i]);
}
