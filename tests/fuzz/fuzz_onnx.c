/* Model files, through the guard, the reader, shape inference and folding. Every other mutation is the edit
 * of a field. */
#include "engine/onnx/onnx.h"
#include "tests/fuzz/protobuf_fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SMALL 16384 /* what is not for the daemon is read otherwise, too, where that takes no time */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most); /* libFuzzer's */

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    return seed % 2 == 0 ? LLVMFuzzerMutate(data, size, most)
                         : edit_field(data, size, most, seed, LLVMFuzzerMutate);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char path[64];
    struct convoy_graph *graph;
    struct convoy_error error = {"no sentence"};
    if (path[0] == '\0')
        snprintf(path, sizeof path, "/dev/shm/convoy-fuzz-%d.onnx", (int)getpid());
    FILE *file = fopen(path, "wb");
    if (file == NULL)
        abort();
    fwrite(data, 1, size, file);
    fclose(file);
    struct convoy_onnx_options options = {.axes = (enum convoy_image_axes)(size % CONVOY_IMAGE_AXES)};
    int code = convoy_onnx_load(path, &options, &graph, &error);
    if (code != 0 && strstr(error.message, " open; to serve the model, give ") != NULL) {
        options.height = options.width = 16;
        code = convoy_onnx_load(path, &options, &graph, &error);
    }
    /* As the conformance cases are read, whose models have inputs of all shapes. */
    if (code != 0 && size < SMALL) {
        options = (struct convoy_onnx_options){.no_batch = true, .old_opsets = true};
        code = convoy_onnx_load(path, &options, &graph, &error);
    }
    if (code == 0)
        convoy_graph_free(graph);
    else if (error.message[0] == '\0')
        abort(); /* a refusal says why */
    unlink(path);
    return 0;
}
