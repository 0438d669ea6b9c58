/* Jobs of JPEG files between the compute thread and those that decode, for the thread sanitizer: the decoder
 * is prepared on a thread of its own while the compute thread asks for it, each job's rows are of its own
 * files and whole until they were taken, each state takes part in a check, and rooms grow while jobs are
 * under way. The device, nvJPEG and the kernel are stand-ins of a few lines: what is decoded is the width
 * that a file's header says. */
#include "engine/cuda/decode/jpeg_decoder.h"
#include "engine/base/clock.h"
#include "engine/cuda/decode/jpeg_file.h"
#include "engine/cuda/decode/jpeg_known.h"
#include "engine/cuda/decode/jpeg_probe.h"
#include "engine/cuda/decode/nvjpeg.h"
#include "kernels/fit_images.h"
#include "tests/threads/check.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#define JOBS   3000
#define FLIGHT 11 /* more than there are rooms */
#define ROWS   3
#define WAIT_S 60
#define CHECKS 500

/* ---- A device whose memory is the host's, and whose streams are done at once ---- */

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    *memory = malloc(bytes);
    return *memory != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}
/* What this thread waited for last was a network that reads rows (an event for which no thread sleeps). */
static _Thread_local bool waited, is_main;
cudaError_t cudaFree(void *memory)
{
    CHECK(is_main || waited); /* a state's thread frees nothing but rows that became larger */
    free(memory);
    return cudaSuccess;
}
cudaError_t cudaMallocHost(void **memory, size_t bytes)
{
    return cudaMalloc(memory, bytes);
}
cudaError_t cudaFreeHost(void *memory)
{
    free(memory);
    return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    *available = *total = 0;
    return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    (void)kind;
    (void)stream;
    memcpy(to, from, bytes);
    return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    (void)flags;
    (void)priority;
    *stream = NULL;
    return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    *event = (cudaEvent_t)(uintptr_t)flags;
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)stream;
    (void)event;
    (void)flags;
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    (void)event;
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    (void)event;
    (void)stream;
    return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    waited = event == (cudaEvent_t)(uintptr_t)cudaEventDisableTiming;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int device)
{
    return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}
cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}
const char *cudaGetErrorString(cudaError_t error)
{
    (void)error;
    return "an error";
}
const char *cudaGetErrorName(cudaError_t error)
{
    return cudaGetErrorString(error);
}

/* Writes each picture's width all over its row. */
cudaError_t convoy_launch_fit_images(const struct convoy_fit_job *job, cudaStream_t stream)
{
    (void)stream;
    for (int i = 0; i < job->rows; i++)
        memset(job->images + i * job->image_bytes, job->pictures[i].width, (size_t)job->image_bytes);
    return cudaSuccess;
}

cudaError_t convoy_launch_mark_planes(uint8_t *planes, int64_t bytes, cudaStream_t stream)
{
    (void)bytes;
    (void)stream;
    planes[0] = 0;
    return cudaSuccess;
}

cudaError_t convoy_launch_check_planes(const struct convoy_fit_picture *pictures, int rows,
                                       uint32_t *unwritten, cudaStream_t stream)
{
    (void)stream;
    for (int i = 0; i < rows; i++)
        unwritten[i] = pictures[i].planes[0][0] != 1;
    return cudaSuccess;
}

void convoy_cuda_log(const struct convoy_cuda_gpu *gpu, const char *level, const char *format, ...)
{
    (void)gpu;
    (void)level;
    (void)format;
}

/* ---- nvJPEG ---- */

static int get_property(int which, int *value)
{
    *value = which;
    return 0;
}
static int create(int backend, struct convoy_nvjpeg_device_allocator *device,
                  struct convoy_nvjpeg_pinned_allocator *pinned, unsigned flags, convoy_nvjpeg_handle *handle)
{
    (void)backend;
    (void)device;
    (void)pinned;
    *handle = (convoy_nvjpeg_handle)(void *)handle;
    return (int)flags;
}
static int destroy(convoy_nvjpeg_handle handle)
{
    (void)handle;
    return 0;
}
static struct state {
    int batch; /* a state is one thread's */
    atomic_int decoded;
} states[CONVOY_JPEG_STATES];
static int state_count;

