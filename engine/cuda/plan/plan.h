/* A plan: the steps that compute a network for one batch size and one layout of input. Each step is one or
 * two launches of kernels/, and every tensor has its place in one workspace.
 *
 * A workspace is the memory of one stream: input rows | output rows | arena. A plan holds offsets; the
 * address is given when a step is launched, so all streams share the plans. Constants belong to the network
 * (weights.h) and have addresses of their own. */
#ifndef CONVOY_ENGINE_CUDA_PLAN_H
#define CONVOY_ENGINE_CUDA_PLAN_H

#include "engine/backend.h"
#include "engine/cuda/plan/kernel_choice.h"
#include "kernels/bottleneck.h"
#include "kernels/fused_net.h"
#include "kernels/kernels.h"
#include "kernels/nhwc.h"

enum convoy_cuda_where {
    CONVOY_CUDA_NOTHING,
    CONVOY_CUDA_WORKSPACE,
    CONVOY_CUDA_CONSTANT,
    CONVOY_CUDA_OUTSIDE /* separate memory: only while a single kernel is timed, never in a network's plan */
};

/* Where a tensor is. */
struct convoy_cuda_place {
    enum convoy_cuda_where where;
    size_t offset;         /* WORKSPACE: bytes */
    const float *constant; /* CONSTANT: in device memory */
    float *memory;         /* OUTSIDE: in device memory */
};

enum convoy_cuda_kind {
    CONVOY_CUDA_READ,  /* input rows into a dense tensor */
    CONVOY_CUDA_FUSED, /* the first groups of the network in one kernel */
    CONVOY_CUDA_CONV,
    CONVOY_CUDA_GEMM,
    CONVOY_CUDA_UNARY,
    CONVOY_CUDA_BINARY,
    CONVOY_CUDA_SCALE_SHIFT,
    CONVOY_CUDA_POOL,
    CONVOY_CUDA_SOFTMAX,
    CONVOY_CUDA_NORMALIZE,
    CONVOY_CUDA_TOP,
    CONVOY_CUDA_COPY,
    CONVOY_CUDA_ZERO,
    /* Of tensors in 16 bits, channels last (kernels/nhwc.h); CONVOY_CUDA_CONV is of both. */
    CONVOY_CUDA_NHWC_READ,        /* input rows */
    CONVOY_CUDA_NHWC_PATCHES,     /* input rows, window by window */
    CONVOY_CUDA_NHWC_FROM_PLANES, /* conversions */
    CONVOY_CUDA_NHWC_TO_PLANES,
    CONVOY_CUDA_NHWC_POOL,
    CONVOY_CUDA_NHWC_BINARY,
    CONVOY_CUDA_NHWC_SCALE_SHIFT,
    CONVOY_CUDA_NHWC_NORMALIZE,
    CONVOY_CUDA_NHWC_GATHER,
    CONVOY_CUDA_NHWC_ATTENTION,
    CONVOY_CUDA_NHWC_EXCITE, /* gates of squeeze and excitation */
    CONVOY_CUDA_BOTTLENECK
};

#define CONVOY_CUDA_SIBLINGS 8 /* layers that one convolution computes, at most (siblings.c) */

struct convoy_cuda_conv_step {
    struct convoy_conv_shape shape;
    const struct convoy_conv_kernel *kernel;
    int layers;                        /* whose weights follow each other in `weights` */
    int tensors[CONVOY_CUDA_SIBLINGS]; /* of the graph: these weights */
    int scaled_by;                     /* the tensor of what their channels are multiplied by; -1: none */
    struct convoy_images images;       /* data is not set: the address comes from x */
    struct convoy_cuda_place weights, bias, residual, scratch;
    struct convoy_cuda_place gates, input_scale, input_shift;      /* of shape.nhwc.input */
    struct convoy_cuda_place excitation, excitation_bias[2], sums; /* of shape.nhwc.excitation */
    struct convoy_cuda_place input_sums, input_moments;            /* of shape.nhwc.normalization */
    struct convoy_cuda_place moments;                              /* of shape.nhwc.moments */
};

