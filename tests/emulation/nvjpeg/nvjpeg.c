/* A stand-in for libnvjpeg.so.13 on the emulated GPU: decodes with libjpeg-turbo, gives the samples of each
 * component as they are coded (README.md). As the real one with its engines, it reads the files and writes
 * the planes during the call, whatever waits in the stream.
 *
 * Faults. A file that libjpeg finds damaged fails its batch. A comment in a file asks for more:
 *     nvjpeg:refuse    its batch is not supported
 *     nvjpeg:fail      its batch fails to execute
 *     nvjpeg:lose      the device is lost when the stream comes to its batch
 *     nvjpeg:skip      it is passed over, and nothing says so
 *     nvjpeg:half      the same of its lower half
 *     nvjpeg:size      nvjpegGetImageInfo() says that it is a pixel wider
 * CONVOY_EMULATED_NVJPEG=fail: every batch fails; no-engines: there is no hardware backend; no-grey: batches
 * with grey files are not supported; none: no backend
 * at all; other: pixels are not those of the file; memory: the library asks for more memory than it may have;
 * flat: of each block of 8 x 8 its first pixel; second: the second state of a handle gives such pixels;
 * later:FILE: so do all, in the process whose number is in FILE, or in any where FILE says "all"; hold:FILE:
 * a handle is not made until FILE is there, and a minute at most; where FILE says "none" there is no backend,
 * and "crash" ends the process.
 */
#include "engine/cuda/decode/nvjpeg_abi.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jpeglib.h>

#define EXPORTED __attribute__((visibility("default")))

/* tests/emulation/emulation.cc */
int convoy_emulated_put(cudaStream_t stream, int (*work)(void *context), void *context);

struct convoy_nvjpeg_opaque_handle {
    struct convoy_nvjpeg_device_allocator device;
    int states; /* that were made */
};

struct convoy_nvjpeg_opaque_state {
    convoy_nvjpeg_handle handle;
    int number;        /* of its handle's states */
    int batch, output; /* batch 0: not initialized, as after a batch that failed */
    void *memory;      /* as the real library keeps some */
};

#define HOLD_US    5000
#define HOLD_TRIES (60 * 1000 * 1000 / HOLD_US)

#define MEMORY_BYTES   ((size_t)1 << 20)
#define TOO_MANY_BYTES (((size_t)1 << 30) + 1) /* the emulated GPU has them */

/* The planes of one picture on their way to the device. */
struct plane {
    uint8_t *samples;
    int width, height, stride;
    unsigned char *to;
    size_t pitch;
};
struct batch {
    bool lose;
    int count;
    struct plane planes[];
};

static bool wishes(const char *wish)
{
    const char *wishes = getenv("CONVOY_EMULATED_NVJPEG");
    return wishes != NULL && strcmp(wishes, wish) == 0;
}

/* Whether the file of "later:FILE" says so of this process. */
static bool is_meant(void)
{
    const char *wish = getenv("CONVOY_EMULATED_NVJPEG");
    char text[16] = "";
    FILE *file = wish != NULL && strncmp(wish, "later:", 6) == 0 ? fopen(wish + 6, "r") : NULL;
    if (file == NULL)
        return false;
    bool read = fgets(text, sizeof text, file) != NULL;
    fclose(file);
    return read && (strncmp(text, "all", 3) == 0 || strtol(text, NULL, 10) == getpid());
}

/* What "hold:FILE" says; false: there is no backend. */
static bool held(void)
{
    const char *wish = getenv("CONVOY_EMULATED_NVJPEG");
    char text[16] = "";
    FILE *file = NULL;
    if (wish == NULL || strncmp(wish, "hold:", 5) != 0)
        return true;
    for (int i = 0; i < HOLD_TRIES && (file = fopen(wish + 5, "r")) == NULL; i++)
        usleep(HOLD_US);
    if (file == NULL)
        return false;
    bool says = fgets(text, sizeof text, file) != NULL;
    fclose(file);
    if (says && strncmp(text, "crash", 5) == 0)
        abort();
    return !says || strncmp(text, "none", 4) != 0;
}

