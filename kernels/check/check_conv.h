/* The parts of the program convoy-kernels: it runs convolutions on random input against a float64 reference
 * and times them. It is no library: an error ends the program with a sentence. One thread calls all of
 * this. */
#ifndef CONVOY_KERNELS_CHECK_CONV_H
#define CONVOY_KERNELS_CHECK_CONV_H

#include "kernels/check/check_excited.h"
#include "kernels/check/check_harness.h"

/* Ends the program with status 1 and the sentence on stderr. */
__attribute__((noreturn, format(printf, 1, 2))) void check_die(const char *format, ...);
/* Ends it if error is not cudaSuccess; what says what was tried. */
void check_cuda(cudaError_t error, const char *what);

/* For qsort(): floats, the least first. */
int check_by_value(const void *a, const void *b);

/* Numbers of which only what is no output would be more than fp16 holds: nothing may be told of that. But of
 * the last one an input is, once it was changed, which ReLU hides: that must be told. */
enum check_numbers {
    CHECK_ALIKE,   /* no such numbers */
    CHECK_CROSSED, /* large ones in the first half of the channels, small ones in the other, weights the other
                    * way round: one half with the weights of the other one */
    CHECK_BEYOND,  /* large ones in the last row and column of an image and the first ones of a filter, whose
                    * last ones are 0: outputs beyond the last one, without padding */
    CHECK_HIDDEN,  /* of 1 x 1: one in the first channel of the last image, twice which is too large, gate and
                    * scale are 2, and its weights negative */
    CHECK_OFFSET,  /* inputs about 4, whose mean is larger than their deviation */
};

struct check_case {
    struct convoy_conv_shape shape;
    int64_t image_bytes; /* from image to image, at least an image's own bytes */
    bool in_place;       /* the residual is y itself */
    enum check_nan nan;  /* in the images, which are float */
    enum check_numbers numbers;
};

/* One line: sizes and options as they would be given to --conv. */
void check_describe(const struct check_case *which, char *text, size_t bytes);
/* Sets oh and ow (from the same padding on all sides) and image_bytes. False if nothing comes out. */
bool check_complete(struct check_case *which);
/* Behind it follows pooling over 3 x 3 outputs, two apart, with so many rows and columns of padding. */
void check_pool_overlapping(struct check_case *which, int pad);

#define CHECK_EXPECTED (3 + CONVOY_NHWC_NORMALIZED)

/* A case with its random input on host and device, and the reference of a sample of its images. */
struct check_problem {
    struct check_case which;
    void *images; /* host */
    float *weights, *bias, *residual;
    /* Of kernels that change their inputs: n x c, numbers that fp16 holds, and c of each. */
    float *gates, *input_scale, *input_shift;
    struct check_excitation excitation;
    struct convoy_images device_images;
    float *device_weights, *device_bias, *device_residual, *device_gates, *device_scale, *device_shift, *y;
    float *device_sums;          /* of each map's weights, as fp16 holds them */
    float *device_moments;       /* of the images, as fp16 holds them; of 1 x 1 alone */
    size_t device_weight_floats; /* that fit at device_weights */
    void *scratch;
    size_t scratch_bytes;
    int samples, *sample; /* images that are compared */
    /* For operands rounded to each compute type, and for inputs that are changed in each way, once it was
     * asked for: samples x outputs of an image. */
    double *expected[CHECK_EXPECTED];
    double largest[CHECK_EXPECTED]; /* max|expected| */
    float *got;                     /* an image's outputs, or a piece of y */
};

/* An image's outputs, after pooling. */
int64_t check_outputs(const struct convoy_conv_shape *shape);

/* Multiply-adds of one image. */
double check_work(const struct convoy_conv_shape *shape);

void check_problem_make(struct check_problem *problem, const struct check_case *which, uint64_t seed);
void check_problem_free(struct check_problem *problem);

/* Of kernels that round their results, and the residual, to fp16: 2^-11 of each, and a little. */
#define CHECK_NHWC_BOUND 1.1e-3

struct check_result {
    double bound;   /* of error */
    double error;   /* max|y - y64| / max|y64| over the sample; NaN where none belongs counts as infinite */
    int64_t poison; /* outputs of all images that are still NaN, or as they were where NaN belongs */
    bool overflow; /* it was said that fp16 does not hold an output, which only NaN is, or NaN was not told of
                    * each image that has it
                    */
    float us;      /* median; 0 if not timed */
};

/* Runs kernel on the problem, which it must take: once into poisoned outputs, compared, then `runs` times
 * between events, after three runs to warm up. */
struct check_result check_run(struct check_problem *problem, const struct convoy_conv_kernel *kernel,
                              int runs);

static inline bool check_passed(const struct check_result *result)
{
    return result->error <= result->bound && result->poison == 0 && !result->overflow;
}

/* The convolution of image n in float64, of operands rounded as the compute type says, activation and pooling
 * too, spread over the machine's cores. input: what was done to its inputs, which are rounded again. */
void check_reference(const struct check_problem *problem, enum convoy_compute_type compute_type,
                     enum convoy_nhwc_input input, int n, double *y);

#define CHECK_KERNELS_MAX 256

/* The convolutions of the library in the ladder's order, with those of kernels/reference where they belong in
 * it. Static.
 */
const struct convoy_conv_kernel *const *check_kernels(int *count);
/* Is it one of kernels/reference, which never serve? */
bool check_is_reference(const struct convoy_conv_kernel *kernel);

/* Every kernel whose name is `name`, or starts with it and a colon, or all. */
bool check_name_matches(const struct convoy_conv_kernel *kernel, const char *name);

/* Of --check: hundreds of awkward shapes over every kernel that takes them; in_turns: each over some of the
 * instances of large families alone. Returns the number of failures. */
int check_shapes(uint64_t seed, int random_shapes, const char *kernel_name, bool in_turns, bool verbose);
/* --table: the layers of ece408 at three sizes, every rung, and peer unless it is NULL. Returns the number of
 * failures. */
int check_table(uint64_t seed, int runs, const int *batches, int batch_count, const char *kernel_name,
                enum convoy_compute_type compute_type, const struct convoy_conv_kernel *peer);

/* cuDNN's convolution, activation and pooling, one after the other, as if it were a kernel of ours; from the
 * library at path (a name that the loader finds). Says on stdout what stands beside ours; NULL where it is
 * not there. Its takes() must be called before anything else, again for each shape. */
const struct convoy_conv_kernel *check_cudnn(const char *path);

#endif
