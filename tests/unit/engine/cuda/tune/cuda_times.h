/* A folder for the file of kernel times, of each test one, for those whose tolerance is of a row's largest
 * output; and parts of their networks. Header only. */
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

/* Sets all numbers of a constant. */
static inline void fill(struct convoy_graph *graph, int tensor, float value)
{
    float *data = (float *)(uintptr_t)graph->tensors[tensor].data;
    for (int64_t i = 0; i < convoy_shape_elements(shape_of(graph, tensor)); i++)
        data[i] = value;
}

/* The planes of x, which are square, with their lines as columns. */
static inline int turn_planes(struct convoy_graph *graph, int x)
{
    int y = add_activation(graph, *shape_of(graph, x));
    struct convoy_node *node = add_node(graph, CONVOY_OP_TRANSPOSE, y, 1, &x);
    const int perm[4] = {0, 1, 3, 2};
    memcpy(node->perm, perm, sizeof(perm));
    return y;
}

/* Checks the network's answers without tuning. Its layers are in *info, a copy until the next call. */
static inline void check_untuned(struct convoy_graph *graph, struct convoy_net_info *info)
{
    static struct convoy_layer_info layers[64];
    open_tuning(CONVOY_TUNING_OFF, NULL);
    struct convoy_net *net = load_as(graph, MAX_BATCH, CONVOY_COMPUTE_FP16, info);
    for (uint32_t rows = 1; rows <= MAX_BATCH; rows++)
        check_rows(graph, net, info, CONVOY_LAYOUT_F32_CHW, rows, TOLERANCE_FP16);
    cr_assert_leq(info->layer_count, sizeof(layers) / sizeof(layers[0]));
    memcpy(layers, info->layers, info->layer_count * sizeof(layers[0]));
    info->layers = layers;
    unload_all(net, graph);
    close_backend();
}

#endif
