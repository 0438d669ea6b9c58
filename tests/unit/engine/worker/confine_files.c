/* What a process that is confined may open. Criterion runs each test in a process of its own. */
#include "engine/worker/confine_files.h"

#include "tests/unit/folder.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static struct folder models, other, cache;
static struct convoy_worker_folders folders;
static struct convoy_error error;

static void begin(void)
{
    models = folder_make();
    other = folder_make();
    cache = folder_make();
    folder_write(&models, "a/1/model.onnx", "model");
    folder_write(&other, "secret", "key");
    folder_write(&other, "linked/1/model.onnx", "model");
    folders = (struct convoy_worker_folders){.read = {models.path}, .count = 1, .write = cache.path};
}

/* A confined process removes nothing: see what confined() does. */
static void end(void)
{
    folder_remove(&models);
    folder_remove(&other);
    folder_remove(&cache);
}

TestSuite(confine_files, .init = begin, .fini = end, .timeout = 60);

/* errno of an open(2), or 0. */
static int open_code(const char *path, int flags)
{
    int file = open(path, flags | O_CLOEXEC, 0600);
    if (file < 0)
        return errno;
    close(file);
    return 0;
}

enum { MOST_CODES = 16 };

/* Runs what in a confined child, which writes down what each try came to; skips the test where there is no
 * Landlock. */
static void confined(void (*what)(int codes[MOST_CODES]), int codes[MOST_CODES])
{
    int ends[2], status;
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        int found[MOST_CODES] = {0}, abi = convoy_worker_confine_files(&folders, &error);
        if (abi > 0)
            what(found);
        if (abi < 0)
            _exit(abi == -ENOSYS || abi == -EOPNOTSUPP || abi == -EPERM ? 77 : 1);
        _exit(write(ends[1], found, sizeof found) == (ssize_t)sizeof found ? 0 : 1);
    }
    cr_assert_gt(child, 0);
    close(ends[1]);
    cr_assert_eq(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        cr_skip_test("this kernel or container has no Landlock");
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with %d", status);
    cr_assert_eq(read(ends[0], codes, MOST_CODES * sizeof *codes), (ssize_t)(MOST_CODES * sizeof *codes));
    close(ends[0]);
}

static void try_all(int codes[MOST_CODES])
{
    codes[0] = open_code(folder_path(&models, "a/1/model.onnx"), O_RDONLY);
    codes[1] = open_code(folder_path(&models, "a/1/model.onnx"), O_RDWR);
    codes[2] = open_code(folder_path(&models, "new"), O_WRONLY | O_CREAT);
    codes[3] = unlink(folder_path(&models, "a/1/model.onnx")) == 0 ? 0 : errno;
    codes[4] = open_code(folder_path(&other, "secret"), O_RDONLY);
    codes[5] = open_code(other.path, O_RDONLY | O_DIRECTORY);
    codes[6] = open_code("/etc/passwd", O_RDONLY);
    codes[7] = open_code("/dev/shm", O_RDONLY | O_DIRECTORY);
    codes[8] = open_code("/proc/self/maps", O_RDONLY);
    codes[9] = open_code("/dev/null", O_RDWR);
    codes[10] = open_code("/usr/bin/env", O_RDONLY);
}

Test(confine_files, models_are_read_and_nothing_else_of_this_machine)
{
    static const int wanted[] = {0, EACCES, EACCES, EACCES, EACCES, EACCES, EACCES, EACCES, 0, 0, 0};
    int codes[MOST_CODES];
    confined(try_all, codes);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        cr_assert_eq(codes[i], wanted[i], "%zu: %s", i, strerror(codes[i]));
}

static void write_cache(int codes[MOST_CODES])
{
    const char *old = folder_path(&cache, "one.7"), *new = folder_path(&cache, "one");
    codes[0] = open_code(old, O_WRONLY | O_CREAT | O_EXCL);
    codes[1] = rename(old, new) == 0 ? 0 : errno;
    codes[2] = open_code(new, O_WRONLY | O_TRUNC);
    codes[3] = unlink(new) == 0 ? 0 : errno;
    codes[4] = symlink("/etc/passwd", folder_path(&cache, "link")) == 0 ? 0 : errno;
    codes[5] = mkdir(folder_path(&cache, "folder"), 0700) == 0 ? 0 : errno;
}

