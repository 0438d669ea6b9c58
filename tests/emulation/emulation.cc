/* The emulation's runtime: streams, events, graphs, memory. See README.md. One lock is around all of it:
 * several threads may call, and one after the other gets on. */
#include "emulation.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <time.h>
#include <unistd.h>
#include <vector>

using operation = std::function<cudaError_t()>;

static std::recursive_mutex whole;
#define ALONE std::lock_guard<std::recursive_mutex> alone(whole)

struct graph_node {
    operation what;
    std::set<size_t> after; /* the nodes that it waits for, which come before it in the graph */
};
struct convoy_emulated_graph {
    std::vector<graph_node> nodes;
};
struct convoy_emulated_graph_exec {
    std::shared_ptr<const std::vector<graph_node>> nodes;
};
struct convoy_emulated_stream {
    std::deque<operation> waiting;
    convoy_emulated_graph *capture = nullptr;
    bool joined = false;            /* it is captured because it waited for an event of a captured stream */
    std::set<size_t> captured;      /* what its next operation waits for */
    const void *capturer = nullptr; /* the thread */
    int device = 0;
};
struct convoy_emulated_event {
    convoy_emulated_stream *stream = nullptr;
    uint64_t recorded = 0, reached = 0, kernels = 0, again = 0, chain = 0;
    double ms = 0;
    convoy_emulated_graph *capture = nullptr; /* it was recorded there, behind these nodes */
    std::set<size_t> captured;
};

static const size_t memory_total = (size_t)4 << 30;
static size_t memory_used;
static std::map<void *, size_t> allocations;
static std::map<char *, size_t> pinned;
static cudaError_t sticky, last;
static cudaError_t injected =
    cudaSuccess; /* what the next graph ends with; cudaErrorNotReady: it never ends */
static long graph_launches;
static uint64_t kernels_run;
static uint64_t again_run; /* kernels that ran behind themselves */
static const void *last_run;
static uint64_t chain_run; /* kernels that waited for each other: of a graph its longest chain */
static bool refused_once;

static double now_ms()
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* CONVOY_EMULATED_FAULT=KIND:N: at the N-th graph launch (from 1) the device fails as a real one would. */
static const char *fault(const char *kind)
{
    const char *wish = getenv("CONVOY_EMULATED_FAULT");
    size_t length = strlen(kind);
    return wish != nullptr && strncmp(wish, kind, length) == 0 && wish[length] == ':' ? wish + length + 1
                                                                                      : nullptr;
}

/* CONVOY_EMULATED_LOST=DEVICE:FILE: while FILE is there, this device has fallen off the bus, for what runs on
 * it and for processes that come. */
static thread_local int device_in_use = 0; /* as CUDA has it: each thread begins with device 0 */
static bool lost()
{
    static const char *const wish = getenv("CONVOY_EMULATED_LOST");
    const char *file = wish != nullptr ? strchr(wish, ':') : nullptr;
    return file != nullptr && atoi(wish) == device_in_use && access(file + 1, F_OK) == 0;
}

/* CONVOY_EMULATED_BUSY=FILE: while FILE is there the driver takes down what another process had opened. Then
 * some calls wait: that for the device's memory, and what loads kernels, unless all were loaded at first. */
#define BUSY_LIMIT_MS 20000
static void wait_for_driver()
{
    const char *file = getenv("CONVOY_EMULATED_BUSY");
    const double until_ms = now_ms() + BUSY_LIMIT_MS;
    while (file != nullptr && access(file, F_OK) == 0 && now_ms() < until_ms)
        usleep(2000);
}
static bool loads_at_first()
{
    static const char *const how = getenv("CUDA_MODULE_LOADING"); /* as the driver, which reads it once */
    return how != nullptr && strcmp(how, "EAGER") == 0;
}

static cudaError_t say(cudaError_t error)
{
    if (sticky != cudaSuccess)
        error = sticky;
    if (error != cudaSuccess && error != cudaErrorNotReady)
        last = error;
    return error;
}

