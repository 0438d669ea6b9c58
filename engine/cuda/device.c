#include "engine/cuda/device.h"

#include "engine/cuda/net/net.h"
#include "engine/cuda/runtime/calls.h"
#include "engine/cuda/runtime/no_gpu.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEALTH_PERIOD_MS 1000 /* between two samples */
#define HEALTH_LIMIT_MS  1000 /* that a worker's start may be later because of them */

static int make_marks(struct convoy_device *device, struct convoy_error *error)
{
    int failed = 0;
    for (int i = 0; i < CONVOY_CUDA_MAX_JOBS && !failed; i++)
        for (int k = 0; k < CONVOY_CUDA_MARKS && !failed; k++)
            failed = CONVOY_CUDA(error, cudaEventCreateWithFlags, (&device->marks[i][k], cudaEventDefault));
    return failed;
}

/* A GPU for which this module has no code counts as none: with "auto" the CPU serves instead. */
static int check_code(const struct cudaDeviceProp *properties, struct convoy_error *error)
{
    if (convoy_kernels_run_here() == cudaSuccess)
        return 0;
    (void)cudaGetLastError();
    return convoy_fail(error, -ENODEV,
                       "%.64s is of sm_%d%d, for which this build has no code: build with "
                       "-DCONVOY_CUDA_ARCHITECTURES=%d%d",
                       properties->name, properties->major, properties->minor, properties->major,
                       properties->minor);
}

/* nvJPEG has 14 streams for each state, and the driver has 8 queues for all streams: files that came into the
 * queue of a network's stream waited until its graph had ended, and after them, as each state takes its
 * streams in turn, all of that state. Beside resnet50 an H200 decoded 19,000 pictures of 500 x 375 a second
 * with 8 queues, 21,600 with 16 and 28,500 with 32, which are the most. A queue takes 10 MB of the host's
 * memory and 14 ms of the start. The driver reads this when it is asked first. */
static void ask_for_queues(void)
{
    (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); /* without memory for it, decoding is slower */
}

/* A spare loads all kernels with its context. Otherwise each is loaded when a graph first holds it, in a call
 * that waits while the driver takes down what the dead worker had opened: an H100 needed 290 ms for the first
 * model's graphs so, and 10 ms with this. The driver reads it when it is asked first. */
static void ask_for_kernels(void)
{
    (void)setenv("CUDA_MODULE_LOADING", "EAGER", 0); /* without memory for it, graphs are made later */
}

static int count_devices(int *count, struct convoy_error *error)
{
    int driver = 0;
    convoy_cuda_count(CONVOY_CUDA_cudaGetDeviceCount);
    cudaError_t code = cudaGetDeviceCount(count);
    if (code == cudaSuccess)
        return 0;
    (void)cudaGetLastError();
    convoy_cuda_count(CONVOY_CUDA_cudaDriverGetVersion);
    (void)cudaDriverGetVersion(&driver); /* 0 says that there is none */
    return convoy_cuda_no_gpu(code, driver, CUDART_VERSION, error);
}

static void find_health(struct convoy_cuda_health *health, const struct cudaDeviceProp *properties)
{
    char bus[32];
    snprintf(bus, sizeof(bus), "%08x:%02x:%02x.0", (unsigned)properties->pciDomainID,
             (unsigned)properties->pciBusID, (unsigned)properties->pciDeviceID);
    convoy_cuda_health_find(health, bus, HEALTH_LIMIT_MS);
}