/* Is there a comment of that text before the first scan? */
static bool asks_for(const unsigned char *data, size_t length, const char *text)
{
    size_t at = 2, wanted = strlen(text);
    while (at + 4 <= length && data[at] == 0xff && data[at + 1] != 0xda) {
        size_t segment = (size_t)data[at + 2] << 8 | data[at + 3];
        if (data[at + 1] == 0xfe && segment >= 2 + wanted && at + 2 + segment <= length &&
            memcmp(data + at + 4, text, wanted) == 0)
            return true;
        at += 2 + segment;
    }
    return false;
}

struct errors {
    struct jpeg_error_mgr base;
    jmp_buf jump;
};

static void on_error(j_common_ptr decoder)
{
    longjmp(((struct errors *)(void *)decoder->err)->jump, 1);
}

/* A warning: the file is damaged. */
static void on_message(j_common_ptr decoder, int level)
{
    if (level < 0)
        on_error(decoder);
}

static void begin(struct jpeg_decompress_struct *decoder, struct errors *errors, const unsigned char *data,
                  size_t length)
{
    jpeg_create_decompress(decoder);
    jpeg_mem_src(decoder, data, length);
    jpeg_read_header(decoder, TRUE);
    (void)errors;
}

static void prepare(struct jpeg_decompress_struct *decoder, struct errors *errors)
{
    memset(decoder, 0, sizeof *decoder);
    decoder->err = jpeg_std_error(&errors->base);
    errors->base.error_exit = on_error;
    errors->base.emit_message = on_message;
}

static int divided_up(int value, int by)
{
    return (value + by - 1) / by;
}

/* Decodes one file into planes of its components. */
static int decode(const unsigned char *data, size_t length, const struct convoy_nvjpeg_image *image,
                  struct plane *planes, int *count)
{
    struct jpeg_decompress_struct decoder;
    struct errors errors;
    prepare(&decoder, &errors);
    if (setjmp(errors.jump) != 0) {
        jpeg_destroy_decompress(&decoder);
        return CONVOY_NVJPEG_BAD_JPEG;
    }
    begin(&decoder, &errors, data, length);
    decoder.raw_data_out = TRUE;
    decoder.out_color_space = decoder.jpeg_color_space;
    jpeg_start_decompress(&decoder);
    JSAMPROW rows[3][16];
    JSAMPARRAY arrays[3] = {rows[0], rows[1], rows[2]};
    for (int c = 0; c < decoder.num_components; c++) {
        const jpeg_component_info *component = &decoder.comp_info[c];
        struct plane *plane = &planes[(*count)++];
        plane->width =
            divided_up((int)decoder.image_width * component->h_samp_factor, decoder.max_h_samp_factor);
        plane->height =
            divided_up((int)decoder.image_height * component->v_samp_factor, decoder.max_v_samp_factor);
        plane->stride = (int)component->width_in_blocks * DCTSIZE + 16;
        if (asks_for(data, length, "nvjpeg:half"))
            plane->height /= 2;
        if (asks_for(data, length, "nvjpeg:skip"))
            plane->height = 0;
        plane->to = image->channel[c];
        plane->pitch = image->pitch[c];
        size_t lines = (size_t)component->height_in_blocks * DCTSIZE + 16;
        plane->samples = malloc((size_t)plane->stride * lines);
        if (plane->samples == NULL)
            abort();
    }
    const struct plane *own = &planes[*count - decoder.num_components];
    while (decoder.output_scanline < decoder.output_height) {
        int group = (int)decoder.output_scanline / (decoder.max_v_samp_factor * DCTSIZE);
        for (int c = 0; c < decoder.num_components; c++) {
            int lines = decoder.comp_info[c].v_samp_factor * DCTSIZE;
            for (int i = 0; i < lines; i++)
                rows[c][i] = own[c].samples + (size_t)(group * lines + i) * (size_t)own[c].stride;
        }
        jpeg_read_raw_data(&decoder, arrays, (JDIMENSION)(decoder.max_v_samp_factor * DCTSIZE));
    }
    jpeg_finish_decompress(&decoder);
    jpeg_destroy_decompress(&decoder);
    return CONVOY_NVJPEG_SUCCESS;
}

