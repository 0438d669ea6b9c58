#include "engine/onnx/fail.h"

#include <stdarg.h>
#include <stdio.h>

int onnx_fail(const struct onnx_importer *importer, int code, const char *format, ...)
{
    char sentence[CONVOY_ERROR_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    const Onnx__NodeProto *node = importer->node;
    const char *op = node->op_type != NULL ? node->op_type : "";
    if (node->name != NULL && node->name[0] != '\0')
        return convoy_fail(importer->error, code, "node '%.80s' (%.40s): %s", node->name, op, sentence);
    const char *output = node->n_output > 0 ? node->output[0] : "";
    return convoy_fail(importer->error, code, "node %d (%.40s, computes '%.80s'): %s", importer->node_index,
                       op, output, sentence);
}
