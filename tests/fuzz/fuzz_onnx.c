/* Model files, through the guard, the reader, shape inference and folding. */
#include "engine/onnx/onnx.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
    if (convoy_onnx_load(path, NULL, &graph, &error) == 0)
        convoy_graph_free(graph);
    else if (error.message[0] == '\0')
        abort(); /* a refusal says why */
    unlink(path);
    return 0;
}
