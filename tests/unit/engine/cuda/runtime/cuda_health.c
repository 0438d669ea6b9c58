/* NVML and the thread that asks it, with the stand-in of tests/emulation/nvml.c. */
#include "engine/base/clock.h"
#include "engine/cuda/runtime/health.h"
#include "engine/cuda/runtime/nvml.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SECOND    "00000000:20:00.0"
#define PERIOD_MS 20
#define LIMIT_US  10000000u /* of waiting for what must come */
#define UNKNOWN   CONVOY_HEALTH_UNKNOWN

static char wishes[64], xid_file[64];
static atomic_int warnings, infos;
static char last_log[512];

/* A library that is loaded is found by its name, wherever it lies. */
static void *load_stand_in(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    cr_assert(library != NULL, "%s", dlerror());
    return library;
}

static void begin_files(void)
{
    snprintf(wishes, sizeof wishes, "/tmp/convoy-nvml-%d", (int)getpid());
    snprintf(xid_file, sizeof xid_file, "/tmp/convoy-xid-%d", (int)getpid());
    setenv("CONVOY_EMULATED_NVML", wishes, 1);
    setenv("CONVOY_EMULATED_XID", xid_file, 1);
}

static void end_files(void)
{
    unlink(wishes);
    unlink(xid_file);
}

/* A file that has its content when it appears. */
static void write_file(const char *path, const char *text)
{
    char made[80];
    snprintf(made, sizeof made, "%s.new", path);
    FILE *file = fopen(made, "w");
    cr_assert(file != NULL && fputs(text, file) >= 0);
    fclose(file);
    cr_assert_eq(rename(made, path), 0);
}

static void log_line(void *context, const char *level, const char *text)
{
    (void)context;
    snprintf(last_log, sizeof last_log, "%s", text);
    atomic_fetch_add(strcmp(level, "warning") == 0 ? &warnings : &infos, 1);
}

TestSuite(cuda_health, .init = begin_files, .fini = end_files, .timeout = 60);

Test(cuda_health, without_the_library_nothing_is_known)
{
    struct convoy_nvml nvml;
    struct convoy_error error;
    struct convoy_device_health now;
    if (dlopen(CONVOY_NVML_LIBRARY, RTLD_NOW | RTLD_LOCAL) != NULL)
        cr_skip("this machine has NVML");
    cr_assert_eq(convoy_nvml_open(&nvml, &error), -ENOENT);
    cr_assert(strstr(error.message, CONVOY_NVML_LIBRARY) != NULL, "%s", error.message);
    convoy_nvml_close(&nvml);

    struct convoy_cuda_health *health = convoy_cuda_health_begin(PERIOD_MS, NULL, log_line);
    convoy_cuda_health_find(health, SECOND, 10000);
    convoy_cuda_health_watch(health);
    cr_assert_not(convoy_cuda_health_read(health, 0, &now));
    cr_assert_not(convoy_cuda_health_read(health, 10, &now));
    convoy_cuda_health_end(health);
    cr_assert(strstr(last_log, CONVOY_NVML_LIBRARY) != NULL, "%s", last_log);
    cr_assert_eq(warnings, 0);
}

static void sample(const char *path, const char *wish, uint64_t values[CONVOY_HEALTH_VALUES])
{
    struct convoy_nvml nvml;
    struct convoy_error error;
    load_stand_in(path);
    cr_assert_eq(convoy_nvml_open(&nvml, &error), 0, "%s", error.message);
    cr_assert_eq(convoy_nvml_find(&nvml, SECOND, &error), 0, "%s", error.message);
    convoy_nvml_watch_errors(&nvml);
    if (wish != NULL)
        write_file(wishes, wish);
    values[CONVOY_HEALTH_XIDS] = nvml.events != NULL;
    convoy_nvml_sample(&nvml, values);
    unlink(wishes);
    convoy_nvml_close(&nvml);
}

#define THROTTLED (UINT64_C(1) << CONVOY_THROTTLE_POWER_CAP | UINT64_C(1) << CONVOY_THROTTLE_HW_THERMAL)