static int state_create(convoy_nvjpeg_handle handle, convoy_nvjpeg_state *state)
{
    CHECK(state_count < CONVOY_JPEG_STATES);
    *state = (convoy_nvjpeg_state)(void *)&states[state_count++];
    return handle != NULL ? 0 : CONVOY_NVJPEG_ALLOCATOR_FAILURE;
}
static int state_destroy(convoy_nvjpeg_state state)
{
    return state != NULL ? 0 : CONVOY_NVJPEG_INVALID_PARAMETER;
}
static int get_image_info(convoy_nvjpeg_handle handle, const unsigned char *data, size_t length,
                          int *components, int *sampling, int *widths, int *heights)
{
    struct convoy_jpeg_file file;
    (void)handle;
    CHECK(convoy_jpeg_file_read(data, length, &file));
    *components = (int)file.components;
    *sampling = 0;
    widths[0] = (int)file.width;
    heights[0] = (int)file.height;
    return 0;
}
static int batch_initialize(convoy_nvjpeg_handle handle, convoy_nvjpeg_state state, int batch, int threads,
                            int output)
{
    (void)handle;
    (void)output;
    ((struct state *)(void *)state)->batch = batch;
    return threads == 1 ? 0 : CONVOY_NVJPEG_INVALID_PARAMETER;
}
static int batch_decode(convoy_nvjpeg_handle handle, convoy_nvjpeg_state state,
                        const unsigned char *const *data, const size_t *lengths,
                        struct convoy_nvjpeg_image *images, cudaStream_t stream)
{
    (void)handle;
    (void)data;
    (void)lengths;
    (void)stream;
    struct state *own = (struct state *)(void *)state;
    for (int i = 0; i < own->batch; i++)
        images[i].channel[0][0] = 1;
    atomic_fetch_add(&own->decoded, 1);
    return 0;
}

int convoy_nvjpeg_open(struct convoy_nvjpeg *nvjpeg, struct convoy_error *error)
{
    (void)error;
    *nvjpeg = (struct convoy_nvjpeg){.get_property = get_property,
                                     .create = create,
                                     .destroy = destroy,
                                     .state_create = state_create,
                                     .state_destroy = state_destroy,
                                     .get_image_info = get_image_info,
                                     .batch_initialize = batch_initialize,
                                     .batch_decode = batch_decode};
    return 0;
}
void convoy_nvjpeg_close(struct convoy_nvjpeg *nvjpeg)
{
    (void)nvjpeg;
}
const char *convoy_nvjpeg_status_text(int status)
{
    (void)status;
    return "a status";
}
int convoy_jpeg_probe(const struct convoy_jpeg_probe *probe, bool *takes_grey, struct convoy_error *error)
{
    (void)probe;
    (void)error;
    *takes_grey = true;
    return 0;
}

/* ---- The known file: a row is as wide as KNOWN_WIDTH ---- */

#define KNOWN_WIDTH 7
static uint8_t *make_job(int first, size_t *bytes);
static int compared;

const struct convoy_image_fitting convoy_jpeg_known_fitting = {
    .kind = CONVOY_FITTING_STRETCH, .width = 4, .height = 4, .channels = 1};

void convoy_jpeg_known_fill(uint8_t input[CONVOY_JPEG_KNOWN_INPUT])
{
    size_t bytes;
    uint8_t *job = make_job(KNOWN_WIDTH, &bytes);
    struct convoy_jpeg_row row = *(struct convoy_jpeg_row *)(void *)job;
    CHECK(sizeof(row) + row.length <= CONVOY_JPEG_KNOWN_INPUT);
    memcpy(input + sizeof(row), job + row.offset, row.length);
    row.offset = sizeof(row);
    memcpy(input, &row, sizeof(row));
    free(job);
}
bool convoy_jpeg_known_agrees(const uint8_t row[CONVOY_JPEG_KNOWN_BYTES], struct convoy_error *error)
{
    (void)error;
    for (size_t i = 0; i < CONVOY_JPEG_KNOWN_BYTES; i++)
        CHECK(row[i] == KNOWN_WIDTH);
    compared++;
    return true;
}

/* ---- The compute thread ---- */

/* Files of 1 to FLIGHT x ROWS pixels in width, laid out as a job's rows. */
static uint8_t *make_job(int first, size_t *bytes)
{
    uint8_t *files[ROWS], *memory;
    unsigned long lengths[ROWS];
    *bytes = ROWS * CONVOY_JPEG_ROW_BYTES;
    for (int i = 0; i < ROWS; i++) {
        struct jpeg_compress_struct encoder;
        struct jpeg_error_mgr errors;
        files[i] = NULL;
        encoder.err = jpeg_std_error(&errors);
        jpeg_create_compress(&encoder);
        jpeg_mem_dest(&encoder, &files[i], &lengths[i]);
        encoder.image_width = (JDIMENSION)(first + i);
        encoder.image_height = 1;
        encoder.input_components = 1;
        encoder.in_color_space = JCS_GRAYSCALE;
        jpeg_set_defaults(&encoder);
        jpeg_start_compress(&encoder, TRUE);
        uint8_t line[FLIGHT * ROWS + 1] = {0};
        JSAMPROW row = line;
        jpeg_write_scanlines(&encoder, &row, 1);
        jpeg_finish_compress(&encoder);
        jpeg_destroy_compress(&encoder);
        *bytes += (lengths[i] + 63) / 64 * 64;
    }
    CHECK((memory = calloc(1, *bytes)) != NULL);
    size_t at = ROWS * CONVOY_JPEG_ROW_BYTES;
    for (int i = 0; i < ROWS; i++) {
        *((struct convoy_jpeg_row *)(void *)memory + i) =
            (struct convoy_jpeg_row){.length = (uint32_t)lengths[i],
                                     .offset = (uint32_t)(at - (size_t)i * CONVOY_JPEG_ROW_BYTES),
                                     .width = (uint16_t)(first + i),
                                     .height = 1,
                                     .orientation = 1,
                                     .components = 1};
        memcpy(memory + at, files[i], lengths[i]);
        at += (lengths[i] + 63) / 64 * 64;
        free(files[i]);
    }
    return memory;
}

