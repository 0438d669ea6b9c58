/* The CUDA backend's tuner, on the emulated device: it comes to an end, leaves nothing behind, and what it
 * makes of a network computes the same. */
#include "tests/unit/engine/cuda/tune/cuda_tuning.h"

#include "engine/graph/class_map.h"

TestSuite(cuda_tuner, .fini = close_backend, .timeout = 300);

Test(cuda_tuner, tuned_networks_compute_the_same)
{
    struct convoy_graph *graph = small_network();
    struct convoy_net_info info;
    open_tuning(CONVOY_TUNING_ON, NULL);
    struct convoy_net *net = load(graph, MAX_BATCH, &info);
    check_all(graph, net, &info);
    cr_assert_gt(tune_all(), 0);
    cr_assert_eq(logged("info model 'test' is tuned: 3 layers, 18 shapes timed in "), 1, "%s", log_text);
    cr_assert_eq(logged("\n"), 1, "%s", log_text);
    check_all(graph, net, &info);
    check_memory();
    uint64_t before = calls("cudaEventElapsedTime");
    cr_assert_eq(tune_all(), 0);
    cr_assert_eq(calls("cudaEventElapsedTime"), before);
    unload_all(net, graph);
}

/* A clock on which kernels of several launches win: they want scratch, the workspace grows, and all graphs
 * are recorded again. */
Test(cuda_tuner, the_fastest_are_used)
{
    struct convoy_graph *graph = small_network();
    struct convoy_net_info info;
    setenv("CONVOY_EMULATED_CLOCK", "kernels", 1);
    open_tuning(CONVOY_TUNING_ON, NULL);
    struct convoy_net *net = load(graph, MAX_BATCH, &info);
    cr_assert_null(strstr(info.layers[0].kernel, "unroll_gemm"));
    uint64_t workspace = memory_now().workspace;
    tune_all();
    cr_assert_eq(changes, 1);
    cr_assert_not_null(strstr(changed_info.layers[0].kernel, "unroll_gemm"), "%s",
                       changed_info.layers[0].kernel);
    cr_assert_eq(changed_info.weight_bytes, memory_now().weights);
    cr_assert_gt(memory_now().workspace, workspace);
    check_all(graph, net, &changed_info);
    check_memory();
    unload_all(net, graph);
}

/* A clock on which a network that runs as a whole wins: all sizes of batch do then, answers are the same, and
 * profiles say so. */
Test(cuda_tuner, networks_run_whole_where_that_is_faster)
{
    struct convoy_graph *graph = small_network();
    struct convoy_net_info info;
    setenv("CONVOY_EMULATED_CLOCK", "launches", 1);
    open_tuning(CONVOY_TUNING_ON, NULL);
    struct convoy_net *net = load(graph, MAX_BATCH, &info);
    cr_assert_null(strstr(info.layers[0].kernel, "whole_net"), "it is chosen before it was tried");
    tune_all();
    cr_assert_eq(changes, 1);
    cr_assert_str_eq(changed_info.layers[0].kernel, "whole_net:1x128");
    cr_assert_str_eq(changed_info.layers[1].kernel, "in whole_net:1x128");
    cr_assert_str_eq(changed_info.layers[2].kernel, "in whole_net:1x128");
    cr_assert_eq(changed_info.precision, CONVOY_COMPUTE_FP32);
    cr_assert_eq(changed_info.weight_bytes, memory_now().weights);
    uint64_t before = calls("cudaGraphLaunch");
    check_all(graph, net, &changed_info);
    cr_assert_gt(calls("cudaGraphLaunch"), before);
    check_memory();
    unload_all(net, graph);
}

/* Few images: before anything was timed the estimate names a kernel whose rows are maps, and where all
 * kernels of one launch are as fast, it is kept. 8 channels: no kernel makes such a network as a whole. */