struct convoy_cuda_gemm_step {
    struct convoy_gemm_shape shape;
    const struct convoy_gemm_kernel *kernel;
    struct convoy_cuda_place b, bias, scratch;
};

struct convoy_cuda_fused_step {
    struct convoy_fused_plan *plan; /* owned by the step */
    const struct convoy_fused_kernel *kernel;
    int groups;                  /* number of leading groups that it computes */
    struct convoy_images images; /* data is not set: the address comes from x */
    struct convoy_cuda_place weights, tables, scratch;
};

struct convoy_cuda_bottleneck_step {
    struct convoy_bottleneck_shape shape;
    const struct convoy_bottleneck_kernel *kernel;
    int groups[CONVOY_BOTTLENECK_LAYERS]; /* of the layers that it has; the last one is the step's */
    struct convoy_cuda_place weights, bias[CONVOY_BOTTLENECK_LAYERS];
    struct convoy_cuda_place sums; /* NOTHING: they are not wanted */
};

#define CONVOY_CUDA_LANES 4 /* of a graph, at most */

struct convoy_cuda_step {
    enum convoy_cuda_kind kind;
    int group; /* index in convoy_cuda_groups; a profile adds up the steps of a group */
    /* In a graph it runs behind the step before it on its lane, and behind step number waits[k] of each other
     * lane k, counted from 1; 0: of none (branches.h). */
    int lane, waits[CONVOY_CUDA_LANES];
    struct convoy_cuda_place x, y;
    union {
        struct {
            struct convoy_images images;
            int c;
            int64_t pixels;
            int n;
        } read;
        struct convoy_cuda_fused_step fused;
        struct convoy_cuda_conv_step conv;
        struct convoy_cuda_gemm_step gemm; /* x is the left operand */
        struct {
            int64_t count;
            struct convoy_unary act;
        } unary;
        struct {
            struct convoy_broadcast broadcast;
            struct convoy_cuda_place b;
        } binary;
        struct {
            int64_t outer, channels, inner;
            struct convoy_unary act;
            struct convoy_cuda_place scale, shift;
        } scale_shift;
        struct convoy_pool_shape pool;
        struct {
            int64_t outer, length, inner;
            bool log;
        } softmax;
        struct {
            struct convoy_normalize_shape shape;
            struct convoy_cuda_place scale, shift; /* NOTHING: 1 and 0 */
        } normalize;
        struct convoy_top_shape top;
        struct convoy_strided_copy copy;
        int64_t zero; /* floats */
        struct {
            struct convoy_images images;
            struct convoy_nhwc_rows rows;
        } nhwc_read;
        struct {
            struct convoy_images images;
            struct convoy_nhwc_patches shape;
        } nhwc_patches;
        struct convoy_nhwc_planes nhwc_convert;
        struct {
            struct convoy_pool_shape shape;
            int64_t c, x_pixel, y_pixel;
            struct convoy_cuda_place padding; /* NOTHING: zeros */
        } nhwc_pool;
        struct {
            struct convoy_nhwc_binary shape;
            struct convoy_cuda_place b;
        } nhwc_binary;
        struct {
            int64_t n, pixels, c, x_pixel, y_pixel;
            struct convoy_unary act;
            struct convoy_cuda_place scale, shift; /* NOTHING: 1 and 0 */
        } nhwc_scale_shift;
        struct {
            struct convoy_nhwc_normalize shape;
            struct convoy_cuda_place scale, shift; /* NOTHING: 1 and 0 */
        } nhwc_normalize;
        struct {
            struct convoy_nhwc_gather shape; /* pieces: as the constants */
            struct convoy_cuda_place add;    /* NOTHING: none */
        } nhwc_gather;
        struct {
            struct convoy_nhwc_attention shape; /* rows: as the constants */
            struct convoy_cuda_place k, v;      /* x: the queries */
            struct convoy_cuda_place bias;      /* NOTHING: none */
        } nhwc_attention;
        struct {
            struct convoy_nhwc_excite shape;
            struct convoy_cuda_place weights, bias[2];
        } nhwc_excite;
        struct convoy_cuda_bottleneck_step bottleneck;
    };
};

