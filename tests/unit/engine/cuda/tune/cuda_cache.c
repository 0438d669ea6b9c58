/* What the CUDA backend's tuner finds is remembered on disk, on the emulated device: read back without a
 * measurement, and never in the way when the file or its folder is not what it should be. */
#include "tests/unit/engine/cuda/tune/cuda_tuning.h"

#include "tests/unit/folder.h"

#include "engine/base/file.h"
#include "engine/base/hash.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>

#define FILE_NAME "emulated-GPU-0.times"

static struct folder folder;
static uint64_t weight_bytes;                                 /* resident at the end of the last visit */
static char last_layer[CONVOY_LAYER_NAME_BYTES];              /* its kernel, then */
static struct convoy_graph *(*network)(void) = small_network; /* that visits load */

static struct convoy_graph *network_of_large_dense(void)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 2, 12, 12));
    int x = add_act(graph, add_conv(graph, graph->input, 8, 3, 3, CONV3, true), CONVOY_TANH, 0, 0);
    x = add_act(graph, add_dense(graph, add_flatten(graph, x), 64, true), CONVOY_RELU, 0, 0);
    add_output(graph, add_dense(graph, x, 5, true));
    return graph;
}

/* A first layer that has no kernel of its own. */
static struct convoy_graph *network_of_four_channels(void)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 4, 9, 9));
    int x = add_act(graph, add_conv(graph, graph->input, 8, 3, 3, CONV3, true), CONVOY_TANH, 0, 0);
    add_output(graph, add_dense(graph, add_flatten(graph, x), 5, true));
    return graph;
}

/* A device without tensor cores, clusters and warpgroups: timing those takes long where they are emulated,
 * ten times as long as the rest. Until the test ends, each of which is a process. */
static void on_a_simple_device(void)
{
    setenv("CONVOY_EMULATED_MAJOR", "7", 1);
}

static void make_folder(void)
{
    folder = folder_make();
    setenv("CONVOY_EMULATED_CLOCK", "kernels", 1); /* so that defaults do not win */
}

static void remove_folder(void)
{
    close_backend();
    folder_remove(&folder);
}

TestSuite(cuda_cache, .init = make_folder, .fini = remove_folder, .timeout = 300);

/* Loads the network, tunes, checks answers, unloads and closes; returns the number of measurements, and the
 * kernel of the first layer. */
static uint64_t visit(enum convoy_tuning tune, const char *cache_dir, char *kernel)
{
    random_state = 1; /* the same network each time */
    struct convoy_graph *graph = network();
    struct convoy_net_info info;
    open_tuning(tune, cache_dir);
    uint64_t before = calls("cudaEventElapsedTime");
    struct convoy_net *net = load(graph, MAX_BATCH, &info);
    tune_all();
    uint64_t measurements = calls("cudaEventElapsedTime") - before;
    const struct convoy_net_info *last = changes > 0 ? &changed_info : &info;
    if (kernel != NULL)
        snprintf(kernel, CONVOY_LAYER_NAME_BYTES, "%s", last->layers[0].kernel);
    snprintf(last_layer, sizeof(last_layer), "%s", last->layers[last->layer_count - 1].kernel);
    weight_bytes = last->weight_bytes;
    cr_assert_eq(weight_bytes, memory_now().weights);
    check_all(graph, net, last);
    unload_all(net, graph);
    close_backend();
    return measurements;
}

static char *read_cache(size_t *length)
{
    struct convoy_error error;
    char *text;
    cr_assert_eq(convoy_file_read(folder_path(&folder, FILE_NAME), 1 << 20, &text, length, &error), 0, "%s",
                 error.message);
    return text;
}

static void write_cache(const char *bytes, size_t length)
{
    folder_write_bytes(&folder, FILE_NAME, bytes, length);
}

/* A text with the last line that says it is whole. */
static void write_whole(const char *text, int entries)
{
    char all[8192];
    uint64_t hash = convoy_hash(0, text, strlen(text));
    int length = snprintf(all, sizeof(all), "%send %d %016llx\n", text, entries, (unsigned long long)hash);
    cr_assert(length > 0 && (size_t)length < sizeof(all));
    write_cache(all, (size_t)length);
}