Test(cuda_tuner, few_images_run_on_kernels_whose_rows_are_maps)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 8, 6, 5));
    struct convoy_conv apart = CONV3;
    apart.stride[0] = apart.stride[1] = 2; /* which nhwc_patch does not take */
    int x = add_act(graph, add_conv(graph, graph->input, 16, 3, 3, apart, true), CONVOY_RELU, 0, 0);
    struct convoy_net_info info;
    add_output(graph, add_dense(graph, add_flatten(graph, x), 5, true));
    setenv("CONVOY_EMULATED_CLOCK", "launches", 1);
    open_tuning(CONVOY_TUNING_ON, NULL);
    struct convoy_net *net = load_as(graph, MAX_BATCH, CONVOY_COMPUTE_FP16, &info);
    cr_expect_eq(strncmp(info.layers[0].kernel, "nhwc_maps:", 10), 0, "%s", info.layers[0].kernel);
    tune_all();
    const struct convoy_net_info *tuned = changes > 0 ? &changed_info : &info;
    cr_expect_eq(strncmp(tuned->layers[0].kernel, "nhwc_maps:", 10), 0, "%s", tuned->layers[0].kernel);
    for (uint32_t rows = 1; rows <= MAX_BATCH; rows++)
        check_rows(graph, net, tuned, CONVOY_LAYOUT_F32_CHW, rows, 1e-2);
    unload_all(net, graph);
}

/* Kernels that are equally fast behind themselves: the network is timed with each of them in place, and where
 * a kernel is slower behind itself no layer keeps the one of its neighbour. */
Test(cuda_tuner, kernels_are_compared_between_their_neighbours)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 16, 6, 5));
    struct convoy_conv apart = CONV3;
    struct convoy_net_info info;
    apart.stride[0] = apart.stride[1] = 2; /* which nhwc_patch does not take */
    int x = graph->input;
    for (int i = 0; i < 3; i++)
        x = add_act(graph, add_conv(graph, x, 16, 3, 3, apart, true), CONVOY_RELU, 0, 0);
    add_output(graph, add_dense(graph, add_flatten(graph, x), 5, true));
    setenv("CONVOY_EMULATED_CLOCK", "neighbours", 1);
    open_tuning(CONVOY_TUNING_ON, NULL);
    struct convoy_net *net = load_as(graph, 1, CONVOY_COMPUTE_FP16, &info);
    for (int i = 0; i < 2; i++)
        cr_expect_str_eq(info.layers[i].kernel, info.layers[i + 1].kernel, "the estimates differ");
    tune_all();
    cr_assert_eq(changes, 1);
    for (int i = 0; i < 2; i++)
        cr_expect_str_neq(changed_info.layers[i].kernel, changed_info.layers[i + 1].kernel);
    check_rows(graph, net, &changed_info, CONVOY_LAYOUT_F32_CHW, 1, 1e-2);
    unload_all(net, graph);
}

/* Weights in forms of kernels that were compared in the network and not chosen are gone when that is over. */
Test(cuda_tuner, weights_of_other_finalists_go)
{
    struct convoy_error error;
    struct convoy_graph *graph = new_graph(SHAPE(1, 64, 4, 4));
    struct convoy_net_info info;
    int x = graph->input, above = 0;
    for (int i = 0; i < 4; i++) {
        int side = i % 3 ? 1 : 3;
        x = add_conv(graph, x, i % 2 ? 256 : 64 + 8 * i, side, side, side == 1 ? CONV1 : CONV3, true);
        x = add_act(graph, x, CONVOY_RELU, 0, 0);
    }
    add_output(graph, add_dense(graph, add_flatten(graph, x), 5, true));
    setenv("CONVOY_EMULATED_CLOCK", "neighbours", 1);
    open_tuning(CONVOY_TUNING_ON, NULL);
    struct convoy_net *net = load_as(graph, 1, CONVOY_COMPUTE_FP16, &info);
    uint64_t begin = memory_now().weights;
    while (backend->idle(device, 0, &error) > 0)
        above += memory_now().weights > begin + begin / 10;
    cr_expect(above > 0 && above < 12, "after %d pieces there were a tenth more", above);
    unload_all(net, graph);
}

static int conv_relu(struct convoy_graph *graph, int x, int64_t maps)
{
    return add_act(graph, add_conv(graph, x, maps, 3, 3, CONV3, true), CONVOY_RELU, 0, 0);
}

static int mean(struct convoy_graph *graph, int x)
{
    const struct convoy_shape *shape = shape_of(graph, x);
    struct convoy_pool pool = {.kind = CONVOY_POOL_AVERAGE,
                               .window = {shape->dims[2], shape->dims[3]},
                               .stride = {1, 1},
                               .dilation = {1, 1}};
    return add_pool(graph, x, pool, false);
}

/* Where the part of a network that runs at once has to end: each form with the number of its layers that are
 * in that part. */
static int end_behind_softmax(struct convoy_graph *graph)
{
    int x = add_dense(graph, add_flatten(graph, conv_relu(graph, graph->input, 6)), 5, true);
    add_output(graph, add_dense(graph, add_softmax(graph, x, 1, 2), 3, true));
    return 3;
}

