/* A folder for the file of kernel times, of each test one, for those whose tolerance is of a row's largest
 * output. Header only. */
#ifndef CONVOY_TESTS_CUDA_TIMES_H
#define CONVOY_TESTS_CUDA_TIMES_H

#include "tests/unit/engine/cuda/tune/cuda_tuning.h"

#include "tests/unit/folder.h"

#include "engine/base/file.h"

#define TIMES_FILE     "emulated-GPU-0.times"
#define TOLERANCE_FP16 1e-2

static struct folder folder;

static inline void make_folder(void)
{
    folder = folder_make();
    by_largest = true;
}

static inline void remove_folder(void)
{
    close_backend();
    folder_remove(&folder);
}

/* The file's text, which the caller frees. */
static inline char *read_times(void)
{
    size_t length;
    char *text;
    struct convoy_error error;
    cr_assert_eq(convoy_file_read(folder_path(&folder, TIMES_FILE), 1 << 20, &text, &length, &error), 0, "%s",
                 error.message);
    return text;
}

#endif