/* A bottleneck of the network (bottlenecks.h), whichever way it runs. */
struct convoy_cuda_bottleneck {
    int groups[CONVOY_BOTTLENECK_LAYERS];
    struct convoy_bottleneck_shape shape;          /* of tensors without other channels between them */
    const struct convoy_bottleneck_kernel *kernel; /* NULL: layer by layer */
};

/* Which branches a plan has (branches.h). */
enum convoy_cuda_branching {
    CONVOY_CUDA_BRANCHES_GUESSED, /* nothing is known */
    CONVOY_CUDA_BRANCHES_SIMPLE,
    CONVOY_CUDA_BRANCHES_ALL
};

/* A group without a step, computed by that of another one. Those of bottlenecks are not among them. */
struct convoy_cuda_covered {
    int group, by;
};

struct convoy_cuda_plan {
    uint32_t rows;
    enum convoy_input_layout layout;
    bool marks; /* it has tensors in 16 bits: overflow[] of struct convoy_cuda_memory is written */
    int step_count, step_capacity;
    struct convoy_cuda_step *steps;
    int bottleneck_count;
    struct convoy_cuda_bottleneck *bottlenecks;
    int covered_count;
    struct convoy_cuda_covered *covered;
    /* Under which kernel_choice.h keeps whether the plan's graph has all branches that it can have; empty:
     * there is no such choice. branching: what was known about it when the plan was made. */
    struct convoy_cuda_key branches;
    enum convoy_cuda_branching branching;
    size_t input_bytes, output_bytes,
        workspace_bytes; /* the first two parts of the workspace, and all of it */
};

/* Adds a step and returns it zeroed, or NULL when memory is out. Valid until the next call. */
struct convoy_cuda_step *convoy_cuda_plan_add(struct convoy_cuda_plan *plan);

/* Notes a bottleneck. 0 or -ENOMEM. */
int convoy_cuda_plan_note(struct convoy_cuda_plan *plan, const struct convoy_cuda_bottleneck *bottleneck);

/* Notes that a group is computed with another one. 0 or -ENOMEM. */
int convoy_cuda_plan_cover(struct convoy_cuda_plan *plan, int group, int by);

/* What a stream's steps work in. */
struct convoy_cuda_memory {
    void *workspace;
    uint32_t
        *overflow; /* of each row: 0, or 1 and the group whose result fp16 did not hold; NULL: not wanted */
};

#define CONVOY_CUDA_PLACES 8

/* The places in memory that a step uses, the first *writes of which it writes; constants may be among them.
 * Returns how many. */
int convoy_cuda_step_places(struct convoy_cuda_step *step,
                            struct convoy_cuda_place *places[CONVOY_CUDA_PLACES], int *writes);

/* Launches one step. 0, or -EIO and a sentence. */
int convoy_cuda_step_launch(const struct convoy_cuda_step *step, const struct convoy_cuda_memory *memory,
                            cudaStream_t stream, struct convoy_error *error);

/* True if a step of the plan reads that constant. */
bool convoy_cuda_plan_uses(const struct convoy_cuda_plan *plan, const float *constant);

/* Returns the name of a step in profiles: "per_layer:5x5x8", "pool". Static text. */
const char *convoy_cuda_step_name(const struct convoy_cuda_step *step);

/* Returns the name of the kernel that computes a group together with another one, whose step it is; NULL:
 * none. */
const char *convoy_cuda_plan_covers(const struct convoy_cuda_plan *plan, int group);

void convoy_cuda_plan_free(struct convoy_cuda_plan *plan);

#endif