static int end_before_softmax_of_each_place(struct convoy_graph *graph)
{
    int x = conv_relu(graph, conv_relu(graph, graph->input, 6), 4);
    add_output(graph, add_softmax(graph, x, 1, 2));
    return 2;
}

static int end_before_convolution_of_a_mean(struct convoy_graph *graph)
{
    int x = mean(graph, conv_relu(graph, graph->input, 6));
    x = add_conv(graph, x, 7, 3, 3, CONV3, true);
    add_output(graph, add_dense(graph, add_flatten(graph, x), 5, false));
    return 2;
}

static int mean_and_dense(struct convoy_graph *graph)
{
    int x = mean(graph, conv_relu(graph, conv_relu(graph, graph->input, 6), 9));
    add_output(graph, add_dense(graph, add_flatten(graph, x), 5, true));
    return 4;
}

static int end_where_two_are_read(struct convoy_graph *graph)
{
    int x = conv_relu(graph, conv_relu(graph, graph->input, 3), 6);
    add_output(graph, conv_relu(graph, x, 4));
    add_output(graph, x);
    return 2;
}

static int end_at_a_sum_of_two_sizes(struct convoy_graph *graph)
{
    int x = conv_relu(graph, conv_relu(graph, graph->input, 3), 6);
    int y = conv_relu(graph, x, 6);
    add_output(graph, add_binary(graph, y, mean(graph, x), CONVOY_ADD));
    return 2;
}

static int nothing_in_groups(struct convoy_graph *graph)
{
    struct convoy_conv conv = CONV3;
    conv.groups = 2;
    add_output(graph, add_conv(graph, graph->input, 4, 3, 3, conv, true));
    return 0;
}

Test(cuda_tuner, what_runs_at_once_ends_where_it_must)
{
    static int (*const forms[])(struct convoy_graph *) = {
        end_behind_softmax, end_before_softmax_of_each_place, end_before_convolution_of_a_mean,
        mean_and_dense,     end_where_two_are_read,           end_at_a_sum_of_two_sizes,
        nothing_in_groups};
    setenv("CONVOY_EMULATED_CLOCK", "launches", 1);
    open_tuning(CONVOY_TUNING_ON, NULL);
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        struct convoy_graph *graph = new_graph(SHAPE(1, 2, 6, 5));
        struct convoy_net_info info;
        int expected = forms[i](graph), whole = 0;
        changes = 0;
        struct convoy_net *net = load(graph, MAX_BATCH, &info);
        tune_all();
        const struct convoy_net_info *last = changes > 0 ? &changed_info : &info;
        for (uint32_t k = 0; k < last->layer_count; k++)
            whole += strstr(last->layers[k].kernel, "_net") != NULL;
        cr_assert_eq(whole, expected, "form %zu: %d layers run at once, not %d; the first is %s", i, whole,
                     expected, last->layers[0].kernel);
        check_all(graph, net, last);
        check_memory();
        backend->unload(device, net);
        convoy_graph_free(graph);
    }
}

/* Beside a network that runs as a whole, and so never writes what is averaged, the one for class activation
 * maps runs layer by layer, and the tuner has nothing to do with it. */
Test(cuda_tuner, a_network_for_class_maps_is_left_alone)
{
    struct convoy_graph *graph = new_graph(SHAPE(1, 2, 6, 5)), *maps = new_graph(SHAPE(1, 2, 6, 5));
    struct convoy_load_options options = {.name = "maps", .max_batch = 1, .untuned = true};
    struct convoy_net_info info;
    struct convoy_error error;
    struct convoy_net *mapped;
    setenv("CONVOY_EMULATED_CLOCK", "launches", 1);
    open_tuning(CONVOY_TUNING_ON, NULL);
    mean_and_dense(graph);
    struct convoy_net *net = load(graph, MAX_BATCH, &info);
    tune_all();
    cr_assert(changes == 1 && strstr(changed_info.layers[3].kernel, "_net") != NULL);

    mean_and_dense(maps);
    cr_assert_eq(convoy_class_map_outputs(maps, &error), 0, "%s", error.message);
    fill_normalisation(&options);
    cr_assert_eq(backend->load(device, maps, &options, &mapped, &info, &error), 0, "%s", error.message);
    cr_assert(info.output_count == 2 && info.output_elements[1] == 5 * 6 * 5);
    uint64_t timed = calls("cudaEventElapsedTime");
    cr_assert_eq(tune_all(), 0);
    cr_assert(calls("cudaEventElapsedTime") == timed && changes == 1);
    for (uint32_t k = 0; k < info.layer_count; k++)
        cr_assert_null(strstr(info.layers[k].kernel, "_net"), "%s", info.layers[k].kernel);
    check_rows(maps, mapped, &info, CONVOY_LAYOUT_U8_HWC, 1, TOLERANCE);
    check_rows(maps, mapped, &info, CONVOY_LAYOUT_F32_CHW, 1, TOLERANCE);
    check_all(graph, net, &changed_info);
    backend->unload(device, mapped);
    convoy_graph_free(maps);
    unload_all(net, graph);
}

