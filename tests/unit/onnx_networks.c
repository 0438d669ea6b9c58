/* The small networks in tests/data/networks, exported by PyTorch in the shape of torchvision's: all load with
 * an open batch, with every batch norm folded away. (Their answers are compared with ONNX Runtime's by the
 * CPU backend's tests.) */
#include "tests/unit/onnx_builder.h"

#include "engine/base/clock.h"

#include <dirent.h>

#define NETWORKS CONVOY_TEST_DATA "/networks"

Test(onnx_networks, load_with_an_open_batch)
{
    DIR *dir = opendir(NETWORKS);
    if (dir == NULL)
        cr_skip_test("%s is not there", NETWORKS);
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
        fprintf(stderr, "%s: %d nodes, %lld bytes of weights, %llu us\n", entry->d_name, graph->node_count,
                (long long)graph->weight_bytes, (unsigned long long)took);
        convoy_graph_free(graph);
    }
    closedir(dir);
    if (networks == 0)
        cr_skip_test("no network in %s", NETWORKS);
}
