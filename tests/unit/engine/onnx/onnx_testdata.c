/* Every model of Debian's libonnx-testdata either loads or is refused with a sentence that names it; none
 * makes the reader misbehave. (Whether what loads computes the right thing is the conformance run's
 * business.) */
#include "engine/onnx/onnx.h"
#include "engine/onnx/tensor.h"

#include <criterion/criterion.h>
#include <onnx/onnx.pb-c.h>

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TESTDATA  "/usr/share/libonnx-testdata/data"
#define MAX_BOUND 16

static uint8_t *read_all(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return NULL;
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    uint8_t *bytes = malloc(*size + 1);
    if (fread(bytes, 1, *size, file) != *size)
        *size = 0;
    fclose(file);
    return bytes;
}

/* Binds every input but the first to the values that come with the case; stops at what cannot be read. */
static int bind_inputs(const char *folder, const Onnx__GraphProto *graph, struct convoy_onnx_tensor *tensors,
                       struct convoy_onnx_binding *bindings)
{
    int bound = 0;
    for (size_t i = 1; i < graph->n_input && bound < MAX_BOUND; i++) {
        char path[2048];
        snprintf(path, sizeof path, "%s/test_data_set_0/input_%zu.pb", folder, i);
        if (convoy_onnx_read_tensor_pb(path, &tensors[bound], NULL) != 0)
            break;
        if (convoy_shape_elements(&tensors[bound].shape) == 0 && !tensors[bound].is_int64) {
            convoy_onnx_tensor_free(&tensors[bound]);
            break;
        }
        bindings[bound] = (struct convoy_onnx_binding){.name = graph->input[i]->name,
                                                       .shape = tensors[bound].shape,
                                                       .is_int64 = tensors[bound].is_int64,
                                                       .data = tensors[bound].is_int64
                                                                   ? (const void *)tensors[bound].ints
                                                                   : (const void *)tensors[bound].floats};
        bound++;
    }
    return bound;
}

static void load_case(const char *folder, bool no_batch, int *loaded, int *refused)
{
    char path[2048];
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    size_t size = 0;
    uint8_t *bytes = read_all(path, &size);
    if (bytes == NULL)
        return;
    Onnx__ModelProto *model = onnx__model_proto__unpack(NULL, size, bytes);
    free(bytes);
    cr_assert(model != NULL, "%s is no model", path);
    struct convoy_onnx_tensor tensors[MAX_BOUND];
    struct convoy_onnx_binding bindings[MAX_BOUND];
    int bound = bind_inputs(folder, model->graph, tensors, bindings);

    struct convoy_onnx_options options = {
        .no_batch = no_batch, .old_opsets = true, .bindings = bindings, .binding_count = bound};
    struct convoy_graph *graph;
    struct convoy_error error;
    int status = convoy_onnx_load(path, &options, &graph, &error);
    if (status == 0) {
        ++*loaded;
        cr_expect(graph->output_count > 0 && graph->node_count > 0, "%s loaded as nothing", path);
    } else {
        ++*refused;
        cr_expect(status < 0 && graph == NULL);
        cr_expect(strstr(error.message, path) == error.message, "%s: %s", path, error.message);
        cr_expect(strlen(error.message) > strlen(path) + 10, "no sentence: %s", error.message);
        cr_expect(status != -ENOTSUP || strstr(error.message, "; to serve the model, ") != NULL,
                  "what to do is missing: %s", error.message);
        if (getenv("CONVOY_TEST_VERBOSE") != NULL)
            fprintf(stderr, "%s\n", error.message);
    }
    convoy_graph_free(graph);
    for (int i = 0; i < bound; i++)
        convoy_onnx_tensor_free(&tensors[i]);
    onnx__model_proto__free_unpacked(model, NULL);
}

static void load_all(const char *group, bool no_batch, int *loaded, int *refused)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s/%s", TESTDATA, group);
    DIR *dir = opendir(folder);
    if (dir == NULL)
        cr_skip_test("libonnx-testdata is not installed: %s is not there", folder);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[1024];
        if (strncmp(entry->d_name, "test_", 5) != 0)
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        load_case(path, no_batch, loaded, refused);
    }
    closedir(dir);
}

/* The package's 1.12.0 has 930 node cases; with the shapes as they are written, those of the supported
 * operators load. The numbers are lower bounds, so that a reader that suddenly refuses what it read is
 * noticed. */
Test(onnx_testdata, node_cases_load_or_say_why)
{
    int loaded = 0, refused = 0;
    load_all("node", true, &loaded, &refused);
    fprintf(stderr, "node: %d load, %d are refused\n", loaded, refused);
    cr_expect(loaded >= 144, "only %d load", loaded);
    cr_expect(refused >= 450, "only %d are refused", refused);
}

Test(onnx_testdata, node_cases_load_or_say_why_with_a_batch)
{
    int loaded = 0, refused = 0;
    load_all("node", false, &loaded, &refused);
    fprintf(stderr, "node with a batch: %d load, %d are refused\n", loaded, refused);
    cr_expect(loaded > 0 && refused > 0);
}

Test(onnx_testdata, pytorch_cases_load_or_say_why)
{
    int loaded = 0, refused = 0;
    load_all("pytorch-converted", true, &loaded, &refused);
    fprintf(stderr, "pytorch-converted: %d load, %d are refused\n", loaded, refused);
    cr_expect(loaded >= 34, "only %d load", loaded);
}
