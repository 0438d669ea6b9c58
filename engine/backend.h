/* A backend: one table of functions that the worker calls, one module (shared object) per backend.
 *
 * A module exports `const struct convoy_backend *convoy_backend_entry(void)`. The worker opens one device,
 * pins the channel's memory, loads models, then submits jobs and collects them, and lets the backend use idle
 * moments. All functions but counters() are called from one thread of the worker, never from two at once.
 * Nothing is allocated by submit() or collect(). */
#ifndef CONVOY_ENGINE_BACKEND_H
#define CONVOY_ENGINE_BACKEND_H

#include "engine/base/error.h"
#include "engine/base/input_layout.h"
#include "engine/base/limits.h"
#include "engine/graph/graph.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONVOY_BACKEND_ABI      4
#define CONVOY_MAX_U8_CHANNELS  4
#define CONVOY_LAYER_NAME_BYTES 64

enum convoy_precision { CONVOY_FP32, CONVOY_TF32, CONVOY_FP16 }; /* least exact arithmetic that is accepted */

/* May a backend time kernels on the device, and use what was timed before? */
enum convoy_tuning {
    CONVOY_TUNING_OFF,  /* times nothing; what the cache knows is used */
    CONVOY_TUNING_ON,   /* times what the cache does not know */
    CONVOY_TUNING_FORCE /* passes over what the cache knows and times all anew */
};

struct convoy_net;
struct convoy_net_info;

/* All zero is right for checking a model. The strings are copied where they are kept; the functions are
 * called from inside open(), load(), unload() and idle(), by whoever called those. */
struct convoy_open_options {
    uint32_t streams;      /* the configuration's wish */
    const char *cache_dir; /* where times are remembered; NULL: nowhere */
    enum convoy_tuning tune;
    void *context;
    /* A line for the log; level: "debug", "info", "warning", "error". NULL: nobody reads it. */
    void (*log)(void *context, const char *level, const char *text);
    /* idle() has changed a network: other kernels, other weights. info replaces what load() gave. NULL:
     * nobody asks. */
    void (*changed)(void *context, struct convoy_net *net, const struct convoy_net_info *info);
    /* load() and unload() call it between two steps when they take long; the worker submits and collects jobs
     * of other networks inside. A backend need not call it. May be NULL. */
    void (*pause)(void *context);
    /* load() and unload() call it for a long step that needs no device: calls work(argument) and returns when
     * it has ended. The worker may call it on another thread, and submit and collect jobs of other networks
     * meanwhile. A backend need not use it. NULL: the backend calls work() itself. */
    void (*run_beside)(void *context, void (*work)(void *argument), void *argument);
};

struct convoy_load_options {
    const char *name; /* for messages */
    enum convoy_precision precision;
    uint32_t max_batch; /* a job has 1 to max_batch rows */
    float multiply[CONVOY_MAX_U8_CHANNELS], add[CONVOY_MAX_U8_CHANNELS];
};

struct convoy_layer_info {
    char name[CONVOY_LAYER_NAME_BYTES];   /* the graph node's name, or that of the first of a fused group */
    char kernel[CONVOY_LAYER_NAME_BYTES]; /* what runs it, e.g. "jit:avx2+relu+pool" */
};

/* What load() learnt; valid until unload(). */
struct convoy_net_info {
    uint32_t channels, height, width; /* of the input; [N,M] inputs are M x 1 x 1 */
    uint32_t output_count;
    uint32_t output_elements[CONVOY_MAX_OUTPUTS]; /* per row */
    uint32_t outputs_per_row;                     /* their sum */
    enum convoy_precision precision;              /* in use */
    uint64_t weight_bytes;                        /* resident */
    uint32_t layer_count;
    const struct convoy_layer_info *layers;
};

struct convoy_job_times {
    float input_us, compute_us, output_us; /* 0 where the backend lacks the stage */
    float *layer_us;                       /* NULL, or room for layer_count entries to be filled (profile) */
};

struct convoy_job {
    uint64_t tag;                    /* given back by collect() */
    enum convoy_input_layout layout; /* of its rows; below CONVOY_SLOT_LAYOUTS */
    uint32_t rows;
    const void *input;
    size_t input_stride; /* bytes from row to row, a multiple of 64 */
    float *output;       /* outputs of a row one after the other, in the model's order */
    size_t output_stride;
    /* For measuring what computes, on a device with memory of its own, opened with one stream: the rows are
     * those that the last job of this network brought there; the outputs stay there. Others do as always. */
    bool keep_input, keep_output;
    bool profile;
    struct convoy_job_times *times; /* filled before collect() returns the tag; lives as long as the job */
};

