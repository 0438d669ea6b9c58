#include "engine/onnx/fail.h"

#include <stdarg.h>
#include <stdio.h>

static int fail(const struct onnx_importer *importer, int code, const char *sentence)
{
    const Onnx__NodeProto *node = importer->node;
    const char *op = node->op_type != NULL ? node->op_type : "";
    if (node->name != NULL && node->name[0] != '\0')
        return convoy_fail(importer->error, code, "node '%.80s' (%.40s): %s", node->name, op, sentence);
    const char *output = node->n_output > 0 ? node->output[0] : "";
    return convoy_fail(importer->error, code, "node %d (%.40s, computes '%.80s'): %s", importer->node_index,
                       op, output, sentence);
}

int onnx_fail(const struct onnx_importer *importer, int code, const char *format, ...)
{
    char sentence[CONVOY_ERROR_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    return fail(importer, code, sentence);
}

static const char *words_of(const struct onnx_importer *importer, enum onnx_advice advice)
{
    if (advice == ONNX_BATCH_OF_ONE && importer->batch == 1)
        advice = ONNX_EXPORT_OTHERWISE;
    switch (advice) {
    case ONNX_CUT:
        return "cut it before this node if the scores are known there, or use a server that runs ONNX "
               "Runtime";
    case ONNX_EXPORT_OTHERWISE:
        return "export it with another opset or exporter, or use a server that runs ONNX Runtime";
    case ONNX_EXPORT_FOR_INFERENCE:
        return "export it for inference";
    case ONNX_EXPORT_PLAIN:
        return "take the file as it was exported, before another tool optimised it, or use a server that "
               "runs ONNX Runtime";
    case ONNX_INLINE:
        return "inline its functions, e.g. with onnx.inliner";
    case ONNX_FOLD:
        return "fold its constants, e.g. with onnxsim: this node computes one from others";
    case ONNX_BATCH_OF_ONE:
        return "export it with a fixed batch of 1, which convoyd serves for any number of images";
    case ONNX_OPEN_SHAPE:
        return "export it with -1 or the batch in that shape, or with a fixed batch of 1";
    case ONNX_IMAGES_APART:
        return "change it so that the first dimension is the image and each image is computed by itself, or "
               "use a server that runs ONNX Runtime";
    case ONNX_CAST_BEFORE:
        return "put a Cast to float32 before this node";
    case ONNX_WRITE_SLICES:
        return "write it with slices, or with torch.where, and export it again";
    }
    return "";
}

int onnx_refuse(const struct onnx_importer *importer, enum onnx_advice advice, const char *format, ...)
{
    char sentence[CONVOY_ERROR_BYTES], whole[CONVOY_ERROR_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);
    snprintf(whole, sizeof whole, "%.300s; to serve the model, %s", sentence, words_of(importer, advice));
    return fail(importer, -ENOTSUP, whole);
}
