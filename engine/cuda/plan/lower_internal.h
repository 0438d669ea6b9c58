/* The lowering of single groups: what lower.c calls, one file for each kind of operator. Each function adds
 * the steps of one group to the plan and returns 0 or a negative errno with a sentence (-ENOTSUP names the
 * node). */
#ifndef CONVOY_ENGINE_CUDA_LOWER_INTERNAL_H
#define CONVOY_ENGINE_CUDA_LOWER_INTERNAL_H

#include "engine/cuda/plan/lower.h"
#include "engine/cuda/plan/lowering.h"

/* Lowers the beginning of the network to one step, if a kernel was chosen for it. *groups: how many groups
 * that covers (0: none); *done: the outputs of the network are already in the output rows. */
int convoy_cuda_lower_fused(struct convoy_cuda_lowering *l, int *groups, bool *done);

/* Lowers a group to 16 bits, channels last. *done: false where it is to be lowered to planes instead. */
int convoy_cuda_lower_nhwc(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group, bool *done);

/* Notes the network's bottlenecks in the plan, and which kernel computes each; before anything is lowered. */
int convoy_cuda_find_bottlenecks(struct convoy_cuda_lowering *l);
/* Lowers a layer of a bottleneck that one kernel computes: the last one to its step, the others to none.
 * *done: false where the group is something else, or its bottleneck runs layer by layer. */
int convoy_cuda_lower_bottleneck(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group,
                                 bool *done);

/* Is one of these groups a layer of one that is noted, whichever way that runs? The last layer of a block may
 * be the first one of another. */
bool convoy_cuda_noted_in_bottleneck(const struct convoy_cuda_plan *plan, const int *groups, int count);
/* Is the group a layer of one that a kernel computes? */
bool convoy_cuda_in_bottleneck(const struct convoy_cuda_lowering *l, int group);

/* Lowers a layer of squeeze and excitation (the mean, two convolutions of 1 x 1 behind it): the last one to
 * the step that makes the gates, the others to none. *done: false where the group is something else. */
int convoy_cuda_lower_excite(struct convoy_cuda_lowering *l, bool *done);
/* The group of the last step that will make gates of a tensor, whose means are all that these need
 * (l->sums_of), if there are sums of so many patches; -1: there is none. */
int convoy_cuda_excite_of_means(const struct convoy_cuda_lowering *l, int tensor, int patches);
/* How the convolution behind the product with these gates makes them itself; squeezed is 0 where it does not,
 * and a step makes them. */
struct convoy_nhwc_excitation convoy_cuda_excitation_of(const struct convoy_cuda_lowering *l, int gates);
/* What it reads then. */
int convoy_cuda_reads_excitation(struct convoy_cuda_lowering *l, int gates,
                                 struct convoy_cuda_conv_step *conv);
/* The convolution that alone reads the product of x and the gates, which alone reads these, and which makes
 * them itself where that takes less time; -1: none. */
int convoy_cuda_excited_reader(const struct convoy_cuda_lowering *l, int x, int gates,
                               const struct convoy_nhwc_excitation *excitation);
/* Leave a group to the convolution that alone reads its output, which changes its inputs so (l->changed_of):
 * the product of a tensor and the gates of its channels; a scale and a shift; or does it to its result: means
 * of windows. *done: false where there is none that can. */
int convoy_cuda_leave_gates(struct convoy_cuda_lowering *l, int x, int gates, bool *done);
int convoy_cuda_leave_scale(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group,
                            bool *done);
int convoy_cuda_leave_pool(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group, bool *done);
/* Normalises along the channels of each pixel, where these are the last axis, or leaves it to the convolution
 * or dense layer that alone reads the output, or its rows in another order. */
int convoy_cuda_lower_normalize(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group,
                                bool *done);
/* The constants of such a layer, which is being lowered. */
int convoy_cuda_normalized_constants(struct convoy_cuda_lowering *l,
                                     const struct convoy_cuda_changed *changed,
                                     const struct convoy_conv_shape *shape,
                                     struct convoy_cuda_conv_step *conv);
/* Can the group's residual, if it has one, be added by kernels in 16 bits? */
bool convoy_cuda_adds_images(const struct convoy_cuda_lowering *l, int group);
/* With what such a convolution changes its inputs. */
int convoy_cuda_reads_changed(struct convoy_cuda_lowering *l, const struct convoy_cuda_changed *changed,
                              struct convoy_conv_shape *shape, struct convoy_cuda_conv_step *conv);

/* Is the group a dense layer of rows of channels that kernels in 16 bits take? Then fills in the shape of the
 * convolution of 1 x 1 that it is, but for the layout. */
bool convoy_cuda_dense_shape(const struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group,
                             struct convoy_conv_shape *shape);

/* A convolution of the network's input whose windows do not overlap, where no kernel takes it as it is. */
int convoy_cuda_lower_patches(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group,
                              const struct convoy_conv_shape *conv_shape, bool *done);

/* The output is another name for the tensor in 16 bits, channels last, which is there. */
void convoy_cuda_name_nhwc(struct convoy_cuda_lowering *l, int from, int to);

/* A group of rows of another tensor (rows.h). */
int convoy_cuda_lower_rows(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group);
/* Adds the step that copies pieces of rows of a tensor, as it is there and with so many rows, to a place of
 * y_pixel numbers from pixel to pixel. */