struct convoy_device_info {
    char name[32];         /* "cpu", "null", "cuda:0" */
    char description[128]; /* for people */
    uint32_t device_count; /* devices of this kind on the machine */
    uint32_t streams;      /* jobs that make sense in flight at once */
};

/* Bytes on the device; what a backend does not know is 0. */
struct convoy_device_memory {
    uint64_t weights, workspace; /* of this process: resident constants; activations */
    uint64_t free, total;        /* of the device, whoever uses it */
};

struct convoy_device; /* the backend's own, as struct convoy_net */

struct convoy_backend {
    uint32_t abi; /* CONVOY_BACKEND_ABI */
    const char *name;
    /* The graph given to load() must live until unload(): plans are made from it anew. Otherwise it may be
     * freed after load(). */
    bool keeps_graph;

    /* Opens device `index`. -ENODEV where there is none. */
    int (*open)(uint32_t index, const struct convoy_open_options *options, struct convoy_device **device,
                struct convoy_device_info *info, struct convoy_error *error);
    void (*close)(struct convoy_device *device);

    /* A thread other than that of open() calls this once before the functions below: what a driver keeps for
     * each thread (CUDA: which device is meant). NULL: nothing is kept. */
    int (*enter)(struct convoy_device *device, struct convoy_error *error);

    /* Tells the device that jobs will lie inside [base, base + bytes); it may pin that memory. One that lies
     * elsewhere, or comes before, is run as well, if slower. */
    int (*attach)(struct convoy_device *device, void *base, size_t bytes, struct convoy_error *error);

    /* Makes the graph's weights resident and prepares every batch size up to max_batch. -ENOTSUP names the
     * node that this backend cannot run; -ENOMEM the bytes asked and free; -ENODEV: the device is lost, which
     * says nothing of the model. */
    int (*load)(struct convoy_device *device, const struct convoy_graph *graph,
                const struct convoy_load_options *options, struct convoy_net **net,
                struct convoy_net_info *info, struct convoy_error *error);
    void (*unload)(struct convoy_device *device, struct convoy_net *net);

    /* Starts a job or queues it. An error here or from collect() means that the device is lost: the worker
     * says what it knows and exits. The job struct is copied; its input, output and times are not. */
    int (*submit)(struct convoy_device *device, struct convoy_net *net, const struct convoy_job *job,
                  struct convoy_error *error);

    /* Waits at most timeout_us for a submitted job and returns 1 with its tag, 0 when none finished in time,
     * or a negative errno. A backend without asynchronous hardware runs the oldest job here. */
    int (*collect)(struct convoy_device *device, int64_t timeout_us, uint64_t *tag,
                   struct convoy_error *error);

    /* Does a piece of what makes later jobs faster (timing kernels, making plans anew), for about budget_us.
     * Called when no job waits and none is in flight; a job that comes meanwhile waits for the piece. 1:
     * there is more to do; 0: nothing until the next load(); negative: the device is lost. May be NULL. */
    int (*idle)(struct convoy_device *device, int64_t budget_us, struct convoy_error *error);

    /* Asks the device for its memory, which costs time: after a model has come or gone, never on a request's
     * path. A negative errno: the device is lost. May be NULL. */
    int (*memory)(struct convoy_device *device, struct convoy_device_memory *memory,
                  struct convoy_error *error);

    /* Calls report(context, name, value) for each counter (e.g. CUDA calls by name). May be NULL. The one
     * function that is called from another thread, also while the others run: counters are atomics. */
    void (*counters)(struct convoy_device *device,
                     void (*report)(void *context, const char *name, uint64_t value), void *context);
};

typedef const struct convoy_backend *(*convoy_backend_entry_function)(void);
#define CONVOY_BACKEND_ENTRY "convoy_backend_entry"

/* What the module of faults exports (tests/faults/faults.h): returns the table that the worker uses in place
 * of backend's. It may be backend itself. */
typedef const struct convoy_backend *(*convoy_faults_entry_function)(const struct convoy_backend *backend);
#define CONVOY_FAULTS_ENTRY "convoy_faults_entry"

#endif
