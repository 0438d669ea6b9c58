/* Writes the sample images before the first test of the program and removes them after the last. */
#include "tests/unit/server/image/image_samples.h"

#include <criterion/hooks.h>
#include <sys/wait.h>

#define SAMPLES_SCRIPT CONVOY_TEST_DATA "/../tools/image_reference.py"

ReportHook(PRE_ALL)(struct criterion_test_set *tests)
{
    (void)tests;
    char folder[] = "/tmp/convoy-samples-XXXXXX";
    char command[1024];
    if (mkdtemp(folder) == NULL) {
        setenv(SAMPLES_STATE, "cannot make a folder for them", 1);
        return;
    }
    setenv(SAMPLES_FOLDER, folder, 1);
    /* Not the first python3 of PATH: python3-pil belongs to the system's. */
    snprintf(command, sizeof command, "/usr/bin/python3 '%s' '%s'", SAMPLES_SCRIPT, folder);
    int status = system(command);
    int code = status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    setenv(SAMPLES_STATE, code == 0 ? "ok" : code == 77 || code == 127 ? "skip" : "the script failed", 1);
}

ReportHook(POST_ALL)(struct criterion_global_stats *stats)
{
    (void)stats;
    char command[1024];
    const char *folder = getenv(SAMPLES_FOLDER);
    if (folder == NULL)
        return;
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    if (system(command) != 0)
        fprintf(stderr, "%s is left behind\n", folder);
}
