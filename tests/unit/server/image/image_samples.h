/* The sample images of tests/tools/image_reference.py. image_samples.c writes them once for the test program
 * and removes them at its end. Where python3-pil is missing, samples_folder() skips the test that asks. */
#ifndef CONVOY_TESTS_UNIT_IMAGE_SAMPLES_H
#define CONVOY_TESTS_UNIT_IMAGE_SAMPLES_H

#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Tests run in processes of their own: what the runner found out reaches them through the environment. */
#define SAMPLES_FOLDER "CONVOY_TEST_SAMPLES"
#define SAMPLES_STATE  "CONVOY_TEST_SAMPLES_STATE" /* "ok", "skip", or what went wrong */

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