Test(confine_files, the_cache_is_written)
{
    static const int wanted[] = {0, 0, 0, 0, EACCES, EACCES};
    int codes[MOST_CODES];
    confined(write_cache, codes);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        cr_assert_eq(codes[i], wanted[i], "%zu: %s", i, strerror(codes[i]));
}

static void read_links(int codes[MOST_CODES])
{
    codes[0] = open_code(folder_path(&models, "b/1/model.onnx"), O_RDONLY);
    codes[1] = open_code(folder_path(&models, "a/1/link.onnx"), O_RDONLY);
    codes[2] = open_code(folder_path(&other, "secret"), O_RDONLY);
}

/* Who writes into the models' folder names models; who writes into a model's names nothing. */
Test(confine_files, links_in_the_models_folder_are_followed_and_those_in_a_model_are_not)
{
    int codes[MOST_CODES];
    cr_assert_eq(symlink(folder_path(&other, "linked"), folder_path(&models, "b")), 0);
    cr_assert_eq(symlink(folder_path(&other, "secret"), folder_path(&models, "a/1/link.onnx")), 0);
    confined(read_links, codes);
    cr_assert_eq(codes[0], 0);
    cr_assert_eq(codes[1], EACCES);
    cr_assert_eq(codes[2], EACCES);
    folders.read[folders.count++] = other.path;
    confined(read_links, codes);
    cr_assert_eq(codes[1], 0, "a folder that is named besides");
}

static void *try_in_a_thread(void *code)
{
    *(int *)code = open_code(folder_path(&other, "secret"), O_RDONLY);
    return NULL;
}

/* codes[0]: what it writes; codes[1]: of its start. */
static void run_in_a_thread(void *(*what)(void *), int codes[MOST_CODES])
{
    pthread_t thread;
    codes[1] = pthread_create(&thread, NULL, what, &codes[0]);
    if (codes[1] == 0)
        pthread_join(thread, NULL);
}

static void start_a_thread(int codes[MOST_CODES])
{
    run_in_a_thread(try_in_a_thread, codes);
    codes[2] = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
}

Test(confine_files, threads_that_are_made_later_are_confined)
{
    int codes[MOST_CODES];
    confined(start_a_thread, codes);
    cr_assert_eq(codes[0], EACCES);
    cr_assert_eq(codes[1], 0);
    cr_assert_eq(codes[2], 1);
}

static void *name_itself(void *code)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/comm", (int)gettid());
    *(int *)code = open_code(path, O_WRONLY | O_CREAT | O_TRUNC);
    return NULL;
}

static void name_a_thread(int codes[MOST_CODES])
{
    run_in_a_thread(name_itself, codes);
}

/* As NVIDIA's driver (580.159) opens it, without which cuInit() ends with "OS call failed". */
Test(confine_files, a_thread_is_named_through_a_file_that_is_emptied)
{
    int codes[MOST_CODES];
    confined(name_a_thread, codes);
    cr_assert_eq(codes[1], 0);
    cr_assert_eq(codes[0], 0, "%s", strerror(codes[0]));
}

Test(confine_files, folders_that_are_not_there_are_passed_by_and_the_cache_is_made)
{
    int codes[MOST_CODES];
    folders.read[folders.count++] = "/nonexistent/folder";
    folders.write = folder_path(&cache, "below");
    confined(try_all, codes);
    cr_assert_eq(codes[0], 0);
    cr_assert_eq(access(folders.write, R_OK | W_OK | X_OK), 0);
}

static void *wait_for_the_end(void *pipe)
{
    char byte;
    return read(*(int *)pipe, &byte, 1) == 0 ? NULL : pipe;
}

/* What a library started would stay as free as it was. */
Test(confine_files, a_process_with_several_threads_is_not_confined)
{
    int ends[2];
    pthread_t thread;
    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(pthread_create(&thread, NULL, wait_for_the_end, &ends[0]), 0);
    int code = convoy_worker_confine_files(&folders, &error);
    close(ends[1]);
    pthread_join(thread, NULL);
    close(ends[0]);
    if (code == -ENOSYS || code == -EOPNOTSUPP || code == -EPERM)
        cr_skip_test("this kernel or container has no Landlock");
    cr_assert_eq(code, -EBUSY, "%s", error.message);
    cr_assert_eq(open_code(folder_path(&other, "secret"), O_RDONLY), 0);
}