static const uint64_t of_second[CONVOY_HEALTH_VALUES] = {
    [CONVOY_HEALTH_UTILIZATION] = 32,
    [CONVOY_HEALTH_MEMORY_UTILIZATION] = 8,
    [CONVOY_HEALTH_JPEG_UTILIZATION] = 16,
    [CONVOY_HEALTH_MEMORY_USED] = UINT64_C(32) << 30,
    [CONVOY_HEALTH_MEMORY_TOTAL] = UINT64_C(80) << 30,
    [CONVOY_HEALTH_TEMPERATURE] = 52,
    [CONVOY_HEALTH_POWER] = 32250,
    [CONVOY_HEALTH_POWER_LIMIT] = 632000,
    [CONVOY_HEALTH_THROTTLED] = THROTTLED,
    [CONVOY_HEALTH_ECC_VOLATILE] = 2,
    [CONVOY_HEALTH_ECC_AGGREGATE] = 12,
    [CONVOY_HEALTH_XIDS] = 1,
};

static void expect_sample(const char *path, const char *wish, const uint64_t *expected)
{
    uint64_t values[CONVOY_HEALTH_VALUES] = {0};
    sample(path, wish, values);
    for (int i = 0; i <= CONVOY_HEALTH_XIDS; i++)
        cr_expect_eq(values[i], expected[i], "%s: %llu", convoy_health_names[i],
                     (unsigned long long)values[i]);
}

Test(cuda_health, every_value_is_that_of_the_gpu_at_this_place)
{
    expect_sample(CONVOY_TEST_NVML_NEW, NULL, of_second);
}

/* Functions under other names are found; what is in none is unknown. */
Test(cuda_health, a_library_may_lack_functions)
{
    uint64_t expected[CONVOY_HEALTH_VALUES];
    memcpy(expected, of_second, sizeof expected);
    expected[CONVOY_HEALTH_JPEG_UTILIZATION] = UNKNOWN;
    expected[CONVOY_HEALTH_XIDS] = 0;
    expect_sample(CONVOY_TEST_NVML_OLD, NULL, expected);
}

Test(cuda_health, a_call_that_fails_leaves_its_value_unknown)
{
    static const struct {
        const char *function;
        enum convoy_health_value values[2];
    } calls[] = {
        {"nvmlDeviceGetUtilizationRates", {CONVOY_HEALTH_UTILIZATION, CONVOY_HEALTH_MEMORY_UTILIZATION}},
        {"nvmlDeviceGetJpgUtilization", {CONVOY_HEALTH_JPEG_UTILIZATION, CONVOY_HEALTH_JPEG_UTILIZATION}},
        {"nvmlDeviceGetMemoryInfo", {CONVOY_HEALTH_MEMORY_USED, CONVOY_HEALTH_MEMORY_TOTAL}},
        {"nvmlDeviceGetPowerUsage", {CONVOY_HEALTH_POWER, CONVOY_HEALTH_POWER}},
        {"nvmlDeviceGetEnforcedPowerLimit", {CONVOY_HEALTH_POWER_LIMIT, CONVOY_HEALTH_POWER_LIMIT}},
        {"nvmlDeviceGetCurrentClocksEventReasons", {CONVOY_HEALTH_THROTTLED, CONVOY_HEALTH_THROTTLED}},
        {"nvmlDeviceGetTotalEccErrors", {CONVOY_HEALTH_ECC_VOLATILE, CONVOY_HEALTH_ECC_AGGREGATE}},
    };
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        uint64_t expected[CONVOY_HEALTH_VALUES];
        char wish[80];
        memcpy(expected, of_second, sizeof expected);
        expected[calls[i].values[0]] = expected[calls[i].values[1]] = UNKNOWN;
        snprintf(wish, sizeof wish, "%s 999\n", calls[i].function);
        expect_sample(CONVOY_TEST_NVML_NEW, wish, expected);
    }
    /* Asked in another way. */
    expect_sample(CONVOY_TEST_NVML_NEW, "nvmlDeviceGetTemperature 3\n", of_second);
}

