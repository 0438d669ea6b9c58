/* A device that takes JPEG files, as the front sees it: with the null backend, which computes nothing. */
#include "tests/faults/faults.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

static uint32_t sum_of(const uint8_t *bytes, size_t length)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < length; i++)
        sum += bytes[i];
    return sum;
}

/* A row that is not what engine/base/jpeg_row.h says ends the worker, so that the test sees it. */
static const uint8_t *file_of(const struct convoy_job *job, uint32_t row, uint32_t *length)
{
    size_t at = (size_t)row * CONVOY_JPEG_ROW_BYTES;
    struct convoy_jpeg_row header;
    if (job->input_stride != CONVOY_JPEG_ROW_BYTES || at + sizeof header > job->input_bytes)
        return NULL;
    memcpy(&header, (const uint8_t *)job->input + at, sizeof header);
    const uint8_t *file = (const uint8_t *)job->input + at + header.offset;
    *length = header.length;
    if (!convoy_jpeg_row_valid(&header, job->input_bytes - at) || header.length < 4 || file[0] != 0xFF ||
        file[1] != 0xD8 || file[header.length - 2] != 0xFF || file[header.length - 1] != 0xD9)
        return NULL;
    return file;
}

int fault_files(const struct convoy_backend *backend, uint32_t undecoded, uint32_t deadly, uint32_t outputs,
                struct convoy_device *device, struct convoy_net *net, const struct convoy_job *job,
                struct convoy_error *error)
{
    struct convoy_job pixels = *job;
    pixels.layout = CONVOY_LAYOUT_U8_HWC;
    uint64_t pixels_of_all = 0;
    for (uint32_t row = 0; row < job->rows; row++) {
        uint32_t length;
        const uint8_t *file = file_of(job, row, &length);
        if (file == NULL || job->rows > CONVOY_JPEG_ROWS_MAX)
            return convoy_fail(error, -EIO, "a test: row %u of a slot of files is none", row);
        const struct convoy_jpeg_row *header =
            (const void *)((const uint8_t *)job->input + (size_t)row * CONVOY_JPEG_ROW_BYTES);
        pixels_of_all += (uint64_t)header->width * header->height;
        if (deadly > 0 && sum_of(file, length) % deadly == 1)
            raise(SIGKILL);
    }
    if (pixels_of_all > CONVOY_JPEG_SLOT_PIXELS && job->rows > 1)
        return convoy_fail(error, -EIO, "a test: the files of a slot have too many pixels");
    int failed = backend->submit(device, net, &pixels, error); /* writes all outputs */
    memset(job->times->undecoded, 0, sizeof job->times->undecoded);
    for (uint32_t row = 0; row < job->rows && failed == 0; row++) {
        float *output = (float *)(void *)((char *)job->output + row * job->output_stride);
        uint32_t length;
        const uint8_t *file = file_of(job, row, &length);
        uint32_t sum = sum_of(file, length);
        for (uint32_t i = 0; i < outputs; i++)
            output[i] = i == sum % outputs ? 100 : 0; /* a softmax makes 1 of it */
        if (undecoded > 0 && sum % undecoded == 0) {
            job->times->undecoded[row / 64] |= UINT64_C(1) << (row % 64);
            memset(output, 0xFF, outputs * sizeof *output); /* says nothing */
        }
    }
    return failed;
}
