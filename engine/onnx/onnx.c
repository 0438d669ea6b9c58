#include "engine/onnx/onnx.h"

#include "engine/base/utf8.h"
#include "engine/graph/build.h"
#include "engine/onnx/fail.h"
#include "engine/onnx/file.h"
#include "engine/onnx/guard.h"
#include "engine/onnx/import.h"
#include "engine/onnx/importer.h"
#include "engine/onnx/other_format.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The build of the fuzzers counts each comparison, which takes 20 times as long: they get smaller bounds, so
 * that what takes their 10 seconds has passed a bound. */
#ifndef CONVOY_ONNX_BOUND_SHIFT
#define CONVOY_ONNX_BOUND_SHIFT 0
#endif
#define MOST_STORED (INT64_C(1) << 29) /* elements of constants: 2 GiB */
/* Simple operations on constants: some seconds. */
#define MOST_WORK (INT64_C(1) << (32 - CONVOY_ONNX_BOUND_SHIFT))
/* Elements that may be computed from nothing: 1 GiB. The ONNX project's own light networks make the weights
 * of a VGG-19, 144 million numbers, with ConstantOfShape. */
#define COMPUTED_FLOOR (INT64_C(1) << (28 - CONVOY_ONNX_BOUND_SHIFT))

static int unpack(const char *path, Onnx__ModelProto **model, struct convoy_error *error)
{
    uint8_t *bytes = NULL;
    size_t size = 0;
    int status = onnx_read_file(path, &bytes, &size, error);
    if (status != 0)
        return status;
    status = onnx_guard(bytes, size, ONNX_MODEL, error);
    if (status == 0 && (*model = onnx__model_proto__unpack(NULL, size, bytes)) == NULL)
        status = convoy_fail(error, -EINVAL, "the file is damaged, it is no ONNX model");
    bool no_model = status == -EINVAL || (status == 0 && (*model)->graph == NULL);
    const char *other = no_model ? onnx_other_format(bytes, size) : NULL;
    if (other != NULL)
        status = convoy_fail(error, -EINVAL, "this is no ONNX model but %s", other);
    free(bytes);
    return status == 0 ? 0 : convoy_fail_in(error, status, "%.200s", path);
}

/* Names come from the file and go into JSON and logs: only whole, printable UTF-8 passes. */
static void make_printable(char *text)
{
    for (size_t left = strlen(text); left > 0;) {
        size_t bytes = convoy_utf8_character(text, left);
        if (bytes == 0 || (unsigned char)*text < 0x20 || *text == 0x7F) {
            *text = '?';
            bytes = 1;
        }
        text += bytes;
        left -= bytes;
    }
}

static void make_names_printable(struct convoy_graph *graph)
{
    for (int i = 0; i < graph->tensor_count; i++)
        make_printable(graph->tensors[i].name);
    for (int i = 0; i < graph->node_count; i++)
        make_printable(graph->nodes[i].name);
}

int convoy_onnx_load(const char *path, const struct convoy_onnx_options *options, struct convoy_graph **graph,
                     struct convoy_error *error)
{
    static const struct convoy_onnx_options none;
    struct convoy_error ignored;
    struct onnx_importer importer = {.options = options != NULL ? options : &none,
                                     .error = error != NULL ? error : &ignored,
                                     .batch = ONNX_NO_BATCH,
                                     .stored_left = MOST_STORED,
                                     .computed_left = COMPUTED_FLOOR,
                                     .work_left = MOST_WORK};
    *graph = NULL;
    importer.error->message[0] = '\0';
    int status = unpack(path, &importer.model, importer.error);
    if (status == 0) {
        importer.folder = onnx_folder_of(path);
        importer.graph = convoy_graph_new();
        if (importer.folder == NULL || importer.graph == NULL)
            status = onnx_out_of_memory(&importer);
        else if ((status = onnx_import(&importer)) == 0)
            make_names_printable(importer.graph);
        if (status != 0)
            convoy_fail_in(importer.error, status, "%.200s", path);
    }
    for (int i = 0; i < importer.value_count; i++)
        free(importer.values[i].ints);
    free(importer.values);
    free(importer.slots);
    free(importer.folder);
    if (importer.model != NULL)
        onnx__model_proto__free_unpacked(importer.model, NULL);
    if (status != 0) {
        convoy_graph_free(importer.graph);
        make_printable(importer.error->message);
        return status;
    }
    *graph = importer.graph;
    return 0;
}
