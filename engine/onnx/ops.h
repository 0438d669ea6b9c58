/* The operators that can be read: one table for each ops_*.c. */
#ifndef CONVOY_ENGINE_ONNX_OPS_H
#define CONVOY_ENGINE_ONNX_OPS_H

#include "engine/onnx/importer.h"

/* What an operator does with a value whose batch axis lies in the graph in another order than in the file
 * (`outer` of struct onnx_value). */
enum onnx_order {
    ONNX_ANY_ORDER,  /* treats the elements of that axis alike: its outputs are in the same order */
    ONNX_FILE_ORDER, /* refuses it */
    ONNX_REORDERS    /* looks at `outer` of its input, and sets importer->outer for its output */
};

/* One ONNX operator; read() handles the importer's current node. */
struct onnx_operator {
    const char *name;
    int min_inputs, max_inputs;
    int (*read)(struct onnx_importer *importer);
    enum onnx_order order;
};

/* Each table ends with an entry whose name is NULL. The operators are ONNX's own, but for those of the domain
 * com.microsoft. */
extern const struct onnx_operator onnx_activation_operators[];     /* ops_activation.c */
extern const struct onnx_operator onnx_arithmetic_operators[];     /* ops_arithmetic.c */
extern const struct onnx_operator onnx_attention_operators[];      /* ops_attention.c */
extern const struct onnx_operator onnx_block_operators[];          /* ops_blocks.c */
extern const struct onnx_operator onnx_branch_operators[];         /* branch.c */
extern const struct onnx_operator onnx_cast_operators[];           /* ops_cast.c */
extern const struct onnx_operator onnx_constant_operators[];       /* ops_constant.c */
extern const struct onnx_operator onnx_conv_operators[];           /* ops_conv.c */
extern const struct onnx_operator onnx_conv_transpose_operators[]; /* ops_conv_transpose.c */
extern const struct onnx_operator onnx_dense_operators[];          /* ops_dense.c */
extern const struct onnx_operator onnx_einsum_operators[];         /* ops_einsum.c */
extern const struct onnx_operator onnx_join_operators[];           /* ops_join.c */
extern const struct onnx_operator onnx_microsoft_operators[];      /* ops_matmul_nbits.c */
extern const struct onnx_operator onnx_normalize_operators[];      /* ops_normalize.c */
extern const struct onnx_operator onnx_pad_operators[];            /* ops_pad.c */
extern const struct onnx_operator onnx_pool_operators[];           /* ops_pool.c */
extern const struct onnx_operator onnx_quantize_operators[];       /* ops_quantize.c */
extern const struct onnx_operator onnx_reduce_operators[];         /* ops_reduce.c */
extern const struct onnx_operator onnx_reshape_operators[];        /* ops_reshape.c */
extern const struct onnx_operator onnx_resize_operators[];         /* ops_resize.c */
extern const struct onnx_operator onnx_scatter_operators[];        /* ops_scatter.c */
extern const struct onnx_operator onnx_table_operators[];          /* ops_table.c */
extern const struct onnx_operator onnx_take_operators[];           /* ops_take.c */
extern const struct onnx_operator onnx_top_operators[];            /* ops_top.c */
extern const struct onnx_operator onnx_trigonometry_operators[];   /* ops_trigonometry.c */

#endif
