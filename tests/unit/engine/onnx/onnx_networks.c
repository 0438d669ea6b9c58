/* The small networks in tests/data/networks, exported by PyTorch in the shape of torchvision's: all load with
 * an open batch, with every batch norm folded away. (Their answers are compared with ONNX Runtime's by the
 * CPU backend's tests.) */
#include "tests/unit/engine/onnx/onnx_builder.h"

#include "engine/base/clock.h"
#include "engine/onnx/tensor.h"
#include "tests/unit/engine/graph/graph_reference.h"

#include <dirent.h>

#define NETWORKS CONVOY_TEST_DATA "/networks"

/* Compares with output_0.pb for input_0.pb; returns how many images there were. */
static int64_t compare(const struct convoy_graph *graph, const char *folder)
{
    char path[1100];
    struct convoy_onnx_tensor input, output;
    struct convoy_error error;
    snprintf(path, sizeof path, "%s/test_data_set_0/input_0.pb", folder);
    cr_assert(convoy_onnx_read_tensor_pb(path, &input, &error) == 0, "%s", error.message);
    snprintf(path, sizeof path, "%s/test_data_set_0/output_0.pb", folder);
    cr_assert(convoy_onnx_read_tensor_pb(path, &output, &error) == 0, "%s", error.message);
    int64_t images = input.shape.dims[0];
    int64_t pixels = convoy_shape_elements(&input.shape) / images;
    int64_t classes = convoy_shape_elements(&output.shape) / images;
    cr_assert(pixels == convoy_shape_elements(&graph->tensors[graph->input].shape));
    cr_assert(classes == convoy_shape_elements(&graph->tensors[graph->outputs[0]].shape));
    double *image = malloc(sizeof *image * (size_t)pixels);
    for (int64_t n = 0; n < images; n++) {
        for (int64_t i = 0; i < pixels; i++)
            image[i] = input.floats[n * pixels + i];
        double *answer = reference_run(graph, image), worst = 0, largest = 0;
        for (int64_t k = 0; k < classes; k++) {
            worst = fmax(worst, fabs(answer[k] - output.floats[n * classes + k]));
            largest = fmax(largest, fabs((double)output.floats[n * classes + k]));
        }
        cr_expect(worst <= 1e-5 * largest, "%s: image %d is off by %g of %g", folder, (int)n, worst, largest);
        free(answer);
    }
    free(image);
    convoy_onnx_tensor_free(&input);
    convoy_onnx_tensor_free(&output);
    return images;
}

Test(onnx_networks, load_with_an_open_batch_and_answer_as_onnx_runtime, .timeout = 120)
{
    DIR *dir = opendir(NETWORKS);
    if (dir == NULL)
        cr_assert_fail("%s is not there: it is part of the tree", NETWORKS);
    int networks = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[1024];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s/model.onnx", NETWORKS, entry->d_name);
        if (access(path, R_OK) != 0)
            continue;
        struct convoy_graph *graph;
        struct convoy_error error;
        uint64_t start = convoy_now_us();
        int status = convoy_onnx_load(path, NULL, &graph, &error);
        uint64_t took = convoy_now_us() - start;
        cr_assert(status == 0, "%s", error.message);
        networks++;
        expect_sound(graph);
        cr_expect(graph->tensors[graph->input].shape.batch_axis == 0);
        cr_expect(graph->tensors[graph->outputs[0]].shape.batch_axis == 0);
        cr_expect(graph->tensors[graph->outputs[0]].shape.rank == 2);
        int convolutions = 0, dense = 0;
        for (int i = 0; i < graph->node_count; i++) {
            convolutions += graph->nodes[i].op == CONVOY_OP_CONV;
            dense += graph->nodes[i].op == CONVOY_OP_DENSE;
            cr_expect(graph->nodes[i].op != CONVOY_OP_SCALE_SHIFT, "%s: %s is not folded", path,
                      graph->nodes[i].name);
            cr_expect(graph->nodes[i].op != CONVOY_OP_MATMUL && graph->nodes[i].op != CONVOY_OP_TRANSPOSE);
        }
        cr_expect(convolutions >= 20 && dense >= 1, "%s: %d convolutions, %d dense", path, convolutions,
                  dense);
        *strrchr(path, '/') = '\0';
        cr_expect(compare(graph, path) > 0);
        fprintf(stderr, "%s: %d nodes, %lld bytes of weights, %llu us\n", entry->d_name, graph->node_count,
                (long long)graph->weight_bytes, (unsigned long long)took);
        convoy_graph_free(graph);
    }
    closedir(dir);
    if (networks == 0)
        cr_assert_fail("no network in %s: they are part of the tree", NETWORKS);
}