static int files_in(const char *path)
{
    int count = 0;
    DIR *opened = opendir(path);
    cr_assert_not_null(opened);
    for (struct dirent *entry; (entry = readdir(opened)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(opened);
    return count;
}

Test(cuda_cache, a_second_start_measures_nothing)
{
    char first[CONVOY_LAYER_NAME_BYTES], second[CONVOY_LAYER_NAME_BYTES], off[CONVOY_LAYER_NAME_BYTES];
    size_t length;
    cr_assert_gt(visit(CONVOY_TUNING_ON, folder.path, first), 100);
    cr_assert_not_null(strstr(first, "unroll_gemm"), "%s", first);
    cr_assert_eq(files_in(folder.path), 1);
    uint64_t tuned_bytes = weight_bytes;
    char *text = read_cache(&length);
    cr_assert_eq(strncmp(text, "convoyd kernel times 4\ndevice emulated GPU\ndriver 13000\nbuild ", 62), 0,
                 "%s", text);
    cr_assert_not_null(strstr(text, "unroll_gemm\tconv n3 x2x6x5"), "%s", text);
    cr_assert_not_null(strstr(text, "\nend 18 "), "%s", text);
    cr_assert_eq(visit(CONVOY_TUNING_ON, folder.path, second), 0);
    cr_assert_eq(logged("info 18 kernel times are known from "), 1, "%s", log_text);
    cr_assert_eq(logged("\n"), 1, "%s", log_text);
    cr_assert_eq(changes, 0);
    cr_assert_eq(weight_bytes, tuned_bytes, "%lu bytes of weights, tuned they were %lu: old ones were kept",
                 (unsigned long)weight_bytes, (unsigned long)tuned_bytes);
    cr_assert_str_eq(first, second);
    cr_assert_eq(visit(CONVOY_TUNING_OFF, folder.path, off), 0);
    cr_assert_str_eq(first, off);
    free(text);
}

static char aside[300];

static void put_back(void *context, const struct convoy_device_memory *memory)
{
    (void)context;
    cr_assert_gt(memory->total, 0);
    cr_assert_eq(rename(aside, folder_path(&folder, FILE_NAME)), 0);
}

/* A spare opens the device long before it loads a network. */
Test(cuda_cache, what_is_written_after_the_device_was_opened_is_known)
{
    cr_assert_gt(visit(CONVOY_TUNING_ON, folder.path, NULL), 100);
    snprintf(aside, sizeof(aside), "%s", folder_path(&folder, "aside"));
    cr_assert_eq(rename(folder_path(&folder, FILE_NAME), aside), 0);
    when_opened = put_back;
    cr_assert_eq(visit(CONVOY_TUNING_ON, folder.path, NULL), 0);
    cr_assert_eq(logged("info 18 kernel times are known from "), 1, "%s", log_text);
}

/* Gives a kernel in the file the name of another. */
static void rename_in_cache(const char *from, const char *to)
{
    size_t length, used = 0;
    int entries = 0;
    char *text = read_cache(&length), changed[8192];
    char *end = strstr(text, "\nend ");
    cr_assert_eq(sscanf(end, "\nend %d", &entries), 1);
    end[1] = '\0';
    for (const char *at = text, *next; *at != '\0'; at = next) {
        const char *name = strstr(at, from);
        next = name == NULL ? end + 1 : name + strlen(from);
        used += (size_t)snprintf(changed + used, sizeof(changed) - used, "%.*s%s",
                                 (int)((name == NULL ? next : name) - at), at, name == NULL ? "" : to);
        cr_assert_lt(used, sizeof(changed));
    }
    write_whole(changed, entries);
    free(text);
}

/* How a network runs as a whole is remembered with the rest, and not believed where it cannot be. */
Test(cuda_cache, a_whole_network_is_remembered)
{
    char first[CONVOY_LAYER_NAME_BYTES], second[CONVOY_LAYER_NAME_BYTES];
    setenv("CONVOY_EMULATED_CLOCK", "launches", 1);
    cr_assert_gt(visit(CONVOY_TUNING_ON, folder.path, first), 0);
    cr_assert_str_eq(first, "whole_net:1x128");
    cr_assert_eq(visit(CONVOY_TUNING_OFF, folder.path, second), 0);
    cr_assert_str_eq(second, first);
    /* A kernel that rounds, for a network that may not be: layer by layer then. */
    rename_in_cache("whole_net:1x128", "whole_net_fp16:1x128");
    cr_assert_eq(visit(CONVOY_TUNING_OFF, folder.path, second), 0);
    cr_assert_null(strstr(second, "whole_net"), "%s", second);
}

/* A kernel for the layers up to the first dense one computes those, and others the rest. To time all ways of
 * running a network takes long where clusters and tensor cores are emulated: the file is written on a device
 * that has neither, and then names the kernel that is to be seen. */
Test(cuda_cache, teams_share_a_large_dense_layer)
{
    char first[CONVOY_LAYER_NAME_BYTES];
    on_a_simple_device();
    network = network_of_large_dense;
    cr_assert_gt(visit(CONVOY_TUNING_ON, folder.path, first), 0);
    unsetenv("CONVOY_EMULATED_MAJOR");
    rename_in_cache("\tlayers\tnet ", "\tdense_net:8x8x512\tnet ");
    cr_assert_eq(visit(CONVOY_TUNING_OFF, folder.path, first), 0);
    cr_assert_str_eq(first, "dense_net:8x8x512");
    cr_assert_null(strstr(last_layer, "dense_net"), "%s", last_layer);
}

Test(cuda_cache, force_times_all_anew)
{
    on_a_simple_device();
    uint64_t first = visit(CONVOY_TUNING_ON, folder.path, NULL);
    cr_assert_eq(visit(CONVOY_TUNING_FORCE, folder.path, NULL), first);
    cr_assert_eq(logged("is tuned"), 1, "%s", log_text);
    cr_assert_eq(visit(CONVOY_TUNING_ON, folder.path, NULL), 0);
}

Test(cuda_cache, what_is_missing_is_added)
{
    size_t length;
    visit(CONVOY_TUNING_ON, folder.path, NULL);
    char *text = read_cache(&length);
    /* Without its last entry. */
    char *end = strstr(text, "end 18 ");
    end[-1] = '\0';
    strrchr(text, '\n')[1] = '\0';
    write_whole(text, 17);
    free(text);
    cr_assert_gt(visit(CONVOY_TUNING_ON, folder.path, NULL), 0);
    cr_assert_eq(logged("is tuned: 3 layers, 1 shapes timed"), 1, "%s", log_text);
    text = read_cache(&length);
    cr_assert_not_null(strstr(text, "\nend 18 "), "%s", text);
    free(text);
}

/* The file is passed over with one line, all is tuned, and the file is sound again. */
static void expect_passed_over(const char *why)
{
    cr_assert_gt(visit(CONVOY_TUNING_ON, folder.path, NULL), 100, "%s", why);
    cr_assert_eq(logged("warning kernel times are not known: "), 1, "%s: %s", why, log_text);
    cr_assert_eq(logged("warning"), 1, "%s: %s", why, log_text);
    cr_assert_eq(logged(why), 1, "%s: %s", why, log_text);
    cr_assert_eq(visit(CONVOY_TUNING_ON, folder.path, NULL), 0, "%s: not mended", why);
}

Test(cuda_cache, a_damaged_file_is_passed_over)
{
    static const char foreign[] = "# TYPE nonsense\n";
    size_t length;
    on_a_simple_device();
    visit(CONVOY_TUNING_ON, folder.path, NULL);
    char *text = read_cache(&length);

    write_cache("", 0);
    expect_passed_over("not a file of kernel times");
    write_cache(foreign, sizeof(foreign) - 1);
    expect_passed_over("not a file of kernel times");
    write_cache(text, 40);
    expect_passed_over("is damaged");
    write_cache(text, length / 2);
    expect_passed_over("is damaged");
    write_cache(text, length - 1);
    expect_passed_over("is damaged");
    text[length / 2] ^= 1;
    write_cache(text, length);
    expect_passed_over("is damaged");
    text[length / 2] = '\0';
    write_cache(text, length);
    expect_passed_over("is damaged");
    free(text);
    char *large = calloc(1, 5 << 20);
    write_cache(large, 5 << 20);
    expect_passed_over("more than the 4194304 that are read");
    free(large);
}

Test(cuda_cache, a_stale_or_crafted_file_is_passed_over)
{
    static const char *const entries[] = {"1.5 direct conv\n",     "\tdirect\tconv n1\n",    "1.5\tdirect\n",
                                          "-1\tdirect\tconv n1\n", "nan\tdirect\tconv n1\n", "\n"};
    size_t length;
    on_a_simple_device();
    visit(CONVOY_TUNING_ON, folder.path, NULL);
    char *text = read_cache(&length), changed[8192];
    *strstr(text, "end 18 ") = '\0';
    char *format = strstr(text, "times 4") + strlen("times ");
    *format = '1'; /* before xxHash; a file of then is not called damaged */
    write_whole(text, 18);
    expect_passed_over("is not a file of kernel times of this format");
    *format = '4';
    char *driver = strstr(text, "13000");
    driver[0] = '2';
    write_whole(text, 18);
    expect_passed_over("another device, driver or build");
    driver[0] = '1';
    char *build = strstr(text, "build ");
    build[12] = build[12] == '0' ? '1' : '0'; /* in the fingerprint of the kernels' names */
    write_whole(text, 18);
    expect_passed_over("another device, driver or build");
    free(text);

    text = read_cache(&length);
    write_whole((*strstr(text, "end 18 ") = '\0', text), 17);
    expect_passed_over("is damaged");
    for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
        snprintf(changed, sizeof(changed), "%s%s", text, entries[i]);
        write_whole(changed, 19);
        expect_passed_over("is damaged");
    }
    snprintf(changed, sizeof(changed), "%s1.5\tdirect\tconv %0200d\n", text, 0); /* a key that is too long */
    write_whole(changed, 19);
    expect_passed_over("is damaged");
    free(text);
}

/* A kernel that is gone, or does not take the shape, or is no convolution, is not believed: its shape is
 * timed. */
Test(cuda_cache, what_cannot_be_is_not_believed)
{
    static const char *const kernels[] = {"no_such_kernel", "constant", "depthwise"};
    size_t length;
    on_a_simple_device();
    visit(CONVOY_TUNING_ON, folder.path, NULL);
    char *text = read_cache(&length), changed[8192];
    *strstr(text, "end 18 ") = '\0';
    char *at = strstr(text, "unroll_gemm\tconv n3 x2x6x5");
    cr_assert_not_null(at);
    for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
        snprintf(changed, sizeof(changed), "%.*s%s%s", (int)(at - text), text, kernels[i],
                 at + strlen("unroll_gemm"));
        write_whole(changed, 18);
        cr_assert_gt(visit(CONVOY_TUNING_ON, folder.path, NULL), 0);
        cr_assert_eq(logged("is tuned: 3 layers, 1 shapes timed"), 1, "%s: %s", kernels[i], log_text);
    }
    free(text);
}

