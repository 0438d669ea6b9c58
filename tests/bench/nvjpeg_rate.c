/* nvJPEG by itself: pictures a second that it decodes into planes on the device, with so many states, each a
 * thread with a stream.
 *   bench_nvjpeg_rate [--spin] BATCH SECONDS FILE.jpg...
 * --spin: threads that wait for the device do not sleep, as convoyd has them, but spin, as CUDA does by
 * itself. Prints a line for each output, backend and number of states: pictures a second; the processor time
 * of each, the mean time of a batch until the call has returned, and until the device is done, in
 * microseconds; and the memory that nvJPEG holds, on the device and pinned. tests/bench/jpeg.sh compares what
 * convoyd's backend makes of the same files with it. */
#include "engine/base/clock.h"
#include "engine/cuda/decode/nvjpeg.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define MOST_STATES 16
#define MOST_FILES  1024
#define MOST_TIMES  100000
#define WARM_UP     3 /* batches */

struct bench {
    struct convoy_nvjpeg nvjpeg;
    convoy_nvjpeg_handle handle;
    int batch, output, files;
    double seconds;
    unsigned char *bytes[MOST_FILES];
    size_t lengths[MOST_FILES];
    int width, height; /* the largest */
    pthread_barrier_t begin;
    _Atomic uint64_t pictures, device_bytes, pinned_bytes;
    _Atomic int failed;
};

struct thread {
    struct bench *bench;
    int number;
    pthread_t thread;
    uint64_t batches, called_us, done_us; /* sums */
};

static int allocate_device(void *context, void **memory, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    atomic_fetch_add(&((struct bench *)context)->device_bytes, bytes);
    return cudaMalloc(memory, bytes);
}

static int release_device(void *context, void *memory, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    atomic_fetch_sub(&((struct bench *)context)->device_bytes, bytes);
    return cudaFree(memory);
}

static int allocate_pinned(void *context, void **memory, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    atomic_fetch_add(&((struct bench *)context)->pinned_bytes, bytes);
    return cudaMallocHost(memory, bytes);
}

static int release_pinned(void *context, void *memory, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    atomic_fetch_sub(&((struct bench *)context)->pinned_bytes, bytes);
    return cudaFreeHost(memory);
}

/* 0, or what went wrong. */
static int decode(struct thread *thread, convoy_nvjpeg_state state, struct convoy_nvjpeg_image *images,
                  const unsigned char **data, size_t *lengths, cudaStream_t stream)
{
    struct bench *bench = thread->bench;
    for (int i = 0; i < bench->batch; i++) {
        int file = (int)((thread->batches * (uint64_t)bench->batch + (uint64_t)i + (uint64_t)thread->number) %
                         (uint64_t)bench->files);
        data[i] = bench->bytes[file];
        lengths[i] = bench->lengths[file];
    }
    uint64_t begun_us = convoy_now_us();
    int status = bench->nvjpeg.batch_decode(bench->handle, state, data, lengths, images, stream);
    uint64_t called_us = convoy_now_us();
    if (status == 0 && cudaStreamSynchronize(stream) != cudaSuccess)
        status = CONVOY_NVJPEG_EXECUTION_FAILED;
    thread->batches++;
    thread->called_us += called_us - begun_us;
    thread->done_us += convoy_now_us() - begun_us;
    return status;
}

static void *run(void *context)
{
    struct thread *thread = context;
    struct bench *bench = thread->bench;
    convoy_nvjpeg_state state = NULL;
    cudaStream_t stream = NULL;
    unsigned char *memory = NULL;
    size_t pitch = ((size_t)bench->width * 3 + 255) / 256 * 256, plane = pitch * (size_t)bench->height;
    struct convoy_nvjpeg_image *images = calloc((size_t)bench->batch, sizeof *images);
    const unsigned char **data = calloc((size_t)bench->batch, sizeof *data);
    size_t *lengths = calloc((size_t)bench->batch, sizeof *lengths);
    int status = images == NULL || data == NULL || lengths == NULL ||
                 cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess ||
                 cudaMalloc((void **)&memory, (size_t)bench->batch * plane) != cudaSuccess;
    /* Interleaved, or three planes of at most a third of each line. */
    for (int i = 0; i < bench->batch && !status; i++)
        for (size_t c = 0; c < 3; c++) {
            images[i].channel[c] = memory + (size_t)i * plane + c * pitch / 3;
            images[i].pitch[c] = pitch;
        }
    if (!status)
        status = bench->nvjpeg.state_create(bench->handle, &state);
    if (!status)
        status = bench->nvjpeg.batch_initialize(bench->handle, state, bench->batch, 1, bench->output);
    for (int i = 0; i < WARM_UP && !status; i++)
        status = decode(thread, state, images, data, lengths, stream);
    thread->batches = thread->called_us = thread->done_us = 0;
    pthread_barrier_wait(&bench->begin);
    uint64_t end_us = convoy_now_us() + (uint64_t)(bench->seconds * 1e6);
    while (!status && convoy_now_us() < end_us) {
        status = decode(thread, state, images, data, lengths, stream);
        atomic_fetch_add(&bench->pictures, (uint64_t)bench->batch);
    }
    if (status)
        atomic_store(&bench->failed, status);
    pthread_barrier_wait(&bench->begin);
    pthread_barrier_wait(&bench->begin); /* what nvJPEG holds has been read */
    if (state != NULL)
        bench->nvjpeg.state_destroy(state);
    if (memory != NULL)
        cudaFree(memory);
    if (stream != NULL)
        cudaStreamDestroy(stream);
    free(images);
    free(data);
    free(lengths);
    return NULL;
}

