/* Errors that name the node that is being read. */
#ifndef CONVOY_ENGINE_ONNX_FAIL_H
#define CONVOY_ENGINE_ONNX_FAIL_H

#include "engine/onnx/importer.h"

#include <errno.h>

/* Fills in the importer's error: the node's name and operator, then the sentence. Returns code. */
__attribute__((format(printf, 3, 4))) int onnx_fail(const struct onnx_importer *importer, int code,
                                                    const char *format, ...);
/* Returns -ENOMEM. Also where no node is being read. */
static inline int onnx_out_of_memory(const struct onnx_importer *importer)
{
    return convoy_fail(importer->error, -ENOMEM, "out of memory while reading the model");
}

#endif