struct preparing {
    struct convoy_jpeg_decoder *decoder;
    atomic_bool ended;
};

static void *prepare(void *context)
{
    struct preparing *preparing = context;
    struct convoy_error error;
    CHECK(convoy_jpeg_decoder_prepare(preparing->decoder, &error) == 0);
    atomic_store(&preparing->ended, true);
    return NULL;
}

/* While it is prepared the compute thread loads networks of larger and larger rows, and asks what there is.
 */
static void prepare_behind(struct convoy_jpeg_decoder *decoder, size_t image_bytes)
{
    struct preparing preparing = {.decoder = decoder};
    struct convoy_error error;
    pthread_t thread;
    CHECK(convoy_jpeg_decoder_reserve(decoder, ROWS, 1, &error) == -EAGAIN);
    CHECK(convoy_jpeg_decoder_check(decoder, &error) == 0 && convoy_jpeg_decoder_memory(decoder) == 0);
    CHECK(pthread_create(&thread, NULL, prepare, &preparing) == 0);
    size_t bytes = 1;
    uint64_t end_us = convoy_now_us() + WAIT_S * UINT64_C(1000000);
    while (!atomic_load_explicit(&preparing.ended, memory_order_relaxed)) {
        int failed = convoy_jpeg_decoder_reserve(decoder, ROWS, bytes, &error);
        CHECK(convoy_now_us() < end_us);
        CHECK(failed == 0 || failed == -EAGAIN);
        bytes += bytes < image_bytes;
        (void)convoy_jpeg_decoder_memory(decoder);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(convoy_jpeg_decoder_prepare(decoder, &error) == 0); /* nothing is left to do */
    CHECK(convoy_jpeg_decoder_check(decoder, &error) == 1);
}

int main(void)
{
    static struct convoy_cuda_gpu gpu;
    static struct convoy_jpeg_task tasks[FLIGHT];
    struct convoy_image_fitting fitting = {
        .kind = CONVOY_FITTING_STRETCH, .width = 4, .height = 4, .channels = 1};
    struct convoy_error error;
    uint8_t *memory[FLIGHT];
    size_t bytes[FLIGHT], image_bytes = 64;
    bool busy[FLIGHT] = {false};
    is_main = true;
    struct convoy_jpeg_decoder *decoder = convoy_jpeg_decoder_open(&gpu, &error);
    CHECK(decoder != NULL);
    for (int i = 0; i < FLIGHT; i++)
        memory[i] = make_job(1 + i * ROWS, &bytes[i]);
    prepare_behind(decoder, image_bytes);
    CHECK(convoy_jpeg_decoder_reserve(decoder, ROWS, image_bytes, &error) == 0);
    uint64_t end_us = convoy_now_us() + WAIT_S * UINT64_C(1000000);
    int begun = 0, ended = 0;
    while (ended < JOBS) {
        CHECK(convoy_now_us() < end_us);
        for (int i = 0; i < FLIGHT; i++) {
            struct convoy_jpeg_task *task = &tasks[i];
            if (!busy[i] && begun < JOBS) {
                task->input = memory[i];
                task->input_bytes = bytes[i];
                task->rows = ROWS;
                task->fitting = &fitting;
                task->image_bytes = image_bytes;
                convoy_jpeg_decoder_submit(decoder, task);
                busy[i] = true;
                begun++;
            }
            if (!busy[i] || !convoy_jpeg_task_ended(task))
                continue;
            CHECK(task->code == 0 && task->undecoded[0] == 0);
            for (int row = 0; row < ROWS; row++)
                for (size_t at = 0; at < task->image_bytes; at++)
                    CHECK(task->images[(size_t)row * task->image_bytes + at] == 1 + i * ROWS + row);
            CHECK(convoy_jpeg_decoder_release(decoder, task, NULL, &error) == 0);
            busy[i] = false;
            ended++;
            if (ended % 500 == 0) {
                image_bytes += 64;
                CHECK(convoy_jpeg_decoder_reserve(decoder, ROWS, image_bytes, &error) == 0);
                CHECK(convoy_jpeg_decoder_memory(decoder) > 0);
            }
        }
    }
    compared = 0;
    for (int i = 0; i < CONVOY_JPEG_STATES; i++)
        atomic_store(&states[i].decoded, 0);
    for (int i = 1; i <= CHECKS; i++) {
        CHECK(convoy_jpeg_decoder_check(decoder, &error) == 1);
        CHECK(compared == i * CONVOY_JPEG_STATES);
        for (int k = 0; k < CONVOY_JPEG_STATES; k++)
            CHECK(atomic_load(&states[k].decoded) == i);
    }
    convoy_jpeg_decoder_close(decoder);
    for (int i = 0; i < FLIGHT; i++)
        free(memory[i]);
    puts("passed");
    return 0;
}
