/* Networks exported by PyTorch (tests/data/networks, tests/data/forms), with inputs and the outputs that ONNX
 * Runtime computed: the whole way from the file to the answers of the CPU backend, as one batch and one image
 * at a time. */
#include "tests/unit/engine/backends/backend_harness.h"

#include "engine/onnx/onnx.h"
#include "engine/onnx/tensor.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

static const char *const folders[] = {CONVOY_TEST_DATA "/networks", CONVOY_TEST_DATA "/forms"};

/* Greatest deviation that is accepted, relative to the greatest output of the row: both sides add up the same
 * products in float32, in other orders. */
#define TOLERANCE 1e-5

static void read_tensor(const char *parent, const char *network, const char *file,
                        struct convoy_onnx_tensor *tensor)
{
    char path[512];
    struct convoy_error error;
    snprintf(path, sizeof(path), "%s/%s/test_data_set_0/%s", parent, network, file);
    cr_assert_eq(convoy_onnx_read_tensor_pb(path, tensor, &error), 0, "%s", error.message);
    cr_assert(tensor->floats != NULL, "%s holds no floats", path);
}

static uint32_t greatest(const float *values, uint32_t count)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++)
        if (values[i] > values[best])
            best = i;
    return best;
}

static void check_row(const char *network, uint32_t row, uint32_t rows, const float *values,
                      const float *expected, uint32_t count, double tolerance)
{
    double scale = 0;
    double deviation = 0;
    for (uint32_t i = 0; i < count; i++) {
        scale = fmax(scale, fabs((double)expected[i]));
        cr_assert(isfinite(values[i]), "%s: row %u of %u holds what is no number", network, row, rows);
        deviation = fmax(deviation, fabs((double)values[i] - (double)expected[i]));
    }
    cr_expect(deviation <= tolerance * scale, "%s: row %u of %u deviates by %g of %g", network, row, rows,
              deviation, scale);
    cr_expect_eq(greatest(values, count), greatest(expected, count), "%s: row %u of %u: another class",
                 network, row, rows);
}

static void run_rows(const char *network, struct convoy_net *net, const struct convoy_net_info *info,
                     const float *input, const float *expected, uint32_t first, uint32_t rows,
                     double tolerance)
{
    size_t elements = (size_t)info->channels * info->height * info->width;
    size_t stride = (elements * sizeof(float) + 63) / 64 * 64;
    size_t output_stride = (info->outputs_per_row * sizeof(float) + 63) / 64 * 64;
    char *in = aligned_bytes(rows * stride);
    char *out = aligned_bytes(rows * output_stride);
    memset(out, 0xff, rows * output_stride);
    for (uint32_t n = 0; n < rows; n++)
        memcpy(in + n * stride, input + (first + n) * elements, elements * sizeof(float));
    struct convoy_job job = {.layout = CONVOY_LAYOUT_F32_CHW,
                             .rows = rows,
                             .input = in,
                             .input_stride = stride,
                             .output = (float *)(void *)out,
                             .output_stride = output_stride};
    run(net, &job);
    for (uint32_t n = 0; n < rows; n++)
        check_row(network, first + n, rows, (const float *)(void *)(out + n * output_stride),
                  expected + (first + n) * info->outputs_per_row, info->outputs_per_row, tolerance);
    free(in);
    free(out);
}

/* What nhwc_attention computes of a network in 16 bits; of others -1. */
static int attention_layers(const struct convoy_net_info *info)
{
    int nhwc = 0, found = 0;
    for (uint32_t i = 0; i < info->layer_count; i++) {
        nhwc += strncmp(info->layers[i].kernel, "nhwc", 4) == 0;
        found += strcmp(info->layers[i].kernel, "nhwc_attention") == 0;
    }
    return nhwc > 0 ? found : -1;
}

/* Returns what attention_layers() does. */
static int check_network(const char *parent, const char *network, enum convoy_compute_type precision,
                         double tolerance)
{
    char path[512];
    struct convoy_error error;
    struct convoy_graph *graph = NULL;
    struct convoy_net_info info;
    struct convoy_onnx_tensor input = {0};
    struct convoy_onnx_tensor expected = {0};
    read_tensor(parent, network, "input_0.pb", &input);
    read_tensor(parent, network, "output_0.pb", &expected);
    snprintf(path, sizeof(path), "%s/%s/model.onnx", parent, network);
    cr_assert_eq(convoy_onnx_load(path, NULL, &graph, &error), 0, "%s", error.message);
    struct convoy_net *net = load_as(graph, 16, precision, &info);
    int attention = attention_layers(&info);
    if (!backend->keeps_graph)
        convoy_graph_free(graph);

    uint32_t rows = (uint32_t)input.shape.dims[0];
    cr_assert_eq(convoy_shape_elements(&input.shape),
                 (int64_t)rows * info.channels * info.height * info.width, "%s: the input has another size",
                 network);
    cr_assert_eq(convoy_shape_elements(&expected.shape), (int64_t)rows * info.outputs_per_row,
                 "%s: the output has another size", network);
    run_rows(network, net, &info, input.floats, expected.floats, 0, rows, tolerance);
    for (uint32_t n = 0; n < rows; n++)
        run_rows(network, net, &info, input.floats, expected.floats, n, 1, tolerance);
    backend->unload(device, net);
    if (backend->keeps_graph)
        convoy_graph_free(graph);
    convoy_onnx_tensor_free(&input);
    convoy_onnx_tensor_free(&expected);
    return attention;
}

/* Returns how many networks there are. */
static int check_folder(const char *parent)
{
    DIR *folder = opendir(parent);
    int networks = 0;
    if (folder == NULL)
        cr_assert_fail("no exported networks in %s: they are part of the tree", parent);
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        char path[512];
        struct stat status;
        snprintf(path, sizeof path, "%s/%s/test_data_set_0", parent, entry->d_name);
        if (entry->d_name[0] == '.' || stat(path, &status) != 0)
            continue;
        check_network(parent, entry->d_name, CONVOY_COMPUTE_FP32, TOLERANCE);
        networks++;
    }
    closedir(folder);
    return networks;
}

Test(backend_exported, agree_with_onnx_runtime, .init = open_backend, .fini = close_backend, .timeout = 300)
{
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        cr_assert_gt(check_folder(folders[i]), 0, "no network in %s", folders[i]);
}

/* With fp16 on a GPU of sm_90 both of its layers are found, whatever exporter wrote them. */
Test(backend_exported, attention_of_unit_length, .init = open_backend, .fini = close_backend, .timeout = 300)
{
    static const char *const networks[] = {"windows_cosine_old_op17", "windows_cosine_new_default"};
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++) {
        int attention = check_network(folders[1], networks[i], CONVOY_COMPUTE_FP16, 4e-3);
        cr_expect(attention == 2 || attention == -1, "%s: %d layers of attention", networks[i], attention);
    }
}