/* Jobs may come between any two pieces. */
Test(cuda_tuner, jobs_run_between_pieces)
{
    struct convoy_error error;
    struct convoy_graph *graph = small_network();
    struct convoy_net_info info;
    setenv("CONVOY_EMULATED_CLOCK", "kernels", 1);
    open_tuning(CONVOY_TUNING_ON, NULL);
    struct convoy_net *net = load(graph, MAX_BATCH, &info);
    uint32_t piece = 0;
    while (backend->idle(device, 0, &error) > 0)
        if (++piece % 7 == 0)
            check_rows(graph, net, &info, piece % 2 ? CONVOY_LAYOUT_U8_HWC : CONVOY_LAYOUT_F32_CHW,
                       1 + piece / 7 % MAX_BATCH, TOLERANCE);
    cr_assert_gt(piece, 100);
    check_all(graph, net, &info);
    unload_all(net, graph);
}

/* A piece ends when its time is over, not when the network is tuned; with time enough all is done at once. */
Test(cuda_tuner, a_piece_keeps_to_its_time)
{
    struct convoy_error error;
    struct convoy_graph *graph = small_network();
    struct convoy_net_info info;
    open_tuning(CONVOY_TUNING_ON, NULL);
    struct convoy_net *net = load(graph, MAX_BATCH, &info);
    uint64_t before = calls("cudaEventElapsedTime");
    cr_assert_eq(backend->idle(device, 0, &error), 1);
    cr_assert_leq(calls("cudaEventElapsedTime"), before + 1);
    cr_assert_eq(backend->idle(device, 250000000, &error), 0);
    cr_assert_eq(logged("is tuned"), 1, "%s", log_text);
    unload_all(net, graph);
}

Test(cuda_tuner, a_job_in_flight_holds_it_back)
{
    struct convoy_error error;
    struct convoy_graph *graph = small_network();
    struct convoy_net_info info;
    uint64_t tag;
    open_tuning(CONVOY_TUNING_ON, NULL);
    struct convoy_net *net = load(graph, MAX_BATCH, &info);
    struct convoy_job_times times = {0};
    struct convoy_job job = {.layout = CONVOY_LAYOUT_U8_HWC,
                             .rows = 1,
                             .input = calloc(1, 192),
                             .input_stride = 192,
                             .output = calloc(1, 64),
                             .output_stride = 64,
                             .times = &times};
    cr_assert_eq(backend->submit(device, net, &job, &error), 0, "%s", error.message);
    uint64_t launches = calls("cudaLaunchKernelExC");
    cr_assert_eq(backend->idle(device, 1000000, &error), 1);
    cr_assert_eq(calls("cudaLaunchKernelExC"), launches);
    cr_assert_eq(take(&tag, &error), 1);
    free((void *)(uintptr_t)job.input);
    free(job.output);
    unload_all(net, graph);
}

/* Networks of the same shapes: the second needs no measurement, only new plans. */
Test(cuda_tuner, what_one_network_taught_serves_the_next)
{
    struct convoy_graph *one = small_network();
    struct convoy_graph *two = small_network();
    struct convoy_net_info info;
    setenv("CONVOY_EMULATED_CLOCK", "kernels", 1);
    open_tuning(CONVOY_TUNING_ON, NULL);
    struct convoy_net *first = load(one, MAX_BATCH, &info);
    struct convoy_net *second = load(two, MAX_BATCH, &info);
    tune_all();
    cr_assert_eq(changes, 2);
    cr_assert_eq(logged("is tuned"), 1, "%s", log_text);
    cr_assert_not_null(strstr(changed_info.layers[0].kernel, "unroll_gemm"));
    check_all(two, second, &info);
    backend->unload(device, first);
    convoy_graph_free(one);
    check_all(two, second, &info);
    unload_all(second, two);
}

