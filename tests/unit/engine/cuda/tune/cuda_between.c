/* Buckets between two others, on the emulated device: the tuner times nothing for them, and they run as the
 * larger one does. */
#include "tests/unit/engine/cuda/tune/cuda_tuning.h"

#include "tests/unit/folder.h"

#include "engine/base/file.h"

#define MOST    48 /* buckets of 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, and of 36, 40 and 44 between */
#define TIMED   11 /* of them */
#define BETWEEN 40
#define STRIDE  256

static struct folder folder;

static void make_folder(void)
{
    folder = folder_make();
}

static void remove_folder(void)
{
    close_backend();
    folder_remove(&folder);
}

TestSuite(cuda_between, .init = make_folder, .fini = remove_folder, .timeout = 300);

/* How many steps a batch of so many rows runs as. */
static uint64_t steps_of(struct convoy_net *net, uint32_t rows)
{
    static float times_of_layers[CONVOY_MAX_LAYERS];
    struct convoy_job_times times = {.layer_us = times_of_layers};
    char *input = aligned_bytes(rows * STRIDE);
    float *output = aligned_bytes(rows * STRIDE);
    struct convoy_job job = {.layout = CONVOY_LAYOUT_F32_CHW,
                             .rows = rows,
                             .input = input,
                             .input_stride = STRIDE,
                             .output = output,
                             .output_stride = STRIDE,
                             .profile = true,
                             .times = &times};
    memset(input, 0, rows * STRIDE);
    uint64_t before = calls("cudaLaunchKernelExC");
    run(net, &job);
    free(input);
    free(output);
    return calls("cudaLaunchKernelExC") - before;
}

/* The kernel that the cache keeps for a shape. */
static void kernel_for(const char *text, const char *key, char kernel[64])
{
    const char *at = strstr(text, key), *line = at;
    cr_assert_not_null(at, "there is no '%s' in\n%s", key, text);
    while (line > text && line[-1] != '\n')
        line--;
    const char *name = memchr(line, '\t', (size_t)(at - line));
    cr_assert_not_null(name);
    snprintf(kernel, 64, "%.*s", (int)(at - name - 2), name + 1);
}

Test(cuda_between, they_take_over_what_is_known_of_the_larger_one)
{
    struct convoy_graph *graph = small_network();
    struct convoy_net_info info;
    struct convoy_error error;
    char *text, own[64], next[64];
    size_t length;
    setenv("CONVOY_EMULATED_CLOCK", "kernels", 1); /* so that defaults do not win */
    setenv("CONVOY_EMULATED_MAJOR", "7", 1);       /* whose kernels are emulated soonest */
    open_tuning(CONVOY_TUNING_ON, folder.path);
    struct convoy_net *net = load(graph, MOST, &info);
    tune_all();
    char said[80];
    snprintf(said, sizeof(said), "is tuned: 3 layers, %d shapes timed in ", 6 * TIMED);
    cr_expect_eq(logged(said), 1, "%s", log_text);
    for (uint32_t rows = 32; rows <= MOST; rows += 4)
        check_rows(graph, net, &changed_info, CONVOY_LAYOUT_F32_CHW, rows, TOLERANCE);
    check_memory();

    cr_assert_eq(
        convoy_file_read(folder_path(&folder, "emulated-GPU-0.times"), 1 << 20, &text, &length, &error), 0,
        "%s", error.message);
    static const char *const shapes[] = {"conv n%d x2x6x5", "conv n%d x4x6x5", "gemm %dx"};
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        char key[40];
        snprintf(key, sizeof(key), shapes[i], MOST);
        kernel_for(text, key, next);
        for (int rows = BETWEEN - 4; rows < MOST; rows += 4) {
            snprintf(key, sizeof(key), shapes[i], rows);
            kernel_for(text, key, own);
            cr_expect_str_eq(own, next, "of %s", key);
        }
    }
    free(text);
    unload_all(net, graph);
}

/* Jobs pass over them while only the larger one is known; then their plans are made again, and the next start
 * knows them. */
Test(cuda_between, they_run_as_the_larger_one)
{
    setenv("CONVOY_EMULATED_CLOCK", "launches", 1); /* so that networks run as a whole */
    setenv("CONVOY_EMULATED_MAJOR", "8", 1);        /* which a simpler device cannot */
    for (int start = 0; start < 2; start++) {
        struct convoy_graph *graph = small_network();
        struct convoy_net_info info;
        struct convoy_error error;
        open_tuning(CONVOY_TUNING_ON, folder.path);
        struct convoy_net *net = load(graph, MOST, &info);
        cr_expect_eq(steps_of(net, BETWEEN) > 1, start == 0);
        int more = 1;
        for (int piece = 1; more > 0 && start == 0 && (piece % 8 != 0 || steps_of(net, MOST) > 1); piece++)
            more = backend->idle(device, 0, &error);
        cr_assert(more > 0 && steps_of(net, BETWEEN) == 1);
        uint64_t before = calls("cudaEventElapsedTime");
        tune_all();
        cr_expect(start == 0 || (changes == 0 && calls("cudaEventElapsedTime") == before));
        cr_expect_eq(steps_of(net, MOST), 1);
        cr_expect_eq(steps_of(net, BETWEEN), 1);
        check_rows(graph, net, start == 0 ? &changed_info : &info, CONVOY_LAYOUT_F32_CHW, BETWEEN - 3,
                   TOLERANCE);
        unload_all(net, graph);
        close_backend();
    }
}
