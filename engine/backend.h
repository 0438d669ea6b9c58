/* A backend runs networks on one kind of device. It is a module (a shared object of its own) that exports one
 * table of functions, struct convoy_backend, through
 *
 *     const struct convoy_backend *convoy_backend_entry(void);
 *
 * What the worker does with it, in this order:
 *     open()              one device
 *     attach()            the channel's memory, in which the rows and outputs of jobs lie
 *     load(), unload()    networks, at any time
 *     submit(), collect() jobs: a batch of rows of one network each; several may be in flight
 *     idle()              when there is no job: time kernels, make faster plans
 *     verify()            when there is no job: are the weights what they were?
 *     verify_decoder()    when there is no job: are JPEG files decoded rightly?
 *     close()
 *
 * Threads: one thread of the worker, the compute thread, calls all functions, one at a time. Exceptions:
 * open() may run on another thread (see enter()), counters() and health() on any thread at any time, and what
 * run_behind() is given.
 *
 * Memory: submit() and collect() allocate nothing.
 *
 * Errors: functions that return int return 0 (or what they say), or a negative errno with a sentence in
 * error. */
#ifndef CONVOY_ENGINE_BACKEND_H
#define CONVOY_ENGINE_BACKEND_H

#include "engine/base/device_health.h"
#include "engine/base/error.h"
#include "engine/base/input_layout.h"
#include "engine/base/jpeg_row.h"
#include "engine/base/limits.h"
#include "engine/graph/graph.h"
#include "kernels/compute_type.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONVOY_BACKEND_ABI      10 /* raised with each change of this file or of a layout's number */
#define CONVOY_MAX_U8_CHANNELS  4  /* networks with more input channels take float32 rows alone */
#define CONVOY_LAYER_NAME_BYTES 64

/* May a backend time kernels on the device, and may it use times that it measured in earlier runs? */
enum convoy_tuning {
    CONVOY_TUNING_OFF,  /* times nothing; uses the cache */
    CONVOY_TUNING_ON,   /* times what the cache lacks */
    CONVOY_TUNING_FORCE /* ignores the cache and times everything */
};

struct convoy_device; /* defined by each backend, as is the next */
struct convoy_net;    /* a loaded network */
struct convoy_net_info;
struct convoy_device_memory;

/* How a device is opened. All zero suffices to check a model. The backend copies the strings that it keeps.
 * The callbacks may be NULL; the backend calls them with `context`, on the compute thread, from inside
 * open(), load(), unload() and idle(), unless they say otherwise. */
struct convoy_open_options {
    uint32_t streams;      /* how many jobs the configuration wants to run at once */
    const char *cache_dir; /* folder of the cache of kernel times; NULL: no cache */
    enum convoy_tuning tune;
    bool health;      /* health() will be called */
    bool pixels_only; /* no job of JPEG files will come */
    /* If not NULL: open() may call it once, when the device is opened and before it reads files, logs or
     * watches the device's health. The process may stay in there for days. memory: as memory() tells it. */
    void (*opened)(void *context, const struct convoy_device_memory *memory);
    void *context;
    /* A line for the log. level: "debug", "info", "warning" or "error". Any thread. */
    void (*log)(void *context, const char *level, const char *text);
    /* idle() has changed a network: other kernels, other weights; or the network takes JPEG files from now on
     * (takes_jpeg, which changes no answer). info replaces what load() filled in. */
    void (*changed)(void *context, struct convoy_net *net, const struct convoy_net_info *info);
    /* A long load() or unload() calls this between two steps; the worker may submit and collect jobs of other
     * networks inside. Backends whose loads are short need not. */
    void (*pause)(void *context);
    /* load() and unload() may call this for a long step that needs no device. It calls work(argument) and
     * returns when that has returned. The worker may run work() on another thread and submit and collect jobs
     * of other networks meanwhile. If it is NULL the backend calls work() itself. */
    void (*run_beside)(void *context, void (*work)(void *argument), void *argument);
    /* load() may call this, and return, for what need not be there before the network is used. The worker
     * calls work(argument) once, a moment later, on a thread of its own, while all else goes on; then
     * done(argument, error) on the compute thread, while jobs may be in flight. done() may call changed(); an
     * error of it means that the device is lost. One work at a time. close() may be called when done() has
     * returned, or when the worker has not called work() and never will. If it is NULL the backend does both
     * inside load(). */
    void (*run_behind)(void *context, void (*work)(void *argument),
                       int (*done)(void *argument, struct convoy_error *error), void *argument);
    /* A part of a job is done, e.g. a layer: the job does not stand still. For backends whose jobs may take
     * longer than a second; others need not call it. From collect(), on any thread that runs the job. */
    void (*progress)(void *context);
};