static void free_batch(struct batch *batch)
{
    for (int i = 0; i < batch->count; i++)
        free(batch->planes[i].samples);
    free(batch);
}

static void write_planes(const struct batch *batch)
{
    for (int i = 0; i < batch->count && !batch->lose; i++) {
        const struct plane *plane = &batch->planes[i];
        for (int y = 0; y < plane->height; y++)
            memcpy(plane->to + (size_t)y * plane->pitch, plane->samples + (size_t)y * (size_t)plane->stride,
                   (size_t)plane->width);
    }
}

/* What the stream does. */
static int end_batch(void *context)
{
    struct batch *batch = context;
    int error = batch->lose ? cudaErrorIllegalAddress : cudaSuccess;
    free_batch(batch);
    return error;
}

EXPORTED int nvjpegGetProperty(int which, int *value)
{
    static const int version[] = {13, 0, 1};
    *value = version[which];
    return CONVOY_NVJPEG_SUCCESS;
}

EXPORTED int nvjpegCreateExV2(int backend, struct convoy_nvjpeg_device_allocator *device,
                              struct convoy_nvjpeg_pinned_allocator *pinned, unsigned flags,
                              convoy_nvjpeg_handle *handle)
{
    if (!held() || wishes("none") || flags != 0 || device == NULL || pinned == NULL)
        return CONVOY_NVJPEG_IMPLEMENTATION_NOT_SUPPORTED;
    if (wishes("no-engines") && backend == CONVOY_NVJPEG_HARDWARE)
        return CONVOY_NVJPEG_ARCH_MISMATCH;
    *handle = malloc(sizeof **handle);
    if (*handle == NULL)
        return CONVOY_NVJPEG_ALLOCATOR_FAILURE;
    (*handle)->device = *device;
    (*handle)->states = 0;
    return CONVOY_NVJPEG_SUCCESS;
}

EXPORTED int nvjpegDestroy(convoy_nvjpeg_handle handle)
{
    free(handle);
    return CONVOY_NVJPEG_SUCCESS;
}

EXPORTED int nvjpegJpegStateCreate(convoy_nvjpeg_handle handle, convoy_nvjpeg_state *state)
{
    *state = calloc(1, sizeof **state);
    if (*state == NULL)
        return CONVOY_NVJPEG_ALLOCATOR_FAILURE;
    (*state)->handle = handle;
    (*state)->number = handle->states++;
    return CONVOY_NVJPEG_SUCCESS;
}

EXPORTED int nvjpegJpegStateDestroy(convoy_nvjpeg_state state)
{
    const struct convoy_nvjpeg_device_allocator *device = &state->handle->device;
    if (state->memory != NULL)
        device->release(device->context, state->memory, MEMORY_BYTES, NULL);
    free(state);
    return CONVOY_NVJPEG_SUCCESS;
}

#ifndef STAND_IN_LACKS /* a library of another age */
EXPORTED int nvjpegGetImageInfo(convoy_nvjpeg_handle handle, const unsigned char *data, size_t length,
                                int *components, int *sampling, int *widths, int *heights)
{
    struct jpeg_decompress_struct decoder;
    struct errors errors;
    (void)handle;
    prepare(&decoder, &errors);
    if (setjmp(errors.jump) != 0) {
        jpeg_destroy_decompress(&decoder);
        return CONVOY_NVJPEG_BAD_JPEG;
    }
    begin(&decoder, &errors, data, length);
    *components = decoder.num_components;
    *sampling = -1;
    int factors[2] = {1, 1};
    for (int c = 0; c < decoder.num_components; c++) {
        const jpeg_component_info *component = &decoder.comp_info[c];
        factors[0] = component->h_samp_factor > factors[0] ? component->h_samp_factor : factors[0];
        factors[1] = component->v_samp_factor > factors[1] ? component->v_samp_factor : factors[1];
    }
    for (int c = 0; c < decoder.num_components; c++) {
        const jpeg_component_info *component = &decoder.comp_info[c];
        widths[c] = divided_up((int)decoder.image_width * component->h_samp_factor, factors[0]) +
                    (c == 0 && asks_for(data, length, "nvjpeg:size"));
        heights[c] = divided_up((int)decoder.image_height * component->v_samp_factor, factors[1]);
    }
    jpeg_destroy_decompress(&decoder);
    return CONVOY_NVJPEG_SUCCESS;
}
#endif

