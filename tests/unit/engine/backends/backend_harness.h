/* What the tests of the backends share: a module, graphs made by hand, and a comparison with the
 * reference. */
#ifndef CONVOY_TESTS_BACKEND_HARNESS_H
#define CONVOY_TESTS_BACKEND_HARNESS_H

#include "engine/backend.h"
#include "engine/graph/build.h"

#include "tests/unit/engine/backends/backend_reference.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

/* The opened module, as the functions below use it. */
extern const struct convoy_backend *backend;
extern struct convoy_device *device;
/* What fill_rows() multiplies the values of one row by, for a row whose numbers are too large for fp16. */
extern struct loud_row {
    uint32_t row;
    float by;
    bool lost; /* its outputs are no numbers, because nothing could compute them */
} loud;
/* Errors are allowed in proportion to the largest output of the row, not to each output. */
extern bool by_largest;

/* The state of random_value(), for tests that need the same numbers twice. */
extern uint64_t random_state;
/* The module's file, unless the environment's CONVOY_TEST_MODULE names another: of each program its own. */
extern const char backend_module[];
/* The stand-ins for nvJPEG, whole and without a function; empty: there are none. */
extern const char backend_nvjpeg[], backend_nvjpeg_lacking[];

/* Uniform in [-1, 1), from a fixed seed: xorshift64* (Vigna, 2016). */
float random_value(void);

void open_backend_with(const struct convoy_open_options *options);

void open_backend(void);

void close_backend(void);

/* A shape whose first dimension is the batch. */
#define SHAPE(...)                                                                                           \
    ((struct convoy_shape){                                                                                  \
        .rank = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), .batch_axis = 0, .dims = {__VA_ARGS__}})
#define FIXED(...)                                                                                           \
    ((struct convoy_shape){.rank = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t),                       \
                           .batch_axis = -1,                                                                 \
                           .dims = {__VA_ARGS__}})

int add_activation(struct convoy_graph *graph, struct convoy_shape shape);

int add_constant(struct convoy_graph *graph, struct convoy_shape shape, float scale);

struct convoy_graph *new_graph(struct convoy_shape input);

struct convoy_node *add_node(struct convoy_graph *graph, enum convoy_op op, int output, int input_count,
                             const int *inputs);

void add_output(struct convoy_graph *graph, int tensor);

const struct convoy_shape *shape_of(const struct convoy_graph *graph, int tensor);

int add_act(struct convoy_graph *graph, int x, enum convoy_activation_kind kind, float alpha, float beta);

int add_conv(struct convoy_graph *graph, int x, int64_t K, int64_t R, int64_t S, struct convoy_conv conv,
             bool bias);

#define CONV1 ((struct convoy_conv){.groups = 1, .stride = {1, 1}, .dilation = {1, 1}, .pad = {0, 0, 0, 0}})
#define CONV3 ((struct convoy_conv){.groups = 1, .stride = {1, 1}, .dilation = {1, 1}, .pad = {1, 1, 1, 1}})

int add_pool(struct convoy_graph *graph, int x, struct convoy_pool pool, bool ceil_mode);

/* The mean of each channel's plane. */
int add_global_average(struct convoy_graph *graph, int x);

int add_binary(struct convoy_graph *graph, int a, int b, enum convoy_binary_kind kind);

int add_concat(struct convoy_graph *graph, int count, const int *inputs, int axis);

int add_reshape(struct convoy_graph *graph, int x, struct convoy_shape shape);

int add_dense(struct convoy_graph *graph, int x, int64_t K, bool bias);

int add_softmax(struct convoy_graph *graph, int x, int axis, int axis_end);

int add_top(struct convoy_graph *graph, int x, int64_t count, struct convoy_top top);

int add_flatten(struct convoy_graph *graph, int x);

/* The normalisation of 8-bit rows that normalised() computes. */
void fill_normalisation(struct convoy_load_options *options);

struct convoy_net *load_as(const struct convoy_graph *graph, uint32_t max_batch,
                           enum convoy_compute_type precision, struct convoy_net_info *info);

struct convoy_net *load(const struct convoy_graph *graph, uint32_t max_batch, struct convoy_net_info *info);

/* What normalisation makes of an 8-bit row, for the reference. */
double normalised(uint8_t value, int64_t channel);

/* Waits for a job, as collect(). */
int take(uint64_t *tag, struct convoy_error *error);

void run(struct convoy_net *net, const struct convoy_job *job);

void *aligned_bytes(size_t bytes);

/* Fills `rows` random rows, padded with NaN (or 255) to `stride`, and the same values in double, planar. */
void fill_rows(const struct convoy_net_info *info, enum convoy_input_layout layout, uint32_t rows,
               size_t stride, char *input, double *values);

/* The value of output k, element i of one image n, in a reference tensor whose batch may be at any axis. */
double reference_at(const struct convoy_graph *graph, const struct reference_tensor *tensors, int output,
                    int64_t n, int64_t images, int64_t i);

double largest_output(const struct convoy_graph *graph, const struct convoy_net_info *info,
                      const struct reference_tensor *reference, int64_t n, int64_t rows);

/* Runs `rows` random rows and compares every output of every row with the reference: |y - y64| at most
 * tolerance x (1 + |y64|), or x the row's largest with by_largest. The output is poisoned first, and what
 * lies between rows must stay poisoned. */
void check_rows(const struct convoy_graph *graph, struct convoy_net *net, const struct convoy_net_info *info,
                enum convoy_input_layout layout, uint32_t rows, double tolerance);

/* Loads the graph and checks a few batch sizes, then frees it. */
void check_graph_as(struct convoy_graph *graph, enum convoy_compute_type precision, double tolerance);
/* The same with small batches alone, for networks that run many times. */
void check_graph_of_few(struct convoy_graph *graph, enum convoy_compute_type precision, double tolerance);

void check_graph(struct convoy_graph *graph, double tolerance);

#endif