struct convoy_load_options {
    const char *name; /* for messages; read during the call only */
    /* The least exact arithmetic that the model's configuration accepts; a backend may be more exact. */
    enum convoy_compute_type precision;
    uint32_t max_batch; /* a job has 1 to max_batch rows */
    /* 8-bit rows are normalised per channel: x * multiply[c] + add[c] */
    float multiply[CONVOY_MAX_U8_CHANNELS], add[CONVOY_MAX_U8_CHANNELS];
    struct convoy_image_fitting fitting; /* of rows that are JPEG files */
    bool untuned;                        /* idle() leaves it alone: it is used rarely, and not for long */
    bool decoder_first; /* load() returns when the device can decode JPEG files, or is known not to */
};

struct convoy_layer_info {
    char name[CONVOY_LAYER_NAME_BYTES];   /* of the graph's node, or of the first node of a fused group */
    char kernel[CONVOY_LAYER_NAME_BYTES]; /* what runs it, e.g. "jit:avx2+relu+pool" */
};

/* What load() found out about a network; valid until unload(). */
struct convoy_net_info {
    uint32_t channels, height, width; /* of the input; an input [N,M] is M x 1 x 1 */
    uint32_t output_count;
    uint32_t output_elements[CONVOY_MAX_OUTPUTS]; /* per row */
    uint32_t outputs_per_row;                     /* sum of output_elements */
    enum convoy_compute_type precision;           /* in use */
    uint64_t weight_bytes;                        /* resident on the device */
    bool takes_jpeg; /* jobs may be of CONVOY_LAYOUT_JPEG: the device decodes, and fitting is such that it can
                      */
    uint32_t layer_count; /* at most CONVOY_MAX_LAYERS */
    const struct convoy_layer_info *layers;
};

/* Time that a job spent on the device, in microseconds; 0 where the backend lacks the stage. */
struct convoy_job_times {
    float input_us, compute_us, output_us; /* input_us: copies, and decoding of JPEG rows */
    /* One bit a row of CONVOY_LAYOUT_JPEG, bit r % 64 of word r / 64: its file could not be decoded, its
     * outputs say nothing. The other rows of the job are right. */
    uint64_t undecoded[CONVOY_JPEG_ROWS_MAX / 64];
    float *layer_us; /* NULL, or room for layer_count times, filled if the job asks for a profile */
};

/* One batch. */
struct convoy_job {
    uint64_t tag;                    /* collect() returns it */
    enum convoy_input_layout layout; /* of the rows; below CONVOY_SLOT_LAYOUTS */
    uint32_t rows;
    const void *input;   /* of CONVOY_LAYOUT_JPEG at most CONVOY_JPEG_ROWS_MAX rows */
    size_t input_stride; /* bytes from row to row, a multiple of 64; CONVOY_JPEG_ROW_BYTES of JPEG files */
    size_t input_bytes;  /* of CONVOY_LAYOUT_JPEG: that may be read from input on; the files lie in them */
    float *output;       /* of each row all outputs, one after the other, in the model's order */
    size_t output_stride;
    /* For measuring the computation alone, on a device with memory of its own that was opened with one
     * stream. keep_input: the job uses the rows that the last job of this network left on the device.
     * keep_output: the outputs stay on the device. Backends whose device shares the host's memory ignore
     * both. */
    bool keep_input, keep_output;
    bool profile;
    bool repeatable; /* gives the same bits each time until changed(): not computed otherwise because of what
                        other jobs were like */
    struct convoy_job_times
        *times; /* filled in before collect() returns the tag; must live as long as the job */
};

struct convoy_device_info {
    char name[32];         /* "cpu", "null", "cuda:0" */
    char description[128]; /* for people */
    uint32_t device_count; /* devices of this kind on the machine */
    uint32_t streams;      /* how many jobs in flight at once make sense */
    uint32_t jpeg_jobs;    /* so many more where jobs are of JPEG files, which are decoded ahead; 0: it cannot
                              decode */
};

/* Bytes on the device; 0 where a backend does not know. */
struct convoy_device_memory {
    uint64_t weights, workspace; /* of this process: resident constants; activations */
    uint64_t free, total;        /* of the device, other processes included */
};

/* The table. Functions that may be NULL say so. */
struct convoy_backend {
    uint32_t abi; /* CONVOY_BACKEND_ABI */
    const char *name;
    /* True: the graph given to load() must live until unload(), because plans are made from it later. False:
     * it may be freed after load(). */
    bool keeps_graph;

    /* Opens device `index` and fills in *device and *info. -ENODEV if there is no such device. */
    int (*open)(uint32_t index, const struct convoy_open_options *options, struct convoy_device **device,
                struct convoy_device_info *info, struct convoy_error *error);
    void (*close)(struct convoy_device *device);

