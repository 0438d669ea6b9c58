/* The operators that can be read: one table for each ops_*.c. */
#ifndef CONVOY_ENGINE_ONNX_OPS_H
#define CONVOY_ENGINE_ONNX_OPS_H

#include "engine/onnx/importer.h"

/* One ONNX operator; read() handles the importer's current node. */
struct onnx_operator {
    const char *name;
    int min_inputs, max_inputs;
    int (*read)(struct onnx_importer *importer);
};

/* Each table ends with an entry whose name is NULL. */
extern const struct onnx_operator onnx_image_operators[];       /* ops_conv.c */
extern const struct onnx_operator onnx_dense_operators[];       /* ops_dense.c */
extern const struct onnx_operator onnx_elementwise_operators[]; /* ops_elementwise.c */
extern const struct onnx_operator onnx_layout_operators[];      /* ops_layout.c */
extern const struct onnx_operator onnx_constant_operators[];    /* ops_constant.c */

#endif
