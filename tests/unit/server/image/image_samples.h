/* The sample images of tests/tools/image_reference.py, written once for a test program and removed at its
 * end.
 *
 * A Criterion program that includes this has them in every test; where python3-pil is missing,
 * samples_folder() skips the test that asks. */
#ifndef CONVOY_TESTS_UNIT_IMAGE_SAMPLES_H
#define CONVOY_TESTS_UNIT_IMAGE_SAMPLES_H

#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Tests run in processes of their own: what the runner found out reaches them through the environment. */
#define SAMPLES_FOLDER "CONVOY_TEST_SAMPLES"
#define SAMPLES_STATE  "CONVOY_TEST_SAMPLES_STATE" /* "ok", "skip", or what went wrong */
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

/* Skips or fails the test when there are no samples. */
static inline const char *samples_folder(void)
{
    const char *state = getenv(SAMPLES_STATE);
    cr_assert_not_null(state, "the runner did not prepare the samples");
    if (strcmp(state, "skip") == 0)
        cr_skip_test("python3-pil is missing: no reference images");
    cr_assert_str_eq(state, "ok", "samples: %s", state);
    return getenv(SAMPLES_FOLDER);
}

/* A file in memory of exactly its size, so that the address sanitizer sees one byte too many. The caller
 * frees. */
static inline uint8_t *samples_read(const char *name, size_t *length)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/%s", samples_folder(), name);
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file, "%s is missing", path);
    cr_assert_eq(fseek(file, 0, SEEK_END), 0);
    long size = ftell(file);
    cr_assert(size >= 0);
    rewind(file);
    uint8_t *bytes = malloc((size_t)size);
    cr_assert_not_null(bytes);
    cr_assert_eq(fread(bytes, 1, (size_t)size, file), (size_t)size);
    fclose(file);
    *length = (size_t)size;
    return bytes;
}

#endif