/* CONVOY_EMULATED_XID=FILE: what takes the device is reported by NVML, too (nvml.c). */
static void report(cudaError_t error)
{
    const char *path = getenv("CONVOY_EMULATED_XID");
    if (path == nullptr || error == cudaErrorUnknown)
        return;
    std::string made = std::string(path) + ".made";
    FILE *file = fopen(made.c_str(), "w");
    if (file == nullptr)
        return;
    fputs(error == cudaErrorIllegalAddress ? "31\n" : "13\n", file);
    fclose(file);
    rename(made.c_str(), path);
}

static cudaError_t run_one(convoy_emulated_stream *stream)
{
    operation next = stream->waiting.front();
    cudaError_t error = lost() ? cudaErrorUnknown : next();
    if (error == cudaErrorNotReady)
        return error; /* a kernel that does not end stays where it is */
    stream->waiting.pop_front();
    if (error != cudaSuccess && sticky == cudaSuccess)
        report(error);
    if (error != cudaSuccess)
        sticky = error;
    return error;
}

static cudaError_t drain(convoy_emulated_stream *stream)
{
    while (sticky == cudaSuccess && !stream->waiting.empty())
        run_one(stream);
    return say(cudaSuccess);
}

static convoy_emulated_stream default_stream;
static std::vector<convoy_emulated_stream *> streams = {&default_stream};

static cudaError_t put(cudaStream_t stream, operation what)
{
    if (sticky != cudaSuccess)
        return say(sticky);
    if (stream == nullptr)
        stream = &default_stream;
    else if (stream->device != device_in_use) /* what is launched there reads the other device's memory */
        return say(cudaErrorInvalidValue);
    if (stream->capture != nullptr) {
        stream->capture->nodes.push_back({std::move(what), stream->captured});
        stream->captured = {stream->capture->nodes.size() - 1};
    } else {
        stream->waiting.push_back(std::move(what));
    }
    return cudaSuccess;
}

/* Is the graph still being captured? */
static bool is_open(const convoy_emulated_graph *graph)
{
    for (const convoy_emulated_stream *stream : streams)
        if (graph != nullptr && stream->capture == graph)
            return true;
    return false;
}

/* What the stream does next in a graph waits for the event, too. */
static cudaError_t wait_in_capture(convoy_emulated_stream *stream, const convoy_emulated_event *event)
{
    if (stream->capture == nullptr && stream->waiting.empty()) {
        stream->capture = event->capture;
        stream->capturer = &device_in_use;
        stream->joined = true;
        stream->captured.clear();
    }
    if (stream->capture != event->capture)
        return cudaErrorStreamCaptureUnsupported;
    stream->captured.insert(event->captured.begin(), event->captured.end());
    return cudaSuccess;
}

static size_t longest_chain(const std::vector<graph_node> &nodes)
{
    std::vector<size_t> until(nodes.size());
    size_t longest = 0;
    for (size_t i = 0; i < nodes.size(); i++) {
        for (size_t before : nodes[i].after)
            until[i] = std::max(until[i], until[before]);
        longest = std::max(longest, ++until[i]);
    }
    return longest;
}

/* Runs a graph in any order that its edges allow, another one each time: what must not run before or after
 * something else, without an edge that says so, does sooner or later. */
static cudaError_t run_graph(const std::vector<graph_node> &nodes)
{
    uint64_t chain = chain_run + longest_chain(nodes);
    static const size_t ahead = 64; /* of the first node that has not run: so far it looks for others */
    static uint32_t chance = 1;
    std::vector<bool> has_run(nodes.size());
    for (size_t first = 0; first < nodes.size();) {
        std::vector<size_t> ready;
        for (size_t i = first; i < std::min(first + ahead, nodes.size()); i++) {
            bool waits = has_run[i];
            for (size_t before : nodes[i].after)
                waits = waits || !has_run[before];
            if (!waits)
                ready.push_back(i);
        }
        chance = chance * 1664525 + 1013904223;
        size_t next = ready[(chance >> 16) % ready.size()];
        has_run[next] = true;
        while (first < nodes.size() && has_run[first])
            first++;
        cudaError_t error = nodes[next].what();
        if (error != cudaSuccess)
            return error;
    }
    chain_run = chain;
    return cudaSuccess;
}