int convoy_cuda_open(uint32_t index, const struct convoy_open_options *options, struct convoy_device **result,
                     struct convoy_device_info *info, struct convoy_error *error)
{
    int count = 0, driver = 0;
    struct cudaDeviceProp properties;
    struct convoy_error no_decoder;
    struct convoy_device_memory memory;
    struct convoy_device *device = calloc(1, sizeof(*device));
    if (device == NULL)
        return convoy_fail(error, -ENOMEM, "no memory for a device");
    if (options->pixels_only)
        (void)convoy_fail(&no_decoder, -ENOTSUP, "no other decoder is asked for");
    else
        device->decoder = convoy_jpeg_decoder_open(&device->gpu, &no_decoder);
    if (device->decoder != NULL)
        ask_for_queues();
    if (options->opened != NULL)
        ask_for_kernels();
    int failed = count_devices(&count, error);
    if (!failed && index >= (uint32_t)count)
        failed = convoy_fail(error, -ENODEV, "there is no GPU %u, only %d", index, count);
    if (failed) {
        convoy_jpeg_decoder_close(device->decoder);
        free(device);
        return failed;
    }
    if (options->health)
        device->health = convoy_cuda_health_begin(HEALTH_PERIOD_MS, options->context, options->log);
    convoy_cuda_tuner_init(&device->tuner, options, &device->gpu, &device->choices, &device->cache);
    failed = convoy_cuda_gpu_open(&device->gpu, index, options, error);
    if (!failed)
        failed = CONVOY_CUDA(error, cudaGetDeviceProperties, (&properties, device->gpu.index));
    if (!failed)
        failed = CONVOY_CUDA(error, cudaDriverGetVersion, (&driver));
    if (!failed)
        failed = check_code(&properties, error);
    if (!failed)
        failed = make_marks(device, error);
    if (!failed && device->health != NULL)
        find_health(device->health, &properties);
    if (!failed && options->opened != NULL) {
        failed = convoy_cuda_memory(device, &memory, error);
        if (!failed)
            options->opened(options->context,
                            &memory); /* what was slow is done; what follows is to be of now */
    }
    if (!failed)
        failed = convoy_cuda_cache_open(&device->cache, &device->gpu, options->cache_dir, properties.name,
                                        driver, error);
    if (failed) {
        convoy_cuda_close(device);
        return failed;
    }
    if (device->decoder == NULL)
        convoy_cuda_log(&device->gpu, "info", "JPEG files are decoded by the processor: %s",
                        no_decoder.message);
    if (options->tune != CONVOY_TUNING_FORCE)
        convoy_cuda_cache_read(&device->cache, &device->gpu, &device->choices);
    convoy_cuda_kernel_choices_remember(&device->choices); /* not before: reading replaces all of choices */
    if (device->health != NULL)
        convoy_cuda_health_watch(device->health);
    *info = (struct convoy_device_info){.device_count = (uint32_t)count,
                                        .streams = device->gpu.stream_count,
                                        .jpeg_jobs = device->decoder != NULL ? CONVOY_JPEG_AHEAD : 0};
    snprintf(info->name, sizeof(info->name), "cuda:%u", index);
    snprintf(info->description, sizeof(info->description), "%.64s, sm_%d%d, %zu MiB, driver for CUDA %d.%d",
             properties.name, properties.major, properties.minor, properties.totalGlobalMem >> 20,
             driver / 1000, driver % 1000 / 10);
    *result = device;
    return 0;
}

void convoy_cuda_close(struct convoy_device *device)
{
    struct convoy_error ignored;
    if (device == NULL)
        return;
    convoy_cuda_health_end(device->health);
    convoy_cuda_tuner_free(&device->tuner);
    convoy_jpeg_decoder_close(device->decoder);
    if (device->pinned != NULL)
        (void)CONVOY_CUDA(&ignored, cudaHostUnregister, (device->pinned));
    for (int i = 0; i < CONVOY_CUDA_MAX_JOBS; i++)
        for (int k = 0; k < CONVOY_CUDA_MARKS; k++)
            if (device->marks[i][k] != NULL)
                (void)CONVOY_CUDA(&ignored, cudaEventDestroy, (device->marks[i][k]));
    convoy_cuda_gpu_close(&device->gpu);
    convoy_cuda_kernel_choices_free(&device->choices);
    convoy_cuda_cache_close(&device->cache);
    free(device);
}

int convoy_cuda_enter(struct convoy_device *device, struct convoy_error *error)
{
    return CONVOY_CUDA(error, cudaSetDevice, (device->gpu.index));
}

int convoy_cuda_attach(struct convoy_device *device, void *base, size_t bytes, struct convoy_error *error)
{
    int failed = CONVOY_CUDA(error, cudaHostRegister, (base, bytes, cudaHostRegisterDefault));
    if (failed)
        return convoy_fail_in(error, failed, "the channel's %zu bytes cannot be pinned", bytes);
    device->pinned = base;
    return 0;
}

/* On a thread of its own (backend.h's run_behind()) but for where load() waits for it. */
static void prepare_decoder(void *argument)
{
    struct convoy_device *device = argument;
    device->not_prepared = convoy_jpeg_decoder_prepare(device->decoder, &device->why);
}

/* Whether jobs of the network may be of JPEG files, where the decoder is prepared or cannot be. A network
 * that cannot be given files is served all the same. Only a lost device is an error. */
static int take_jpeg(struct convoy_device *device, struct convoy_net *net, int failed,
                     struct convoy_error *error)
{
    if (!failed)
        failed = convoy_jpeg_decoder_reserve(device->decoder, net->max_batch,
                                             net->input_stride[CONVOY_LAYOUT_U8_HWC], error);
    net->info.takes_jpeg = !failed;
    if (failed == -ENOTSUP || failed == -ENOMEM) {
        convoy_cuda_log(&device->gpu, failed == -ENOMEM ? "warning" : "info",
                        "model '%s': JPEG files are decoded by the processor: %s", net->name, error->message);
        failed = 0;
    }
    return failed ? -ENODEV : 0;
}