/* Of this process, in microseconds. */
static double processor_us(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void measure(struct bench *bench, const char *name, int states)
{
    static struct thread threads[MOST_STATES];
    memset(threads, 0, sizeof threads);
    pthread_barrier_init(&bench->begin, NULL, (unsigned)states + 1);
    atomic_store(&bench->pictures, 0);
    atomic_store(&bench->failed, 0);
    for (int i = 0; i < states; i++) {
        threads[i].bench = bench;
        threads[i].number = i;
        if (pthread_create(&threads[i].thread, NULL, run, &threads[i]) != 0)
            abort();
    }
    pthread_barrier_wait(&bench->begin);
    uint64_t begun_us = convoy_now_us();
    double own_us = processor_us();
    pthread_barrier_wait(&bench->begin);
    own_us = processor_us() - own_us;
    double seconds = (double)(convoy_now_us() - begun_us) / 1e6;
    double device_mib = (double)atomic_load(&bench->device_bytes) / 1048576;
    double pinned_mib = (double)atomic_load(&bench->pinned_bytes) / 1048576;
    pthread_barrier_wait(&bench->begin);
    uint64_t batches = 0, called_us = 0, done_us = 0;
    for (int i = 0; i < states; i++) {
        pthread_join(threads[i].thread, NULL);
        batches += threads[i].batches;
        called_us += threads[i].called_us;
        done_us += threads[i].done_us;
    }
    pthread_barrier_destroy(&bench->begin);
    if (atomic_load(&bench->failed) != 0)
        printf("%-22s %2d states: %s\n", name, states,
               convoy_nvjpeg_status_text(atomic_load(&bench->failed)));
    else if (batches > 0)
        printf("%-22s %2d states: %7.0f pictures/s, %5.0f us of processor time each, a batch returns after "
               "%6.0f us "
               "and ends after %6.0f us, nvJPEG holds %.0f MiB and %.0f MiB pinned\n",
               name, states, (double)atomic_load(&bench->pictures) / seconds,
               own_us / (double)atomic_load(&bench->pictures), (double)called_us / (double)batches,
               (double)done_us / (double)batches, device_mib, pinned_mib);
    fflush(stdout);
}

/* What it costs that batches are of different sizes: each change asks for an initialization. */
static void measure_changes(struct bench *bench, const char *name)
{
    struct thread thread = {.bench = bench};
    convoy_nvjpeg_state state = NULL;
    cudaStream_t stream = NULL;
    unsigned char *memory = NULL;
    size_t pitch = ((size_t)bench->width * 3 + 255) / 256 * 256, plane = pitch * (size_t)bench->height;
    struct convoy_nvjpeg_image *images = calloc((size_t)bench->batch, sizeof *images);
    const unsigned char **data = calloc((size_t)bench->batch, sizeof *data);
    size_t *lengths = calloc((size_t)bench->batch, sizeof *lengths);
    if (images == NULL || data == NULL || lengths == NULL ||
        cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess ||
        cudaMalloc((void **)&memory, (size_t)bench->batch * plane) != cudaSuccess ||
        bench->nvjpeg.state_create(bench->handle, &state) != 0)
        abort();
    for (int i = 0; i < bench->batch; i++)
        for (size_t c = 0; c < 3; c++) {
            images[i].channel[c] = memory + (size_t)i * plane + c * pitch / 3;
            images[i].pitch[c] = pitch;
        }
    const int whole = bench->batch;
    uint64_t initialize_us = 0;
    int status = 0, changes = 0;
    for (int size = whole; size >= 1 && status == 0; size -= 1 + size / 8, changes++) {
        uint64_t begun_us = convoy_now_us();
        status = bench->nvjpeg.batch_initialize(bench->handle, state, size, 1, bench->output);
        if (changes > 0)
            initialize_us += convoy_now_us() - begun_us;
        bench->batch = size;
        if (status == 0)
            status = decode(&thread, state, images, data, lengths, stream);
    }
    bench->batch = whole;
    if (status == 0)
        printf(
            "%-22s %d batches of falling size: each takes %llu us to initialize, returns after %llu us, ends "
            "after %llu us\n",
            name, changes, (unsigned long long)initialize_us / (unsigned long long)(changes - 1),
            (unsigned long long)thread.called_us / (unsigned long long)changes,
            (unsigned long long)thread.done_us / (unsigned long long)changes);
    bench->nvjpeg.state_destroy(state);
    cudaFree(memory);
    cudaStreamDestroy(stream);
    free(images);
    free(data);
    free(lengths);
}

static int read_files(struct bench *bench, char **paths, int count)
{
    bench->files = count < MOST_FILES ? count : MOST_FILES;
    for (int i = 0; i < bench->files; i++) {
        FILE *file = fopen(paths[i], "re");
        if (file == NULL || fseek(file, 0, SEEK_END) != 0)
            return -1;
        bench->lengths[i] = (size_t)ftell(file);
        rewind(file);
        bench->bytes[i] = malloc(bench->lengths[i] + 1);
        if (bench->bytes[i] == NULL ||
            fread(bench->bytes[i], 1, bench->lengths[i], file) != bench->lengths[i])
            return -1;
        fclose(file);
        int components, sampling, widths[4] = {0}, heights[4] = {0};
        if (bench->nvjpeg.get_image_info(bench->handle, bench->bytes[i], bench->lengths[i], &components,
                                         &sampling, widths, heights) != 0)
            return -1;
        bench->width = widths[0] > bench->width ? widths[0] : bench->width;
        bench->height = heights[0] > bench->height ? heights[0] : bench->height;
    }
    return 0;
}

static void say_engines(const struct bench *bench)
{
    unsigned engines = 0, cores = 0;
    int (*ask)(convoy_nvjpeg_handle, unsigned *, unsigned *) = NULL;
    void *symbol = dlsym(bench->nvjpeg.handle, "nvjpegGetHardwareDecoderInfo");
    memcpy((void *)&ask, (const void *)&symbol, sizeof symbol);
    if (ask != NULL && ask(bench->handle, &engines, &cores) == 0)
        printf("%u JPEG engines of %u cores\n", engines, cores);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int backend, output;
        bool spins; /* also for --spin */
        int states[5];
    } ways[] = {{"engines, YUV", CONVOY_NVJPEG_HARDWARE, CONVOY_NVJPEG_YUV, true, {1, 2, 3, 4}},
                {"engines, RGB", CONVOY_NVJPEG_HARDWARE, 5, false, {2}},
                {"kernels, YUV", CONVOY_NVJPEG_GPU_HYBRID, CONVOY_NVJPEG_YUV, false, {4}}};
    static struct bench bench;
    struct convoy_error error;
    bool spin = argc > 1 && strcmp(argv[1], "--spin") == 0;
    argc -= spin;
    argv += spin;
    if (argc < 4) {
        fputs("usage: bench_nvjpeg_rate [--spin] BATCH SECONDS FILE.jpg...\n", stderr);
        return 2;
    }
    bench.batch = (int)strtol(argv[1], NULL, 10);
    bench.seconds = strtod(argv[2], NULL);
    if (bench.batch < 1 || convoy_nvjpeg_open(&bench.nvjpeg, &error) != 0) {
        fprintf(stderr, "bench_nvjpeg_rate: %s\n",
                bench.batch < 1 ? "the batch is 1 at least" : error.message);
        return 1;
    }
    struct convoy_nvjpeg_device_allocator device = {allocate_device, release_device, &bench};
    struct convoy_nvjpeg_pinned_allocator pinned = {allocate_pinned, release_pinned, &bench};
    if (cudaInitDevice(0, spin ? cudaDeviceScheduleSpin : cudaDeviceScheduleBlockingSync,
                       cudaInitDeviceFlagsAreValid) != cudaSuccess) {
        fputs("bench_nvjpeg_rate: there is no GPU\n", stderr);
        return 1;
    }
    for (size_t way = 0; way < sizeof ways / sizeof ways[0]; way++) {
        if (spin && !ways[way].spins)
            continue;
        int status = bench.nvjpeg.create(ways[way].backend, &device, &pinned, 0, &bench.handle);
        if (status != 0) {
            printf("%-22s %s\n", ways[way].name, convoy_nvjpeg_status_text(status));
            continue;
        }
        bench.output = ways[way].output;
        if (bench.files == 0 && read_files(&bench, argv + 3, argc - 3) != 0) {
            fputs("bench_nvjpeg_rate: a file cannot be read\n", stderr);
            return 1;
        }
        if (way == 0 && !spin)
            say_engines(&bench);
        for (const int *states = ways[way].states; *states > 0; states++)
            measure(&bench, ways[way].name, *states);
        if (bench.batch > 1 && ways[way].spins && !spin)
            measure_changes(&bench, ways[way].name);
        bench.nvjpeg.destroy(bench.handle);
    }
    return 0;
}