/* By this thread: the only kind of capture that convoyd asks for. */
static bool capturing()
{
    for (convoy_emulated_stream *stream : streams)
        if (stream->capture != nullptr && stream->capturer == &device_in_use)
            return true;
    return false;
}

extern "C" {

cudaError_t cudaGetDeviceCount(int *count)
{
    const char *none = getenv("CONVOY_EMULATED_DEVICES");
    int driver;
    (void)loads_at_first();
    *count = 0;
    if (cudaDriverGetVersion(&driver) == cudaSuccess && driver < CUDART_VERSION)
        return cudaErrorInsufficientDriver;
    *count = none != nullptr ? atoi(none) : 1;
    return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}
cudaError_t cudaSetDevice(int device)
{
    ALONE;
    int count;
    cudaGetDeviceCount(&count);
    if (device < 0 || device >= count)
        return say(cudaErrorInvalidDevice);
    device_in_use = device;
    if (lost())
        sticky = cudaErrorUnknown;
    return say(cudaSuccess);
}
cudaError_t cudaInitDevice(int device, unsigned, unsigned)
{
    return cudaSetDevice(device);
}
cudaError_t cudaGetDevice(int *device)
{
    *device = device_in_use;
    return say(cudaSuccess);
}
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    struct cudaDeviceProp properties;
    cudaError_t error = cudaGetDeviceProperties(&properties, device);
    switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
        *value = properties.multiProcessorCount;
        return error;
    case cudaDevAttrComputeCapabilityMajor:
        *value = properties.major;
        return error;
    case cudaDevAttrComputeCapabilityMinor:
        *value = properties.minor;
        return error;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = (int)properties.sharedMemPerBlockOptin;
        return error;
    case cudaDevAttrClusterLaunch:
        *value = properties.major >= 9;
        return error;
    }
    return say(cudaErrorInvalidValue);
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    memset(properties, 0, sizeof *properties);
    snprintf(properties->name, sizeof properties->name, "emulated GPU");
    properties->totalGlobalMem = memory_total;
    properties->sharedMemPerBlock = 48 << 10;
    properties->sharedMemPerBlockOptin = 227 << 10;
    const char *major = getenv("CONVOY_EMULATED_MAJOR");
    properties->major = major != nullptr ? atoi(major) : 9;
    properties->multiProcessorCount = 132;
    properties->maxThreadsPerBlock = 1024;
    properties->l2CacheSize = 50 << 20;
    properties->regsPerMultiprocessor = 65536;
    properties->pciBusID = 0x10 * (device + 1);
    return say(cudaSuccess);
}
cudaError_t cudaDriverGetVersion(int *version)
{
    const char *driver = getenv("CONVOY_EMULATED_DRIVER");
    *version = driver != nullptr ? atoi(driver) : CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize(void)
{
    ALONE;
    for (convoy_emulated_stream *stream : streams)
        drain(stream);
    return say(cudaSuccess);
}
cudaError_t cudaDeviceReset(void)
{
    return say(cudaSuccess);
}
cudaError_t cudaGetLastError(void)
{
    ALONE;
    cudaError_t error = last;
    last = sticky;
    return error;
}
cudaError_t cudaPeekAtLastError(void)
{
    return last;
}
const char *cudaGetErrorName(cudaError_t error)
{
#define CONVOY_NAME(name)                                                                                    \
    case name:                                                                                               \
        return #name
    switch (error) {
        CONVOY_NAME(cudaSuccess);
        CONVOY_NAME(cudaErrorInvalidValue);
        CONVOY_NAME(cudaErrorMemoryAllocation);
        CONVOY_NAME(cudaErrorInvalidConfiguration);
        CONVOY_NAME(cudaErrorNoDevice);
        CONVOY_NAME(cudaErrorInvalidDevice);
        CONVOY_NAME(cudaErrorECCUncorrectable);
        CONVOY_NAME(cudaErrorNotReady);
        CONVOY_NAME(cudaErrorIllegalAddress);
        CONVOY_NAME(cudaErrorLaunchFailure);
        CONVOY_NAME(cudaErrorStreamCaptureUnsupported);
        CONVOY_NAME(cudaErrorInvalidClusterSize);
    default:
        return "cudaErrorUnknown";
    }
#undef CONVOY_NAME
}
const char *cudaGetErrorString(cudaError_t error)
{
    return cudaGetErrorName(error);
}

cudaError_t cudaMalloc(void **pointer, size_t bytes)
{
    ALONE;
    if (capturing())
        return say(cudaErrorStreamCaptureUnsupported);
    const char *limit = fault("memory");
    size_t most = limit != nullptr ? strtoull(limit, nullptr, 10) : memory_total;
    if (bytes > most || memory_used > most - bytes)
        return say(cudaErrorMemoryAllocation);
    size_t rounded = (bytes + 255) / 256 * 256;
    *pointer = aligned_alloc(256, rounded + (rounded == 0 ? 256 : 0));
    if (*pointer == nullptr)
        return say(cudaErrorMemoryAllocation);
    memset(*pointer, 0xff, bytes); /* NaN: what is read unwritten is seen */
    allocations[*pointer] = bytes;
    memory_used += bytes;
    return say(cudaSuccess);
}
cudaError_t cudaFree(void *pointer)
{
    ALONE;
    if (pointer == nullptr)
        return say(cudaSuccess);
    cudaDeviceSynchronize();
    auto found = allocations.find(pointer);
    if (found == allocations.end())
        return say(cudaErrorInvalidValue);
    memory_used -= found->second;
    allocations.erase(found);
    free(pointer);
    return say(cudaSuccess);
}
cudaError_t cudaMallocHost(void **pointer, size_t bytes)
{
    ALONE;
    *pointer = malloc(bytes);
    return say(*pointer != nullptr ? cudaSuccess : cudaErrorMemoryAllocation);
}
cudaError_t cudaFreeHost(void *pointer)
{
    ALONE;
    free(pointer);
    return say(cudaSuccess);
}
cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    wait_for_driver();
    ALONE;
    const char *limit = fault("memory");
    *total = limit != nullptr ? strtoull(limit, nullptr, 10) : memory_total;
    *available = *total - std::min(*total, memory_used);
    return say(cudaSuccess);
}
cudaError_t cudaHostRegister(void *pointer, size_t bytes, unsigned)
{
    ALONE;
    pinned[(char *)pointer] = bytes;
    return say(cudaSuccess);
}
cudaError_t cudaHostUnregister(void *pointer)
{
    ALONE;
    return say(pinned.erase((char *)pointer) == 1 ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind,
                            cudaStream_t stream)
{
    ALONE;
    return put(stream, [=]() {
        memcpy(to, from, bytes);
        return cudaSuccess;
    });
}
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    ALONE;
    drain(&default_stream);
    cudaMemcpyAsync(to, from, bytes, kind, nullptr);
    return drain(&default_stream);
}
cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    ALONE;
    return put(stream, [=]() {
        memset(to, value, bytes);
        return cudaSuccess;
    });
}
cudaError_t cudaMemset(void *to, int value, size_t bytes)
{
    ALONE;
    cudaMemsetAsync(to, value, bytes, nullptr);
    return drain(&default_stream);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
    ALONE;
    *stream = new convoy_emulated_stream;
    (*stream)->device = device_in_use;
    streams.push_back(*stream);
    return say(cudaSuccess);
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int)
{
    return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    ALONE;
    drain(stream);
    streams.erase(std::find(streams.begin(), streams.end(), stream));
    delete stream;
    return say(cudaSuccess);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    ALONE;
    return drain(stream != nullptr ? stream : &default_stream);
}
cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    ALONE;
    if (sticky == cudaSuccess && !stream->waiting.empty())
        run_one(stream);
    return say(stream->waiting.empty() ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    ALONE;
    if (is_open(event->capture))
        return say(wait_in_capture(stream, event));
    uint64_t target = event->recorded;
    return put(stream, [=]() {
        while (sticky == cudaSuccess && event->reached < target && !event->stream->waiting.empty())
            run_one(event->stream);
        return cudaSuccess;
    });
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode)
{
    ALONE;
    if (stream == nullptr || stream->capture != nullptr)
        return say(cudaErrorStreamCaptureUnsupported);
    stream->capture = new convoy_emulated_graph;
    stream->joined = false;
    stream->captured.clear();
    stream->capturer = &device_in_use;
    return say(cudaSuccess);
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
    ALONE;
    if (stream->capture == nullptr || stream->joined)
        return say(cudaErrorInvalidValue);
    *graph = stream->capture;
    std::set<size_t> open; /* nodes that no other waits for */
    for (size_t i = 0; i < (*graph)->nodes.size(); i++)
        open.insert(i);
    for (const graph_node &node : (*graph)->nodes)
        for (size_t before : node.after)
            open.erase(before);
    for (convoy_emulated_stream *other : streams)
        if (other->capture == *graph)
            other->capture = nullptr;
    if (std::includes(stream->captured.begin(), stream->captured.end(), open.begin(), open.end()))
        return say(cudaSuccess);
    delete *graph;
    *graph = nullptr;
    return say(cudaErrorStreamCaptureUnjoined);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned)
{
    *event = new convoy_emulated_event;
    return say(cudaSuccess);
}
cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, 0);
}
cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    ALONE;
    if (event->stream != nullptr)
        cudaDeviceSynchronize();
    delete event;
    return say(cudaSuccess);
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    ALONE;
    event->stream = stream != nullptr ? stream : &default_stream;
    event->capture = event->stream->capture;
    event->captured = event->stream->captured;
    if (event->capture != nullptr)
        return say(cudaSuccess);
    uint64_t number = ++event->recorded;
    return put(stream, [=]() {
        event->reached = number;
        event->ms = now_ms();
        event->kernels = kernels_run;
        event->again = again_run;
        event->chain = chain_run;
        return cudaSuccess;
    });
}
cudaError_t cudaEventQuery(cudaEvent_t event)
{
    bool endless = false;
    {
        ALONE;
        /* A device that gets on a little each time it is asked. */
        if (event->reached < event->recorded && sticky == cudaSuccess && !event->stream->waiting.empty())
            endless = run_one(event->stream) == cudaErrorNotReady;
        if (!endless)
            return say(event->reached < event->recorded ? cudaErrorNotReady : cudaSuccess);
    }
    /* Those who wait in turns for a kernel that never ends leave the processor to the other tests. */
    usleep(200);
    ALONE;
    return say(cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    ALONE;
    while (event->reached < event->recorded && sticky == cudaSuccess && !event->stream->waiting.empty())
        run_one(event->stream);
    return say(cudaSuccess);
}
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    ALONE;
    if (from->reached < from->recorded || to->reached < to->recorded || from->recorded == 0 ||
        to->recorded == 0)
        return say(cudaErrorNotReady);
    const char *clock = getenv("CONVOY_EMULATED_CLOCK");
    float count = (float)(1 + to->kernels - from->kernels);
    if (clock != nullptr && strcmp(clock, "kernels") == 0)
        *ms = 1.0f / count;
    else if (clock != nullptr && strcmp(clock, "launches") == 0)
        *ms = count;
    else if (clock != nullptr && strcmp(clock, "neighbours") == 0)
        *ms = 1e-2f * count + 5e-3f * (float)(to->again - from->again);
    else if (clock != nullptr && strcmp(clock, "chains") == 0)
        *ms = (float)(1 + to->chain - from->chain);
    else
        *ms = (float)(to->ms - from->ms);
    return say(cudaSuccess);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long)
{
    if (!loads_at_first())
        wait_for_driver();
    ALONE;
    *exec = new convoy_emulated_graph_exec{std::make_shared<const std::vector<graph_node>>(graph->nodes)};
    return say(cudaSuccess);
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t)
{
    return say(cudaSuccess);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    ALONE;
    graph_launches++;
    if (injected != cudaSuccess) {
        cudaError_t error = injected;
        injected = cudaSuccess;
        return put(stream, [error]() { return error; });
    }
    if (fault("illegal") != nullptr && graph_launches >= atol(fault("illegal")))
        return put(stream, []() { return cudaErrorIllegalAddress; });
    if (fault("launch") != nullptr && graph_launches >= atol(fault("launch")))
        return say(sticky = cudaErrorLaunchFailure);
    auto nodes = exec->nodes;
    return put(stream, [nodes]() { return run_graph(*nodes); });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    delete graph;
    return say(cudaSuccess);
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    delete exec;
    return say(cudaSuccess);
}
}