Test(cuda_cache, a_folder_is_made)
{
    const char *inside = folder_path(&folder, "cache");
    on_a_simple_device();
    cr_assert_gt(visit(CONVOY_TUNING_ON, inside, NULL), 0);
    cr_assert_eq(files_in(inside), 1);
    cr_assert_eq(visit(CONVOY_TUNING_ON, inside, NULL), 0);
}

/* One line when it is written, no failure, nothing left lying about. */
Test(cuda_cache, a_folder_that_cannot_be_written_is_no_failure)
{
    const char *file = folder_write(&folder, "file", "text");
    char kernel[CONVOY_LAYER_NAME_BYTES];
    on_a_simple_device();
    cr_assert_gt(visit(CONVOY_TUNING_ON, folder_path(&folder, "no/such"), kernel), 0);
    cr_assert_not_null(strstr(kernel, "unroll_gemm"));
    cr_assert_eq(logged("warning kernel times cannot be remembered: "), 1, "%s", log_text);
    cr_assert_eq(logged("warning"), 1, "%s", log_text);

    cr_assert_gt(visit(CONVOY_TUNING_ON, file, NULL), 0); /* a file where the folder should be */
    cr_assert_eq(logged("cannot be remembered"), 1, "%s", log_text);

    /* A folder with something in it where the file should be. */
    folder_write(&folder, FILE_NAME "/something", "text");
    cr_assert_gt(visit(CONVOY_TUNING_ON, folder.path, NULL), 0);
    cr_assert_eq(logged("kernel times are not known"), 1, "%s", log_text);
    cr_assert_eq(logged("cannot be remembered"), 1, "%s", log_text);
    cr_assert_eq(files_in(folder.path), 2);
}

