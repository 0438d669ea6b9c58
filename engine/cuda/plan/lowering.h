/* What the lowering of every operator works with: a plan under construction, the buffers of its tensors, and
 * the functions that add steps and buffers to it. */
#ifndef CONVOY_ENGINE_CUDA_LOWERING_H
#define CONVOY_ENGINE_CUDA_LOWERING_H

#include "engine/cuda/plan/channels.h"
#include "engine/cuda/plan/plan.h"
#include "engine/cuda/plan/source.h"

/* Memory in the arena for one tensor, or for what a kernel needs besides its tensors. Reshaped tensors share
 * the buffer of their source. */
struct convoy_cuda_buffer {
    size_t bytes;
    int first, last; /* the groups that write it first and read it last */
};

/* A tensor in 16 bits, channels last. */
struct convoy_cuda_nhwc {
    int buffer;    /* -1: none */
    int64_t pixel; /* numbers from pixel to pixel */
    int64_t first; /* the number in the buffer that is the tensor's first */
    /* Where the rows of an image are (rows.h): which pixel each is. NULL: one after the other. */
    const int32_t *order;
};

/* A tensor whose place is a part of another one's pixels: what is concatenated is written where it belongs.
 */
struct convoy_cuda_part {
    int whole;       /* the tensor; -1: none */
    int64_t channel; /* of the whole, which is this tensor's first; below 0: before the whole's own ones */
};

/* Layers that one convolution computes, as they read the same tensor (siblings.c). */
struct convoy_cuda_siblings {
    int count;
    int groups[CONVOY_CUDA_SIBLINGS]; /* in the order of their channels */
    int first;                        /* of these groups; its step computes all */
};

/* A tensor that is not there: what reads it reads another one, and changes that or its own result
 * (lower_inputs.c, lower_normalize.c). */
struct convoy_cuda_changed {
    int x; /* the other one, or this one, if it is another name for it; -1: the tensor is no such */
    enum convoy_nhwc_input input;
    int gates, scale, shift; /* tensors, as far as input wants them */
    struct convoy_nhwc_excitation excitation;
    struct convoy_nhwc_normalization normalization;
    int moments;                    /* the buffer of those of x, where it is normalised */
    const struct convoy_node *pool; /* what is done to the result, before its activation; NULL: nothing */
};

/* Sums of a tensor's images over patches, float32, patches x channels of each image: the kernel that writes
 * the tensor writes these, too. */
struct convoy_cuda_sums {
    int patches; /* 0: there are none */
    int buffer;
    int group; /* whose step writes them */
};

/* Rows of a tensor that is there as a whole, for groups that compute these alone (picks.h). */
struct convoy_cuda_picked {
    int tensor;
    const struct convoy_cuda_rows *pick;
    struct convoy_cuda_nhwc nhwc;
};

struct convoy_cuda_lowering {
    const struct convoy_cuda_source *source;
    const struct convoy_graph *graph;
    struct convoy_cuda_plan *plan;
    struct convoy_error *error;
    int *buffer_of; /* for each tensor: the index of its buffer of float32 in planes; -1: none */
    struct convoy_cuda_nhwc *nhwc_of;        /* for each tensor: where it is in 16 bits, channels last */
    enum convoy_cuda_channels *channels;     /* for each tensor, what that layout would make of it */
    int64_t *before;                         /* for each tensor: parts before its images (channels.h) */
    const struct convoy_cuda_rows **pick_of; /* for each tensor: the rows that are there; NULL: all */
    int picked_count;
    struct convoy_cuda_picked *picked;
    int order_count;
    int32_t **orders;                 /* what nhwc_of points to */
    bool nhwc;                        /* layers are lowered to that layout where they can */
    struct convoy_cuda_part *part_of; /* for each tensor */
    int64_t *ahead_of;                /* for each tensor: channels of parts before its own */
    int sibling_count;
    struct convoy_cuda_siblings *siblings;
    struct convoy_cuda_changed *changed_of; /* for each tensor */
    struct convoy_cuda_sums *sums_of;       /* for each tensor */
    int buffer_count, buffer_capacity;
    struct convoy_cuda_buffer *buffers;
    int group;                      /* the group that is being lowered */
    const struct convoy_node *node; /* its anchor */
};

/* Until convoy_cuda_place_buffers() was called, the offset of a place in the workspace is
 * CONVOY_CUDA_BUFFER(buffer) plus bytes into that buffer; offsets below CONVOY_CUDA_BUFFER(0) (input and
 * output rows) are already bytes from the start of the workspace. */
#define CONVOY_CUDA_BUFFER_SHIFT   44
#define CONVOY_CUDA_BUFFER(number) ((size_t)((number) + 1) << CONVOY_CUDA_BUFFER_SHIFT)

static inline const struct convoy_cuda_group *convoy_cuda_group_of(const struct convoy_cuda_lowering *l,
                                                                   int group)
{
    return &l->source->groups->groups[group];
}

/* A group's anchor. */
static inline const struct convoy_node *convoy_cuda_node_of(const struct convoy_cuda_lowering *l, int group)
{
    return &l->graph->nodes[convoy_cuda_group_of(l, group)->anchor];
}

/* Does the environment variable, for tests and measurements, say "layers"? Then what it names leaves each
 * layer to itself. */
bool convoy_cuda_by_layers(const char *variable);

/* Does anything but this group read the tensor? Looks at all groups. */
bool convoy_cuda_read_by_others(const struct convoy_cuda_lowering *l, int tensor,
                                const struct convoy_cuda_group *reader);