/* Kernels that may have clusters of more than 8 blocks, which not every chip has room for. */
static std::set<const void *> large_clusters;

cudaError_t convoy_emulated_set_attribute(const void *kernel, cudaFuncAttribute attribute, int value)
{
    ALONE;
    if (attribute == cudaFuncAttributeNonPortableClusterSizeAllowed && value != 0)
        large_clusters.insert(kernel);
    else if (attribute == cudaFuncAttributeNonPortableClusterSizeAllowed)
        large_clusters.erase(kernel);
    return say(cudaSuccess);
}

/* How many blocks a launch wants together; 0: what cannot be. */
static unsigned cluster_of(const cudaLaunchConfig_t *config, const void *kernel)
{
    unsigned cluster = 1;
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const cudaLaunchAttribute &attribute = config->attrs[i];
        if (attribute.id != cudaLaunchAttributeClusterDimension)
            continue;
        cluster = attribute.val.clusterDim.x;
        if (attribute.val.clusterDim.y != 1 || attribute.val.clusterDim.z != 1)
            return 0;
    }
    unsigned most = large_clusters.count(kernel) != 0 ? CONVOY_EMULATED_CLUSTER_MAX : 8;
    return cluster < 1 || cluster > most || config->gridDim.x % cluster != 0 ? 0 : cluster;
}