Test(cuda_tuner, a_network_may_go_in_the_middle)
{
    struct convoy_error error;
    struct convoy_net_info info;
    open_tuning(CONVOY_TUNING_ON, NULL);
    for (int pieces = 1; pieces < 200; pieces += 11) {
        struct convoy_graph *graph = small_network();
        struct convoy_net *net = load(graph, MAX_BATCH, &info);
        for (int i = 0; i < pieces; i++)
            cr_assert_geq(backend->idle(device, 0, &error), 0, "%s", error.message);
        backend->unload(device, net);
        convoy_graph_free(graph);
    }
    cr_assert_eq(tune_all(), 0);
    check_memory();
}

Test(cuda_tuner, off_times_nothing)
{
    struct convoy_graph *graph = small_network();
    struct convoy_net_info info;
    open_tuning(CONVOY_TUNING_OFF, NULL);
    struct convoy_net *net = load(graph, MAX_BATCH, &info);
    cr_assert_eq(tune_all(), 0);
    cr_assert_eq(calls("cudaEventElapsedTime"), 0);
    check_all(graph, net, &info);
    unload_all(net, graph);
}

/* Wherever device memory runs out: one log line, and the model keeps its kernels. */
Test(cuda_tuner, out_of_memory_keeps_the_defaults)
{
    static const size_t room[] = {
        0,         1000,        200 << 10, (256 << 10) + 100, (256 << 10) + 600, (256 << 10) + 4000,
        272 << 10, (280 << 10), 300 << 10};
    int short_of_memory = 0;
    setenv("CONVOY_EMULATED_CLOCK", "kernels", 1);
    for (size_t i = 0; i < sizeof(room) / sizeof(room[0]); i++) {
        struct convoy_graph *graph = small_network();
        struct convoy_net_info info;
        char fault[64];
        open_tuning(CONVOY_TUNING_ON, NULL);
        struct convoy_net *net = load(graph, MAX_BATCH, &info);
        struct convoy_device_memory memory = memory_now();
        snprintf(fault, sizeof(fault), "memory:%zu", (size_t)(memory.total - memory.free) + room[i]);
        setenv("CONVOY_EMULATED_FAULT", fault, 1);
        tune_all();
        cr_assert_leq(logged("\n"), 1, "%s", log_text);
        if (logged("warning model 'test' keeps the kernels that it has") == 1) {
            cr_assert_eq(logged("bytes were asked for"), 1, "%s", log_text);
            short_of_memory++;
        }
        check_all(graph, net, &info);
        check_memory();
        unload_all(net, graph);
        close_backend();
        unsetenv("CONVOY_EMULATED_FAULT");
    }
    /* Where some kernels have room, they are tried. */
    cr_assert(short_of_memory >= 3 && short_of_memory <= 5, "%d", short_of_memory);
}

/* A kernel whose launch the device refuses is skipped; the others are timed. */
Test(cuda_tuner, a_refused_kernel_is_left_out)
{
    struct convoy_error error;
    struct convoy_graph *graph = small_network();
    struct convoy_net_info info;
    open_tuning(CONVOY_TUNING_ON, NULL);
    struct convoy_net *net = load(graph, MAX_BATCH, &info);
    for (int i = 0; i < 3; i++) /* past filling the tensors */
        cr_assert_eq(backend->idle(device, 0, &error), 1, "%s", error.message);
    setenv("CONVOY_EMULATED_FAULT", "refuse:1", 1);
    tune_all();
    cr_assert_eq(logged("warning a kernel is not tried: "), 1, "%s", log_text);
    cr_assert_eq(logged("is tuned"), 1, "%s", log_text);
    check_all(graph, net, &info);
    unload_all(net, graph);
}

/* A device that is lost while kernels are timed is lost, as in a job. */
Test(cuda_tuner, a_lost_device_is_reported)
{
    struct convoy_error error;
    struct convoy_graph *graph = small_network();
    struct convoy_net_info info;
    open_tuning(CONVOY_TUNING_ON, NULL);
    struct convoy_net *net = load(graph, MAX_BATCH, &info);
    cr_assert_eq(backend->idle(device, 0, &error), 1, "%s", error.message);
    setenv("CONVOY_EMULATED_FAULT", "kernel:1", 1);
    int got;
    while ((got = backend->idle(device, 0, &error)) > 0)
        ;
    cr_assert_lt(got, 0);
    cr_assert_not_null(strstr(error.message, "cudaErrorIllegalAddress"), "%s", error.message);
    backend->unload(device, net);
    convoy_graph_free(graph);
}