Test(cuda_health, a_driver_that_refuses_is_told)
{
    struct convoy_nvml nvml;
    struct convoy_error error;
    load_stand_in(CONVOY_TEST_NVML_NEW);
    write_file(wishes, "nvmlInit_v2 9\n");
    cr_assert_eq(convoy_nvml_open(&nvml, &error), -EIO);
    cr_assert(strstr(error.message, "emulated error 9") != NULL, "%s", error.message);
    convoy_nvml_close(&nvml);
    unlink(wishes);
    cr_assert_eq(convoy_nvml_open(&nvml, &error), 0);
    cr_assert_eq(convoy_nvml_find(&nvml, "00000000:11:00.0", &error), -ENODEV);
    cr_assert(strstr(error.message, "00000000:11:00.0") != NULL, "%s", error.message);
    convoy_nvml_close(&nvml);
}

static struct convoy_cuda_health *watch(const char *path)
{
    load_stand_in(path);
    struct convoy_cuda_health *health = convoy_cuda_health_begin(PERIOD_MS, NULL, log_line);
    cr_assert(health != NULL);
    convoy_cuda_health_find(health, SECOND, 10000);
    convoy_cuda_health_watch(health);
    return health;
}

/* Waits until the health's number has grown past one. */
static void next(struct convoy_cuda_health *health, uint64_t number, struct convoy_device_health *now)
{
    const struct timespec tick = {.tv_nsec = 2000000};
    uint64_t until_us = convoy_now_us() + LIMIT_US;
    now->number = 0;
    while (!(convoy_cuda_health_read(health, 0, now) && now->number > number)) {
        cr_assert(convoy_now_us() < until_us, "no sample came");
        nanosleep(&tick, NULL);
    }
}

Test(cuda_health, samples_follow_each_other)
{
    struct convoy_device_health now;
    struct convoy_cuda_health *health = watch(CONVOY_TEST_NVML_NEW);
    next(health, 0, &now);
    cr_expect_eq(now.values[CONVOY_HEALTH_POWER], 32250u);
    cr_expect_eq(now.values[CONVOY_HEALTH_XIDS], 0u);
    cr_expect_eq(now.values[CONVOY_HEALTH_LAST_XID], UNKNOWN);
    write_file(wishes, "nvmlDeviceGetPowerUsage 999\n");
    next(health, now.number + 1, &now);
    cr_expect_eq(now.values[CONVOY_HEALTH_POWER], UNKNOWN);
    convoy_cuda_health_end(health);
    cr_expect_eq(warnings, 0);
    cr_expect_eq(infos, 1);
}

Test(cuda_health, errors_are_counted_and_waited_for)
{
    struct convoy_device_health now;
    struct convoy_cuda_health *health = watch(CONVOY_TEST_NVML_NEW);
    next(health, 0, &now);
    write_file(xid_file, "31\n");
    cr_assert(convoy_cuda_health_read(health, LIMIT_US / 1000, &now));
    cr_expect_eq(now.values[CONVOY_HEALTH_XIDS], 1u);
    cr_expect_eq(now.values[CONVOY_HEALTH_LAST_XID], 31u);
    /* It is told once: the next wait is for another one. */
    uint64_t before_us = convoy_now_us();
    cr_assert(convoy_cuda_health_read(health, 30, &now));
    cr_expect_geq(convoy_now_us() - before_us, 30000u);
    cr_expect_eq(now.values[CONVOY_HEALTH_XIDS], 1u);
    write_file(xid_file, "79\n");
    cr_assert(convoy_cuda_health_read(health, LIMIT_US / 1000, &now));
    cr_expect_eq(now.values[CONVOY_HEALTH_XIDS], 2u);
    cr_expect_eq(now.values[CONVOY_HEALTH_LAST_XID], 79u);
    convoy_cuda_health_end(health);
    cr_expect_eq(warnings, 2);
    cr_expect(strstr(last_log, "Xid 79") != NULL, "%s", last_log);
}

/* Samples go on, at their pace, and what was counted stays. */
Test(cuda_health, reports_that_end_do_not_end_the_samples)
{
    struct convoy_device_health now;
    struct convoy_cuda_health *health = watch(CONVOY_TEST_NVML_NEW);
    next(health, 0, &now);
    const atomic_uint *waits = dlsym(load_stand_in(CONVOY_TEST_NVML_NEW), "convoy_emulated_nvml_waits");
    write_file(wishes, "nvmlEventSetWait_v2 15\n");
    next(health, now.number + 2, &now);
    unsigned waited = atomic_load(waits);
    uint64_t number = now.number, before_us = convoy_now_us();
    next(health, number + 5, &now);
    cr_expect_geq(convoy_now_us() - before_us, 4u * PERIOD_MS * 1000u);
    cr_expect_eq(atomic_load(waits), waited, "what fails at once is asked again");
    cr_expect_eq(now.values[CONVOY_HEALTH_XIDS], 0u);
    convoy_cuda_health_end(health);
}

