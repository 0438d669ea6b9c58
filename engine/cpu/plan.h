/* A plan: one network at one batch size as a list of steps, each a oneDNN primitive or a plain loop, over
 * memory that is laid out beforehand.
 *
 * Lowering (lower.h) appends representations, buffers and steps; convoy_cpu_plan_finish() places every buffer
 * in an arena and binds the primitives' arguments; convoy_cpu_plan_run() then touches no allocator of ours
 * (oneDNN itself makes a small map of the arguments at each call).
 *
 * A representation is a tensor's values in one layout: a view of a buffer or of a resident constant. Several
 * may share a buffer (a reshape is a second view). A buffer lives from the first step that names it to the
 * last; step 0 stands for the filling of the input, the step after the last one for the copying of the
 * outputs. */
#ifndef CONVOY_ENGINE_CPU_PLAN_H
#define CONVOY_ENGINE_CPU_PLAN_H

#include "engine/backend.h"
#include "engine/cpu/loops.h"
#include "engine/graph/arena.h"
#include "engine/graph/top.h"

#include <dnnl.h>

/* What runs a group, for profiles. */
struct convoy_cpu_kernel {
    char text[CONVOY_LAYER_NAME_BYTES]; /* "jit:avx2+relu"; empty where nothing runs (a view) */
};

struct convoy_cpu_rep {
    dnnl_memory_desc_t md;
    int buffer;           /* -1: constant */
    void *constant;       /* never written */
    float *data;          /* after finish */
    dnnl_memory_t memory; /* after finish */
};

enum convoy_cpu_step_kind {
    CONVOY_CPU_PRIMITIVE,
    CONVOY_CPU_BROADCAST_LOOP, /* uses: a, b, y */
    CONVOY_CPU_GATE_LOOP,      /* uses: x, gate, y */
    CONVOY_CPU_SWISH_LOOP,     /* uses: x, y */
    CONVOY_CPU_PAD_LOOP,       /* uses: x, y */
    CONVOY_CPU_POOL_LOOP,      /* uses: x, y */
    CONVOY_CPU_UNARY_LOOP,     /* uses: x, y */
    CONVOY_CPU_SOFTMAX_LOOP,   /* uses: x, y */
    CONVOY_CPU_NORMALIZE_LOOP, /* uses: x, y, scale if there is one, shift if there is one */
    CONVOY_CPU_TOP_LOOP        /* uses: x, y */
};

struct convoy_cpu_use {
    int argument; /* DNNL_ARG_*, for primitives */
    int rep;
};

struct convoy_cpu_step {
    enum convoy_cpu_step_kind kind;
    int group;   /* that it belongs to, for profiles */
    int threads; /* that run it and that its primitive was made for: 1, or the plan's */
    int use_count;
    struct convoy_cpu_use *uses; /* owned */
    dnnl_primitive_t primitive;
    dnnl_memory_desc_t scratch_md; /* of size 0 where none is needed */
    dnnl_memory_t scratch;
    dnnl_exec_arg_t *args; /* owned, use_count + 1 of them, after finish */
    int arg_count;
    union {
        struct convoy_cpu_broadcast broadcast;
        struct convoy_cpu_gate gate;
        int64_t swish_count; /* values */
        struct convoy_cpu_pad pad;
        struct convoy_cpu_pool pool;
        struct convoy_cpu_unary unary;
        struct convoy_cpu_normalize normalize;
        struct convoy_cpu_softmax softmax;
        struct convoy_top_rows top;
    };
};

/* Called after each step; NULL: nothing is. */
struct convoy_cpu_progress {
    void (*report)(void *context);
    void *context;
};

struct convoy_cpu_plan {
    int64_t rows; /* images */
    int threads;  /* that run its steps, but for those of little work */
    int rep_count, rep_capacity, buffer_count, buffer_capacity, step_count, step_capacity;
    struct convoy_cpu_rep *reps;
    struct convoy_arena_item *buffers;
    int *last_groups; /* by buffer: the last group that reads a tensor which lies there; for lowering */
    int last_group_capacity;
    struct convoy_cpu_step *steps;
    int input;                       /* rep */
    bool input_interleaved;          /* N H W C instead of row-major */
    int outputs[CONVOY_MAX_OUTPUTS]; /* reps, row-major */
    size_t arena_bytes, scratch_bytes;
};

/* Each returns an index, or -ENOMEM. The uses of a step are copied and extend the life of their buffers. On
 * failure the caller keeps the primitive. */
int convoy_cpu_plan_add_buffer(struct convoy_cpu_plan *plan, size_t bytes);
int convoy_cpu_plan_add_rep(struct convoy_cpu_plan *plan, const dnnl_memory_desc_t *md, int buffer,
                            void *constant);
int convoy_cpu_plan_add_step(struct convoy_cpu_plan *plan, const struct convoy_cpu_step *step,
                             const struct convoy_cpu_use *uses, int use_count);

/* Places the buffers: sets their offsets, arena_bytes and scratch_bytes. */
int convoy_cpu_plan_place(struct convoy_cpu_plan *plan, struct convoy_error *error);

/* Binds all buffers and the scratchpad to memory of at least arena_bytes and scratch_bytes, 64-byte aligned,
 * which the caller keeps until convoy_cpu_plan_free(). */
int convoy_cpu_plan_finish(struct convoy_cpu_plan *plan, dnnl_engine_t engine, void *arena, void *scratch,
                           struct convoy_error *error);

/* Runs all steps on the calling thread and its OpenMP team, whose size it sets for each step. group_us: NULL,
 * or one entry per group, to which each step's microseconds are added. */
int convoy_cpu_plan_run(const struct convoy_cpu_plan *plan, dnnl_stream_t stream,
                        const struct convoy_cpu_progress *progress, float *group_us,
                        struct convoy_error *error);

void convoy_cpu_plan_free(struct convoy_cpu_plan *plan);

#endif