cudaError_t convoy_emulated_launch(const cudaLaunchConfig_t *config, const void *kernel,
                                   std::function<void()> body)
{
    ALONE;
    const dim3 &grid = config->gridDim, &block = config->blockDim;
    if (grid.x < 1 || grid.y < 1 || grid.z < 1 || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535 ||
        block.x < 1 || block.y < 1 || block.z < 1 || block.z > 64 || block.x * block.y * block.z > 1024 ||
        config->dynamicSmemBytes > (227u << 10))
        return say(cudaErrorInvalidConfiguration);
    unsigned cluster = cluster_of(config, kernel);
    if (cluster == 0)
        return say(cudaErrorInvalidClusterSize);
    if (fault("refuse") != nullptr && !refused_once && !capturing()) {
        refused_once = true;
        return say(cudaErrorInvalidConfiguration);
    }
    size_t shared = config->dynamicSmemBytes;
    return put(config->stream, [grid, block, cluster, shared, kernel, body]() {
        kernels_run++;
        again_run += kernel == last_run;
        last_run = kernel;
        chain_run++;
        if (fault("kernel") != nullptr)
            return cudaErrorIllegalAddress;
        convoy_emulated_grid(grid, block, cluster, shared, body);
        return cudaSuccess;
    });
}

/* For the stand-ins of libraries that work on streams (nvjpeg/): calls work(context) when the stream has come
 * that far, which returns the cudaError_t that the stream ends with, or 0. */
extern "C" __attribute__((visibility("default"))) int
convoy_emulated_put(cudaStream_t stream, int (*work)(void *context), void *context)
{
    ALONE;
    return put(stream, [=]() { return (cudaError_t)work(context); });
}

/* For tests/faults/gpu.c, which finds it by its name: a fault (enum fault_kernel) loses the context at the
 * next graph that is launched, or at once. */
extern "C" __attribute__((visibility("default"))) void convoy_emulated_inject(int fault, bool at_once)
{
    static const cudaError_t errors[] = {cudaErrorIllegalAddress, cudaErrorLaunchFailure, cudaErrorNotReady};
    if (at_once)
        sticky = errors[fault];
    else
        injected = errors[fault];
}

cudaError_t convoy_emulated_code()
{
    return say(fault("code") != nullptr ? cudaErrorNoKernelImageForDevice : cudaSuccess);
}