/* The group that writes the tensor, if group `reader` alone reads it; -1: none. */
int convoy_cuda_writer_of(const struct convoy_cuda_lowering *l, int tensor, int reader);
/* The group from the one on that is being lowered that alone reads the tensor, as its anchor's first input;
 * -1: none. */
int convoy_cuda_reader_of(const struct convoy_cuda_lowering *l, int tensor);

/* The buffer of a tensor in 16 bits stays until the group is lowered. */
void convoy_cuda_keep_until(struct convoy_cuda_lowering *l, int tensor, int group);
/* Notes that the group that is being lowered has no step, because that of another one computes it, too. */
int convoy_cuda_cover(struct convoy_cuda_lowering *l, int by);

/* Is the group a convolution of images, without a dilation, padded by half its side, and nothing more but a
 * residual and an activation? Then fills in its shape but for the layout. */
bool convoy_cuda_plain_conv(const struct convoy_cuda_lowering *l, int group, struct convoy_conv_shape *shape);

/* Does such a convolution sum over all channels, and keep the size of its images? side: of its filter. */
static inline bool convoy_cuda_keeps_size(const struct convoy_conv_shape *shape, int side)
{
    return shape->groups == 1 && shape->r == side && shape->stride[0] == 1;
}

/* Rounds up to channels that fill lines of memory, of 128 bytes. */
static inline int64_t convoy_cuda_line_channels(int64_t channels)
{
    return (channels + 63) / 64 * 64;
}

/* Rounds up to the alignment of tensors in kernels.h. */
static inline size_t convoy_cuda_aligned(size_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

/* Writes the dimensions of a tensor for all images of the plan; returns the rank. */
int convoy_cuda_dims(const struct convoy_cuda_lowering *l, int tensor, int64_t dims[CONVOY_MAX_RANK]);
int64_t convoy_cuda_elements(const struct convoy_cuda_lowering *l, int tensor);

/* Row-major strides, in elements. */
void convoy_cuda_strides(int rank, const int64_t *dims, int64_t *strides);

/* The arithmetic of layers of float32 in planes. Beside layers in 16 bits it is no less than tf32's: it has
 * as many bits as fp16, but numbers that fp16 does not hold are not told of there. */
static inline enum convoy_compute_type convoy_cuda_planes_type(const struct convoy_cuda_lowering *l)
{
    enum convoy_compute_type type = l->source->compute_type;
    return l->nhwc && type > CONVOY_COMPUTE_TF32 ? CONVOY_COMPUTE_TF32 : type;
}

/* All of the following return 0 or a negative errno with a sentence in l->error. */

/* Where a tensor is read: a constant, which is uploaded, or the buffer that an earlier group wrote. */
int convoy_cuda_reads(struct convoy_cuda_lowering *l, int tensor, struct convoy_cuda_place *place);
/* Where a tensor is written: a new buffer. */
int convoy_cuda_writes(struct convoy_cuda_lowering *l, int tensor, struct convoy_cuda_place *place);
/* The same in 16 bits, channels last; *pixel: numbers from pixel to pixel. What is written has its rows one
 * after the other, unless the caller gives it an order. */
int convoy_cuda_reads_nhwc(struct convoy_cuda_lowering *l, int tensor, struct convoy_cuda_place *place,
                           int64_t *pixel);
int convoy_cuda_writes_nhwc(struct convoy_cuda_lowering *l, int tensor, struct convoy_cuda_place *place,
                            int64_t *pixel);

/* Adds a step that converts a tensor, if it is there in the other layout alone. Before the step that reads it
 * is added. */
int convoy_cuda_want_planes(struct convoy_cuda_lowering *l, int tensor);
int convoy_cuda_want_nhwc(struct convoy_cuda_lowering *l, int tensor);
/* The same, and its rows one after the other: for what does not work row by row. */
int convoy_cuda_want_in_order(struct convoy_cuda_lowering *l, int tensor);

/* A tensor as images: n, c, h, w of [N,C,H,W], or of [N,C], which has one pixel. Tensors whose channels are
 * their last axis (channels.h) have all pixels of an image in one row: [N,T,C] is N, C, 1, T. False for
 * tensors without channels. */
bool convoy_cuda_image_dims(const struct convoy_cuda_lowering *l, int tensor, int64_t dims[4]);
/* The same for what is an image to the graph's operators, too: [N,C,H,W], [N,C], or rows of channels. */
bool convoy_cuda_channels_first(const struct convoy_cuda_lowering *l, int tensor, int64_t dims[4]);

/* Is the tensor there in 16 bits alone, its rows one after the other? Then adds the step that writes it to
 * `to`, float32, images `image` floats apart. *done: it was. */
int convoy_cuda_write_out(struct convoy_cuda_lowering *l, int tensor, const struct convoy_cuda_place *to,
                          int64_t image, bool *done);

/* A buffer for this group alone; with 0 bytes place stays as it is. */
int convoy_cuda_scratch(struct convoy_cuda_lowering *l, size_t bytes, struct convoy_cuda_place *place);
/* A buffer from this group to `last`. Returns its number, or -ENOMEM. */
int convoy_cuda_buffer_until(struct convoy_cuda_lowering *l, size_t bytes, int last);
/* A new step of this group. The pointer is valid until the next step is added. */
int convoy_cuda_step(struct convoy_cuda_lowering *l, enum convoy_cuda_kind kind,
                     struct convoy_cuda_step **step);
/* Places all buffers in the arena, replaces buffer numbers in the steps by offsets, and sets the size of the
 * workspace. Called once, after the last step. */
int convoy_cuda_place_buffers(struct convoy_cuda_lowering *l);

#endif
