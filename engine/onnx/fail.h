/* Errors that name the node that is being read, and refusals that say what to do. */
#ifndef CONVOY_ENGINE_ONNX_FAIL_H
#define CONVOY_ENGINE_ONNX_FAIL_H

#include "engine/onnx/importer.h"

#include <errno.h>

/* What a person can do about a model that is sound but not served. The words are in fail.c. */
enum onnx_advice {
    ONNX_CUT,                  /* the node needs what convoyd lacks, whatever wrote the file */
    ONNX_EXPORT_OTHERWISE,     /* other exporters, or opsets, write the same differently */
    ONNX_EXPORT_FOR_INFERENCE, /* it is there for training alone */
    ONNX_EXPORT_PLAIN,         /* another tool put its own operators in */
    ONNX_INLINE,               /* functions of the file */
    ONNX_FOLD,                 /* constants alone go in */
    ONNX_BATCH_OF_ONE,         /* the batch size is computed with */
    ONNX_OPEN_SHAPE,           /* a shape is written out */
    ONNX_IMAGES_APART,         /* images of a batch would be mixed */
    ONNX_CAST_BEFORE,          /* integers are computed with */
    ONNX_WRITE_SLICES          /* elements are written one by one */
};

/* Fills in the importer's error: the node's name and operator, then the sentence. Returns code. Not for
 * -ENOTSUP: see onnx_refuse(). */
__attribute__((format(printf, 3, 4))) int onnx_fail(const struct onnx_importer *importer, int code,
                                                    const char *format, ...);
/* The same for what is right and not served: "; to serve the model, " and the advice follow. Returns
 * -ENOTSUP. */
__attribute__((format(printf, 3, 4))) int onnx_refuse(const struct onnx_importer *importer,
                                                      enum onnx_advice advice, const char *format, ...);
/* Returns -ENOMEM. Also where no node is being read. */
static inline int onnx_out_of_memory(const struct onnx_importer *importer)
{
    return convoy_fail(importer->error, -ENOMEM, "out of memory while reading the model");
}

#endif