/* A disk that is full in the middle of the file: what was there stays. */
Test(cuda_cache, a_full_disk_is_no_failure)
{
    struct rlimit before, limit;
    size_t length, again;
    on_a_simple_device();
    visit(CONVOY_TUNING_ON, folder.path, NULL);
    char *text = read_cache(&length);
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    limit = (struct rlimit){.rlim_cur = 500, .rlim_max = before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_assert_gt(visit(CONVOY_TUNING_FORCE, folder.path, NULL), 0);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    cr_assert_eq(logged("warning kernel times cannot be remembered: "), 1, "%s", log_text);
    cr_assert_eq(files_in(folder.path), 1);
    char *still = read_cache(&again);
    cr_assert(again == length && memcmp(text, still, length) == 0);
    free(text);
    free(still);
}

/* The cache's file with another kernel for every convolution and every product of the key's kind. */
static void prescribe(const char *conv, const char *gemm)
{
    size_t length, used = 0;
    char *text = read_cache(&length), changed[8192], *rest = NULL;
    int entries = 0;
    *strstr(text, "end ") = '\0';
    for (char *line = strtok_r(text, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        const char *key = strrchr(line, '\t');
        entries += key != NULL;
        if (key == NULL)
            used += (size_t)snprintf(changed + used, sizeof(changed) - used, "%s\n", line);
        else
            used += (size_t)snprintf(changed + used, sizeof(changed) - used, "1\t%s%s\n",
                                     strncmp(key, "\tconv", 5) == 0 ? conv : gemm, key);
    }
    free(text);
    write_whole(changed, entries);
}

/* Loads the network with the least exact precision that it accepts, without tuning: the kernel of its first
 * layer. */
static enum convoy_compute_type visit_as(enum convoy_compute_type precision, enum convoy_tuning tune,
                                         double tolerance, char *kernel)
{
    random_state = 1;
    struct convoy_graph *graph = network();
    struct convoy_net_info info;
    open_tuning(tune, folder.path);
    struct convoy_net *net = load_as(graph, MAX_BATCH, precision, &info);
    tune_all();
    const struct convoy_net_info *last = changes > 0 ? &changed_info : &info;
    snprintf(kernel, CONVOY_LAYER_NAME_BYTES, "%s", last->layers[0].kernel);
    enum convoy_compute_type used = last->precision;
    for (uint32_t rows = 1; rows <= MAX_BATCH; rows++) {
        check_rows(graph, net, last, CONVOY_LAYOUT_U8_HWC, rows, tolerance);
        check_rows(graph, net, last, CONVOY_LAYOUT_F32_CHW, rows, tolerance);
    }
    unload_all(net, graph);
    close_backend();
    return used;
}

Test(cuda_cache, rounding_kernels_serve_those_who_accept_it)
{
    static const struct {
        enum convoy_compute_type precision;
        const char *conv, *gemm, *major; /* of the device's compute capability */
        struct convoy_graph *(*network)(void);
    } kinds[] = {{CONVOY_COMPUTE_FP16, "tensor_fp16:64x16", "gemm_tensor_fp16:128x32", "8", small_network},
                 {CONVOY_COMPUTE_TF32, "tensor_tf32:64x16", "gemm_tensor_tf32:128x32", "9", small_network},
                 {CONVOY_COMPUTE_FP16, "nhwc_wgmma:2x1x8/32x5", "gemm_tensor_fp16:128x32", "9",
                  network_of_four_channels}};
    char kernel[CONVOY_LAYER_NAME_BYTES];
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        setenv("CONVOY_EMULATED_MAJOR", kinds[i].major, 1);
        network = kinds[i].network;
        visit_as(kinds[i].precision, CONVOY_TUNING_FORCE, 1e-2, kernel);
        prescribe(kinds[i].conv, kinds[i].gemm);
        cr_assert_eq(visit_as(kinds[i].precision, CONVOY_TUNING_OFF, 1e-2, kernel), kinds[i].precision, "%s",
                     kernel);
        cr_assert_eq(strncmp(kernel, kinds[i].conv, strlen(kinds[i].conv)), 0, "%s", kernel);
        /* What was found for one precision says nothing of another. */
        cr_assert_eq(visit_as(CONVOY_COMPUTE_FP32, CONVOY_TUNING_OFF, TOLERANCE, kernel), CONVOY_COMPUTE_FP32,
                     "%s", kernel);
        cr_assert_neq(strncmp(kernel, "tensor_", 7), 0, "%s", kernel);
    }
}

Test(cuda_cache, a_kernel_that_rounds_too_much_is_not_believed)
{
    char kernel[CONVOY_LAYER_NAME_BYTES];
    visit_as(CONVOY_COMPUTE_FP32, CONVOY_TUNING_FORCE, TOLERANCE, kernel);
    prescribe("tensor_fp16:64x16", "gemm_tensor_fp16:128x32");
    cr_assert_eq(visit_as(CONVOY_COMPUTE_FP32, CONVOY_TUNING_OFF, TOLERANCE, kernel), CONVOY_COMPUTE_FP32,
                 "%s", kernel);
}

/* The convolutions' result, as fp16 in the step's own memory, multiplied for all images at once. The file
 * comes from such a device as in teams_share_a_large_dense_layer. */
Test(cuda_cache, images_share_a_dense_layer)
{
    char kernel[CONVOY_LAYER_NAME_BYTES];
    on_a_simple_device();
    network = network_of_large_dense;
    visit_as(CONVOY_COMPUTE_FP16, CONVOY_TUNING_ON, 1e-2, kernel);
    unsetenv("CONVOY_EMULATED_MAJOR");
    rename_in_cache("\tlayers\tnet ", "\tdense_product:1x128\tnet ");
    cr_assert_eq(visit_as(CONVOY_COMPUTE_FP16, CONVOY_TUNING_OFF, 1e-2, kernel), CONVOY_COMPUTE_FP16, "%s",
                 kernel);
    cr_assert_str_eq(kernel, "dense_product:1x128");
}
