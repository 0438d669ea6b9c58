/* Jobs of JPEG files: what the device makes of whole ones. */
#include "tests/unit/engine/backends/backend_jpeg.h"

TestSuite(backend_jpeg, .init = open_jpeg, .fini = close_backend, .timeout = 300);

Test(backend_jpeg, sizes_samplings_and_grey)
{
    static const int sizes[][2] = {{32, 32}, {64, 48}, {37, 23}, {1, 1},   {2, 2},    {3, 5},
                                   {4, 4},   {5, 3},   {100, 9}, {9, 100}, {120, 90}, {16, 17}};
    struct mirror mirror = load_mirror(24, 20, 3, 64, &stretch);
    struct rows *rows = new_rows();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        for (int form = 0; form < 5; form++)
            add_row(rows,
                    encode(&(struct encoding){.width = sizes[i][0],
                                              .height = sizes[i][1],
                                              .grey = form == 4,
                                              .half_x = form & 1,
                                              .half_y = form >> 1 & 1}),
                    1);
    lay_out(rows);
    check_rows_but(&mirror, rows, 0);
    unload_mirror(&mirror);
}

Test(backend_jpeg, orientations)
{
    struct convoy_image_fitting fitting = {
        .kind = CONVOY_FITTING_CROP, .cover_width = 30, .cover_height = 30};
    struct mirror mirror = load_mirror(24, 20, 3, 64, &fitting);
    struct rows *rows = new_rows();
    for (int orientation = 1; orientation <= 8; orientation++) {
        add_row(rows, encode(&(struct encoding){.width = 61, .height = 35, .half_x = 1, .half_y = 1}),
                orientation);
        add_row(rows, encode(&(struct encoding){.width = 20, .height = 50, .grey = orientation % 2}),
                orientation);
    }
    lay_out(rows);
    check_rows_but(&mirror, rows, 0);
    unload_mirror(&mirror);
}

/* Each kind, filter and colour; enlarged, shrunk, as they are; the pass along y first and last. */
Test(backend_jpeg, fittings)
{
    static const int sizes[][2] = {{24, 40}, {80, 60}, {25, 300}, {300, 25}, {10, 8}, {24, 20}, {3000, 6}};
    for (int kind = CONVOY_FITTING_STRETCH; kind <= CONVOY_FITTING_PAD; kind++)
        for (int filter = CONVOY_FILTER_BILINEAR; filter <= CONVOY_FILTER_NEAREST; filter++) {
            struct convoy_image_fitting fitting = {.kind = (enum convoy_fitting_kind)kind,
                                                   .filter = (enum convoy_image_filter)filter,
                                                   .color = {10, 100, 200},
                                                   .bgr = (filter + kind) % 2};
            if (kind != CONVOY_FITTING_PAD &&
                filter % 2 == 0) { /* its centre is cut out, 3.5 pixels from the left */
                fitting.cover_width = 31;
                fitting.cover_height = 26;
                fitting.cuts_down = filter == CONVOY_FILTER_BILINEAR;
            }
            int channels = filter == CONVOY_FILTER_BICUBIC ? 1 : 3;
            struct mirror mirror = load_mirror(24, 20, channels, 8, &fitting);
            struct rows *rows = new_rows();
            for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
                add_row(
                    rows,
                    encode(&(struct encoding){
                        .width = sizes[i][0], .height = sizes[i][1], .half_x = i % 2, .half_y = i % 3 == 0}),
                    (int)i + 1);
            lay_out(rows);
            check_rows_but(&mirror, rows, 0);
            unload_mirror(&mirror);
        }
}

/* More than the planes of a state hold, and more tables than fit. */
Test(backend_jpeg, several_rounds)
{
    struct mirror mirror = load_mirror(24, 20, 3, 300, &stretch);
    struct rows *rows = new_rows();
    for (int i = 0; i < 10; i++)
        add_row(rows, encode(&(struct encoding){.width = 640, .height = 480 - i}), 1);
    lay_out(rows);
    check_rows_but(&mirror, rows, 0);
    rows = new_rows();
    for (int i = 0; i < (int)CONVOY_JPEG_ROWS_MAX; i++)
        add_row(rows, encode(&(struct encoding){.width = 20 + i, .height = 280 - i, .grey = true}),
                1 + i % 8);
    lay_out(rows);
    check_rows_but(&mirror, rows, 0);
    unload_mirror(&mirror);
}

/* ---- Jobs beside each other ---- */

static uint64_t counted;

static void find_count(void *context, const char *name, uint64_t value)
{
    if (strcmp(name, context) == 0)
        counted += value;
}

static uint64_t count_of_calls(void)
{
    static const char *const names[] = {"cudaMalloc", "cudaMallocHost", "cudaFree", "cudaFreeHost",
                                        "cudaHostRegister"};
    counted = 0;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        backend->counters(device, find_count, (void *)(uintptr_t)names[i]);
    return counted;
}

/* Twenty jobs at once, profiles and jobs of pixels among them, of two networks; a third one is loaded
 * meanwhile, with larger rows. Once each state has worked nothing is allocated. */