int convoy_cuda_gather(struct convoy_cuda_lowering *l, const struct convoy_cuda_nhwc *from, int64_t from_rows,
                       const struct convoy_cuda_rows *rows, const struct convoy_cuda_place *y,
                       int64_t y_pixel);
/* A group that computes some rows alone (picks.h): with those of what it reads `lower` does the rest. */
int convoy_cuda_lower_picked(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group,
                             int (*lower)(struct convoy_cuda_lowering *l,
                                          const struct convoy_cuda_group *group));
/* Gives a tensor in 16 bits an order, which it takes over: the pixel of each row of an image. */
int convoy_cuda_set_order(struct convoy_cuda_lowering *l, int tensor, int32_t *order);
/* Are the rows of two tensors of as many rows in the same order? */
bool convoy_cuda_same_order(const struct convoy_cuda_lowering *l, int a, int b);
/* A table on the device, uploaded once for all plans. NULL with *code set if that failed, or *code was set.
 */
const void *convoy_cuda_row_table(struct convoy_cuda_lowering *l, const void *data, size_t bytes, int *code);

/* A group that is attention. */
int convoy_cuda_lower_attention(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group);

/* The shape of a pooling of x[0] images, N x C x H x W, into y; planes: images. */
struct convoy_pool_shape convoy_cuda_pool_shape(const struct convoy_pool *pool, const int64_t *x,
                                                const int64_t *y, struct convoy_unary act);
/* Of these, pooling. */
int convoy_cuda_lower_nhwc_pool(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group,
                                bool *done);
/* The pooling that a group's convolution ends with, in a step of its own: the node `left` to it by the group
 * before it (convoy_cuda_leave_pool()), whose padding then holds the bias, or with NULL maxima. y: what the
 * convolution writes. */
int convoy_cuda_nhwc_pool_behind(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group,
                                 const struct convoy_conv_shape *shape, const struct convoy_node *left,
                                 const struct convoy_cuda_place *bias, const struct convoy_cuda_place *y);

/* Of these, sums and products. */
int convoy_cuda_lower_nhwc_binary(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group,
                                  bool *done);
/* Is the group the product of a tensor, *x, and the gates of its channels, and nothing more? */
bool convoy_cuda_is_gating(const struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group,
                           int *x, int *gates);
/* Adds the step of act(scale x + shift) with constants for each channel (-1: none), of an activation, or of a
 * copy; into `to`, a part of pixels of to_pixel numbers, or with NULL into a new place of output. */
int convoy_cuda_nhwc_scale_shift(struct convoy_cuda_lowering *l, int input, struct convoy_unary act,
                                 int scale, int shift, const struct convoy_cuda_place *to, int64_t to_pixel,
                                 int output);

/* Is the group's concatenation made in that layout? */
bool convoy_cuda_concats_nhwc(const struct convoy_cuda_lowering *l, const struct convoy_node *node,
                              int output);
/* Finds what is concatenated where it is computed, before anything is lowered: l->part_of. */
void convoy_cuda_find_parts(struct convoy_cuda_lowering *l);

/* The constants of the convolution that is being lowered, in the form of the step's kernel. */
int convoy_cuda_layer_constants(struct convoy_cuda_lowering *l, const struct convoy_conv_shape *shape,
                                struct convoy_cuda_conv_step *conv);
/* The weights alone, of the layers that the step names. */
int convoy_cuda_layer_weights(struct convoy_cuda_lowering *l, const struct convoy_conv_shape *shape,
                              struct convoy_cuda_conv_step *conv);

/* Finds layers that one convolution computes (l->siblings), behind parts and bottlenecks. */
int convoy_cuda_find_siblings(struct convoy_cuda_lowering *l);
/* The set that has the group; NULL: none. */
const struct convoy_cuda_siblings *convoy_cuda_siblings_of(const struct convoy_cuda_lowering *l, int group);
/* Makes the shape of one of them that of all. */
void convoy_cuda_join_siblings(const struct convoy_cuda_lowering *l,
                               const struct convoy_cuda_siblings *siblings, struct convoy_conv_shape *shape);
/* convoy_cuda_layer_constants() of all of them. */
int convoy_cuda_sibling_constants(struct convoy_cuda_lowering *l, const struct convoy_cuda_siblings *siblings,
                                  const struct convoy_conv_shape *shape, struct convoy_cuda_conv_step *conv);
/* Where all of them are written, the first channel of the first one. */
int convoy_cuda_writes_siblings(struct convoy_cuda_lowering *l, const struct convoy_cuda_siblings *siblings,
                                struct convoy_cuda_place *place, int64_t *pixel);

/* Sets the layout of a convolution of tensors in 16 bits that have no other channels between their pixels:
 * what a kernel is chosen by. */
void convoy_cuda_dense_layout(struct convoy_conv_shape *shape);

/* From the graph's kind to the kernels'. */
enum convoy_binary_operator convoy_cuda_binary_operator(enum convoy_binary_kind kind);

/* The group's activation as far as kernels of planes apply it with their result: NONE for others, and then
 * convoy_cuda_activate_planes(), called when y has been written, adds a step for it. */
struct convoy_unary convoy_cuda_planes_act(const struct convoy_cuda_group *group);
int convoy_cuda_activate_planes(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group);

int convoy_cuda_lower_conv(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group);
int convoy_cuda_lower_dense(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group);
int convoy_cuda_lower_matmul(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group);
int convoy_cuda_lower_other(struct convoy_cuda_lowering *l, const struct convoy_cuda_group *group);

#endif