EXPORTED int nvjpegDecodeBatchedInitialize(convoy_nvjpeg_handle handle, convoy_nvjpeg_state state, int batch,
                                           int threads, int output)
{
    const struct convoy_nvjpeg_device_allocator *device = &handle->device;
    if (batch < 1 || threads < 1 || (output != CONVOY_NVJPEG_YUV && output != CONVOY_NVJPEG_UNCHANGED))
        return CONVOY_NVJPEG_INVALID_PARAMETER;
    if (state->memory == NULL &&
        device->allocate(device->context, &state->memory, wishes("memory") ? TOO_MANY_BYTES : MEMORY_BYTES,
                         NULL) != 0) {
        state->memory = NULL;
        return CONVOY_NVJPEG_ALLOCATOR_FAILURE;
    }
    state->batch = batch;
    state->output = output;
    return CONVOY_NVJPEG_SUCCESS;
}

/* Of each block its first sample. */
static void flatten(const struct batch *batch)
{
    for (int i = 0; i < batch->count; i++) {
        const struct plane *plane = &batch->planes[i];
        for (int y = 0; y < plane->height; y++)
            for (int x = 0; x < plane->width; x++)
                plane->samples[(size_t)y * (size_t)plane->stride + (size_t)x] =
                    plane->samples[(size_t)(y - y % 8) * (size_t)plane->stride + (size_t)(x - x % 8)];
    }
}

EXPORTED int nvjpegDecodeBatched(convoy_nvjpeg_handle handle, convoy_nvjpeg_state state,
                                 const unsigned char *const *data, const size_t *lengths,
                                 struct convoy_nvjpeg_image *images, cudaStream_t stream)
{
    (void)handle;
    int count = state->batch, status = CONVOY_NVJPEG_SUCCESS;
    if (count == 0)
        return CONVOY_NVJPEG_NOT_INITIALIZED;
    struct batch *batch = calloc(1, sizeof *batch + 3 * (size_t)count * sizeof batch->planes[0]);
    if (batch == NULL)
        abort();
    for (int i = 0; i < count && status == CONVOY_NVJPEG_SUCCESS; i++) {
        if (asks_for(data[i], lengths[i], "nvjpeg:refuse"))
            status = CONVOY_NVJPEG_NOT_SUPPORTED;
        else if (asks_for(data[i], lengths[i], "nvjpeg:fail") || wishes("fail"))
            status = CONVOY_NVJPEG_EXECUTION_FAILED;
        else
            status = decode(data[i], lengths[i], &images[i], batch->planes, &batch->count);
        batch->lose = batch->lose || asks_for(data[i], lengths[i], "nvjpeg:lose");
    }
    if (wishes("no-grey") && batch->count < 3 * count)
        status = CONVOY_NVJPEG_NOT_SUPPORTED;
    if (wishes("other") && batch->count > 0)
        batch->planes[0].samples[0] ^= 0x80;
    if (wishes("flat") || (wishes("second") && state->number == 1) || is_meant())
        flatten(batch);
    if (status != CONVOY_NVJPEG_SUCCESS) {
        state->batch = 0;
        free_batch(batch);
        return status;
    }
    write_planes(batch);
    if (convoy_emulated_put(stream, end_batch, batch) == 0)
        return CONVOY_NVJPEG_SUCCESS;
    free_batch(batch);
    return CONVOY_NVJPEG_EXECUTION_FAILED;
}