/* backend.h's done(): tells of the networks that waited. */
static int prepared(void *argument, struct convoy_error *error)
{
    struct convoy_device *device = argument;
    int failed = device->not_prepared;
    *error = device->why;
    device->preparing = false;
    if (failed && failed != -ENOTSUP && failed != -ENOMEM)
        return -ENODEV;
    failed = 0;
    for (struct convoy_net *net = device->nets; net != NULL && !failed; net = net->next) {
        if (!net->waits_for_decoder)
            continue;
        net->waits_for_decoder = false;
        *error = device->why;
        failed = take_jpeg(device, net, device->not_prepared, error);
        if (!failed && net->info.takes_jpeg && device->tuner.changed != NULL)
            device->tuner.changed(device->tuner.context, net, &net->info);
    }
    return failed;
}

/* A network that is loaded takes JPEG files, will when the decoder is prepared, or never does. The decoder is
 * prepared behind the first network that wants it, which is served meanwhile; first: it is waited for. */
static int prepare_jpeg(struct convoy_device *device, struct convoy_net *net, bool first,
                        struct convoy_error *error)
{
    const struct convoy_image_fitting *fitting = &net->fitting;
    if (device->decoder == NULL || fitting->kind == CONVOY_FITTING_NONE || !net->takes_u8 ||
        (fitting->channels != 1 && fitting->channels != 3))
        return 0;
    int failed = convoy_jpeg_decoder_reserve(device->decoder, net->max_batch,
                                             net->input_stride[CONVOY_LAYOUT_U8_HWC], error);
    if (failed == -EAGAIN && !first && device->gpu.run_behind != NULL) {
        net->waits_for_decoder = true;
        if (!device->preparing)
            device->gpu.run_behind(device->gpu.context, prepare_decoder, prepared, device);
        device->preparing = true;
        return 0;
    }
    if (failed == -EAGAIN)
        failed = convoy_jpeg_decoder_prepare(device->decoder, error);
    return take_jpeg(device, net, failed, error);
}

int convoy_cuda_load(struct convoy_device *device, const struct convoy_graph *graph,
                     const struct convoy_load_options *options, struct convoy_net **net,
                     struct convoy_net_info *info, struct convoy_error *error)
{
    int failed = convoy_cuda_net_load(&device->gpu, &device->choices, graph, options, net, info, error);
    if (!failed && (failed = prepare_jpeg(device, *net, options->decoder_first, error)) != 0)
        convoy_cuda_net_unload(&device->gpu, *net);
    if (failed)
        return failed;
    info->takes_jpeg = (*net)->info.takes_jpeg;
    struct convoy_net **link = &device->nets;
    while (*link != NULL)
        link = &(*link)->next;
    *link = *net;
    return 0;
}

void convoy_cuda_unload(struct convoy_device *device, struct convoy_net *net)
{
    if (net == NULL)
        return;
    convoy_cuda_tuner_forget(&device->tuner, net);
    struct convoy_net **link = &device->nets;
    while (*link != net)
        link = &(*link)->next;
    *link = net->next;
    convoy_cuda_net_unload(&device->gpu, net);
}

int convoy_cuda_idle(struct convoy_device *device, int64_t budget_us, struct convoy_error *error)
{
    if (device->tuner.mode == CONVOY_TUNING_OFF)
        return 0;
    if (device->flight_count + device->waiting_count > 0)
        return 1;
    return convoy_cuda_tuner_go_on(&device->tuner, device->nets, budget_us, error);
}

int convoy_cuda_verify(struct convoy_device *device, struct convoy_net *net, int64_t budget_us,
                       struct convoy_error *error)
{
    return convoy_cuda_net_verify(&device->gpu, net, budget_us, error);
}

int convoy_cuda_verify_decoder(struct convoy_device *device, struct convoy_error *error)
{
    return convoy_jpeg_decoder_check(device->decoder, error);
}

int convoy_cuda_memory(struct convoy_device *device, struct convoy_device_memory *memory,
                       struct convoy_error *error)
{
    size_t available = 0, total = 0;
    int failed = CONVOY_CUDA(error, cudaMemGetInfo, (&available, &total));
    *memory = (struct convoy_device_memory){.free = available, .total = total};
    for (const struct convoy_net *net = device->nets; net != NULL; net = net->next)
        memory->weights +=
            net->weights.bytes + (net->overflow.wide != NULL ? net->overflow.wide->weights.bytes : 0);
    for (const struct convoy_cuda_workspace *w = device->gpu.workspaces; w != NULL; w = w->next)
        memory->workspace += w->bytes * device->gpu.stream_count;
    memory->workspace += convoy_jpeg_decoder_memory(device->decoder);
    return failed;
}