    /* If the compute thread is not the thread that called open(), it calls this once before all functions
     * below: it sets up what a driver keeps for each thread (CUDA: the current device). May be NULL. */
    int (*enter)(struct convoy_device *device, struct convoy_error *error);

    /* Tells the device that jobs will lie inside [base, base + bytes); it may pin that memory. Jobs outside,
     * or submitted before, run as well, perhaps slower. */
    int (*attach)(struct convoy_device *device, void *base, size_t bytes, struct convoy_error *error);

    /* Makes the graph's weights resident, prepares every batch size up to max_batch, and fills in *net and
     * *info. -ENOTSUP: the sentence names the node that this backend cannot run; -ENOMEM: it names the bytes
     * that were asked for and are free; -ENODEV: the device is lost, which says nothing about the model. */
    int (*load)(struct convoy_device *device, const struct convoy_graph *graph,
                const struct convoy_load_options *options, struct convoy_net **net,
                struct convoy_net_info *info, struct convoy_error *error);
    /* No job of net may be in flight. */
    void (*unload)(struct convoy_device *device, struct convoy_net *net);

    /* Starts a job or queues it. The struct is copied; input, output and times must live until collect()
     * returns the tag. An error of submit() or collect() means that the device is lost: the worker reports
     * the sentence and ends the process. */
    int (*submit)(struct convoy_device *device, struct convoy_net *net, const struct convoy_job *job,
                  struct convoy_error *error);

    /* Waits at most timeout_us for any submitted job. Returns 1 and its tag, 0 when none finished in time, or
     * a negative errno. A backend without asynchronous hardware runs its oldest job here. */
    int (*collect)(struct convoy_device *device, int64_t timeout_us, uint64_t *tag,
                   struct convoy_error *error);

    /* Works for about budget_us on making later jobs faster (timing kernels, making new plans). Called only
     * when no job waits and none is in flight; a job that arrives meanwhile waits until this returns. Returns
     * 1: there is more to do; 0: nothing until the next load(); negative: the device is lost. May be NULL. */
    int (*idle)(struct convoy_device *device, int64_t budget_us, struct convoy_error *error);

    /* Reads for about budget_us what net keeps resident, from where the last call ended, and compares
     * checksums with those of load(). With no job in flight. Returns 1: there is more to read; 0: all was
     * read and is as it was, and the next call begins again; -EBADMSG: it differs; -ENOMEM: it cannot be
     * read; another errno: the device is lost. May be NULL. */
    int (*verify)(struct convoy_device *device, struct convoy_net *net, int64_t budget_us,
                  struct convoy_error *error);

    /* Decodes a JPEG file that is known in every way in which jobs of CONVOY_LAYOUT_JPEG do, and compares.
     * With no job in flight; the same is done before the first network takes such jobs. Returns 1: it is
     * right; 0: no network takes them, or the file could not be decoded, as undecoded says of a job's;
     * -EBADMSG: its pixels are wrong; another errno: the device is lost. May be NULL. */
    int (*verify_decoder)(struct convoy_device *device, struct convoy_error *error);

    /* Asks the device for its memory. That takes time: the worker calls it after a model was loaded, unloaded
     * or tuned, never on the path of a request. A negative errno: the device is lost. May be NULL. */
    int (*memory)(struct convoy_device *device, struct convoy_device_memory *memory,
                  struct convoy_error *error);

    /* Calls report(context, name, value) for each counter (e.g. CUDA calls by name). Any thread, while other
     * functions run: the counters are atomics. May be NULL. */
    void (*counters)(struct convoy_device *device,
                     void (*report)(void *context, const char *name, uint64_t value), void *context);

    /* Fills in what the driver said of the device's health a second ago at most; values that it does not tell
     * are CONVOY_HEALTH_UNKNOWN. Any thread, while other functions run; does not ask the driver. wait_ms: 0;
     * or the device was lost, and this may wait so long for the driver to report an error (Xid) that no
     * earlier call has told of. False: nothing is known. May be NULL. */
    bool (*health)(struct convoy_device *device, uint32_t wait_ms, struct convoy_device_health *health);
};

typedef const struct convoy_backend *(*convoy_backend_entry_function)(void);
#define CONVOY_BACKEND_ENTRY "convoy_backend_entry"

/* What the module of faults exports (tests/faults/faults.h): returns the table that the worker uses in place
 * of backend's. It may be backend itself. */
typedef const struct convoy_backend *(*convoy_faults_entry_function)(const struct convoy_backend *backend);
#define CONVOY_FAULTS_ENTRY "convoy_faults_entry"

#endif