Test(cuda_health, where_errors_are_not_reported_none_is_waited_for)
{
    struct convoy_device_health now;
    struct convoy_cuda_health *health = watch(CONVOY_TEST_NVML_OLD);
    next(health, 0, &now);
    uint64_t before_us = convoy_now_us();
    cr_assert(convoy_cuda_health_read(health, 5000, &now));
    cr_expect_lt(convoy_now_us() - before_us, 4000000u);
    cr_expect_eq(now.values[CONVOY_HEALTH_XIDS], UNKNOWN);
    convoy_cuda_health_end(health);
    cr_expect(strstr(last_log, "jpeg_utilization, xids") != NULL, "%s", last_log);
}

/* NVML that never returns holds up its own thread alone. */
Test(cuda_health, a_call_that_hangs_keeps_nobody)
{
    struct convoy_device_health now;
    struct convoy_cuda_health *health = watch(CONVOY_TEST_NVML_NEW);
    next(health, 0, &now);
    uint64_t started_us = convoy_now_us(), number;
    write_file(wishes, "nvmlDeviceGetMemoryInfo hang\n");
    do { /* until it hangs: for five periods nothing comes */
        number = now.number;
        const struct timespec wait = {.tv_nsec = 5 * PERIOD_MS * 1000000};
        nanosleep(&wait, NULL);
        cr_assert(convoy_cuda_health_read(health, 0, &now));
        cr_assert(convoy_now_us() - started_us < LIMIT_US);
    } while (now.number != number);
    uint64_t before_us = convoy_now_us();
    convoy_cuda_health_end(health); /* gives up */
    cr_expect_lt(convoy_now_us() - before_us, 8000000u);
}

Test(cuda_health, a_start_that_hangs_is_not_waited_for)
{
    struct convoy_device_health now;
    load_stand_in(CONVOY_TEST_NVML_NEW);
    write_file(wishes, "nvmlInit_v2 hang\n");
    struct convoy_cuda_health *health = convoy_cuda_health_begin(PERIOD_MS, NULL, log_line);
    convoy_cuda_health_find(health, SECOND, 50);
    cr_expect_eq(warnings, 0);
    convoy_cuda_health_watch(health);
    cr_expect_eq(warnings, 1, "%s", last_log);
    cr_expect_not(convoy_cuda_health_read(health, 5, &now));
    unlink(wishes);
    next(health, 0, &now); /* late, but it comes */
    cr_expect_eq(now.values[CONVOY_HEALTH_TEMPERATURE], 52u);
    convoy_cuda_health_end(health);
}

static int count_threads(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    cr_assert(tasks != NULL);
    for (const struct dirent *entry; (entry = readdir(tasks)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

/* A start that returns after the end was asked for asks nothing of a GPU, which it has not found. */
Test(cuda_health, a_start_that_comes_after_the_end_watches_nothing)
{
    static struct convoy_cuda_health *health; /* it is left to its thread */
    const struct timespec tick = {.tv_nsec = 2000000};
    int threads = count_threads();
    load_stand_in(CONVOY_TEST_NVML_NEW);
    write_file(wishes, "nvmlInit_v2 hang\n");
    health = convoy_cuda_health_begin(PERIOD_MS, NULL, log_line);
    convoy_cuda_health_find(health, SECOND, 50);
    convoy_cuda_health_watch(health);
    convoy_cuda_health_end(health); /* gives up */
    write_file(xid_file, "48");     /* the stand-in removes it when it is asked for errors */
    unlink(wishes);
    uint64_t until_us = convoy_now_us() + LIMIT_US;
    while (count_threads() > threads) {
        cr_assert_lt(convoy_now_us(), until_us, "its thread runs on");
        nanosleep(&tick, NULL);
    }
    cr_expect_eq(access(xid_file, F_OK), 0);
}