Test(backend_jpeg, many_jobs_at_once)
{
    enum { JOBS = 20 };
    struct convoy_image_fitting fittings[2] = {{.kind = CONVOY_FITTING_STRETCH},
                                               {.kind = CONVOY_FITTING_PAD, .bgr = true}};
    struct mirror mirrors[3];
    struct rows *rows[JOBS];
    float *outputs[JOBS];
    static struct convoy_job_times times[JOBS];
    struct convoy_error error;
    for (int i = 0; i < 2; i++)
        mirrors[i] = load_mirror(20 + 4 * i, 20, 3, 8, &fittings[i]);
    uint64_t allocated = 0;
    for (int again = 0; again < 3; again++) {
        for (int i = 0; i < JOBS; i++) {
            struct mirror *mirror = &mirrors[i % 2];
            rows[i] = new_rows();
            for (int k = 0; k <= i % 8; k++)
                add_row(rows[i], encode(&(struct encoding){.width = 30 + i, .height = 50 - k}), 1 + k);
            lay_out(rows[i]);
            outputs[i] = aligned_bytes(rows[i]->count * output_stride(mirror));
            struct convoy_job job = job_of(mirror, rows[i], outputs[i], &times[i]);
            job.tag = (uint64_t)i;
            job.profile = again == 2 || i % 5 == 0;
            cr_assert_eq(backend->submit(device, mirror->net, &job, &error), 0, "%s", error.message);
            if (i == 4 && again == 1)
                mirrors[2] = load_mirror(40, 40, 3, 16, &stretch);
        }
        bool seen[JOBS] = {false};
        for (int i = 0; i < JOBS; i++) {
            uint64_t tag = JOBS;
            cr_assert_eq(take(&tag, &error), 1, "%s", error.message);
            cr_assert(tag < JOBS && !seen[tag]);
            seen[tag] = true;
            for (uint32_t row = 0; row < rows[tag]->count; row++)
                check_row(&mirrors[tag % 2], rows[tag], row,
                          outputs[tag] + row * output_stride(&mirrors[tag % 2]) / sizeof(float));
        }
        for (int i = 0; i < JOBS; i++) {
            free_rows(rows[i]);
            free(outputs[i]);
        }
        if (again == 1)
            allocated = count_of_calls();
    }
    if (is_exact()) /* nvJPEG allocates when it likes; some state may not have worked before */
        cr_assert_leq(count_of_calls() - allocated, 2 * 4);
    for (int i = 0; i < 3; i++)
        unload_mirror(&mirrors[i]);
}

/* ---- Rows that fp16 does not hold ---- */

/* Bright rows overflow fp16 and run again on a network with float32, from their files: as rows of the same
 * pixels do, to the bit. */
Test(backend_jpeg, rows_that_run_again)
{
    enum { ROWS = 6 };
    struct convoy_error error;
    struct convoy_net_info info;
    struct convoy_net *net = NULL;
    struct convoy_load_options options = {.name = "loud",
                                          .max_batch = 8,
                                          .precision = CONVOY_COMPUTE_FP16,
                                          .fitting = stretch,
                                          .multiply = {1, 1, 1, 1}};
    struct convoy_graph *graph = new_graph(SHAPE(1, 3, 20, 24));
    int x = add_conv(graph, graph->input, 16, 3, 3, CONV3, true);
    float *weights = graph->tensors[graph->nodes[0].inputs[1]].data;
    for (int i = 0; i < 16 * 3 * 9; i++)
        weights[i] = fabsf(weights[i]) * 200;
    x = add_conv(graph, add_act(graph, x, CONVOY_RELU, 0, 0), 16, 3, 3, CONV3, true);
    add_output(graph, add_dense(graph, add_flatten(graph, x), 5, true));
    cr_assert_eq(backend->load(device, graph, &options, &net, &info, &error), 0, "%s", error.message);
    cr_assert(info.takes_jpeg);
    struct mirror mirror = load_mirror(24, 20, 3, 8, &stretch);
    struct rows *rows = new_rows();
    for (int i = 0; i < ROWS; i++)
        add_row(rows, usual(), 1);
    free(rows->files[2].bytes);
    rows->files[2] = encode(&(struct encoding){.width = 40, .height = 30, .comment = "nvjpeg:refuse"});
    lay_out(rows);
    struct convoy_job_times times;
    float *pixels = run_rows(&mirror, rows, &times);
    size_t stride = 24 * 20 * 3 + 32, output_bytes = (info.outputs_per_row * sizeof(float) + 63) / 64 * 64;
    _Static_assert((24 * 20 * 3 + 32) % 64 == 0, "a row's stride");
    uint8_t *bytes = aligned_bytes(ROWS * stride);
    for (int row = 0; row < ROWS; row++)
        for (int c = 0; c < 3; c++)
            for (int i = 0; i < 24 * 20; i++)
                bytes[(size_t)row * stride + (size_t)(i * 3 + c)] = (uint8_t)
                    pixels[(size_t)row * output_stride(&mirror) / sizeof(float) + (size_t)(c * 480 + i)];
    float *outputs[2] = {aligned_bytes(ROWS * output_bytes), aligned_bytes(ROWS * output_bytes)};
    struct convoy_job job = job_of(&mirror, rows, outputs[0], &times);
    job.output_stride = output_bytes;
    run(net, &job);
    cr_assert_eq(times.undecoded[0], is_exact() ? 4 : 0);
    cr_assert(strstr(logged, "run again with float32 tensors") != NULL, "%s", logged);
    job.layout = CONVOY_LAYOUT_U8_HWC;
    job.input = bytes;
    job.input_stride = stride;
    job.output = outputs[1];
    run(net, &job);
    for (int row = 0; row < ROWS; row++) {
        size_t at = (size_t)row * output_bytes / sizeof(float);
        cr_assert(isfinite(outputs[0][at]), "row %d", row);
        cr_assert_arr_eq(outputs[0] + at, outputs[1] + at, info.outputs_per_row * sizeof(float), "row %d",
                         row);
    }
    backend->unload(device, net);
    convoy_graph_free(graph);
    unload_mirror(&mirror);
    free(pixels);
    free(bytes);
    free(outputs[0]);
    free(outputs[1]);
    free_rows(rows);
}
