#include "engine/cuda/decode/jpeg_state.h"

#include "engine/base/clock.h"
#include "engine/cuda/decode/jpeg_file.h"
#include "engine/cuda/runtime/calls.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define PLANE_ALIGN 256 /* bytes, of a plane */
#define LINE_ALIGN  128 /* of its lines */
/* The driver takes the greatest that it has. A network's kernels fill the chip one behind the other, and the
 * decoder's wait for the one that runs. Beside resnet50 on an H200 the wait for marked planes was 180 us, and
 * is 110 by priority. */
#define PRIORITY INT_MIN

static size_t rounded(size_t bytes, size_t to)
{
    return (bytes + to - 1) / to * to;
}

int convoy_jpeg_state_make(struct convoy_jpeg_state *state, const struct convoy_jpeg_library *library,
                           struct convoy_error *error)
{
    const size_t bytes = CONVOY_JPEG_ROWS_MAX * sizeof(struct convoy_fit_picture);
    const size_t words = CONVOY_JPEG_ROWS_MAX * sizeof(uint32_t);
    state->library = library;
    int failed = CONVOY_CUDA_BESIDE(error, cudaStreamCreateWithPriority,
                                    (&state->stream, cudaStreamNonBlocking, PRIORITY));
    if (!failed)
        failed = CONVOY_CUDA_BESIDE(error, cudaEventCreateWithFlags,
                                    (&state->done, cudaEventBlockingSync | cudaEventDisableTiming));
    if (!failed)
        failed = CONVOY_CUDA_BESIDE(error, cudaMalloc, ((void **)&state->planes, CONVOY_JPEG_PLANES_BYTES));
    if (!failed)
        failed = CONVOY_CUDA_BESIDE(error, cudaMallocHost, ((void **)&state->pictures, bytes));
    if (!failed)
        failed = CONVOY_CUDA_BESIDE(error, cudaMalloc, ((void **)&state->device_pictures, bytes));
    if (!failed)
        failed = CONVOY_CUDA_BESIDE(error, cudaMallocHost, ((void **)&state->unwritten, words));
    if (!failed)
        failed = CONVOY_CUDA_BESIDE(error, cudaMalloc, ((void **)&state->device_unwritten, words));
    if (!failed)
        failed = convoy_jpeg_tables_make(&state->tables, error);
    if (failed)
        return failed;
    int status = library->nvjpeg.state_create(library->handle, &state->nvjpeg);
    if (status != CONVOY_NVJPEG_SUCCESS) {
        state->nvjpeg = NULL;
        return convoy_fail(error, -ENOTSUP, "nvjpegJpegStateCreate: %s", convoy_nvjpeg_status_text(status));
    }
    return 0;
}

void convoy_jpeg_state_free(struct convoy_jpeg_state *state)
{
    struct convoy_error ignored;
    if (state->nvjpeg != NULL)
        (void)state->library->nvjpeg.state_destroy(state->nvjpeg);
    convoy_jpeg_tables_free(&state->tables);
    if (state->pictures != NULL)
        (void)CONVOY_CUDA_BESIDE(&ignored, cudaFreeHost, (state->pictures));
    if (state->unwritten != NULL)
        (void)CONVOY_CUDA_BESIDE(&ignored, cudaFreeHost, (state->unwritten));
    void *const memory[] = {state->planes, state->device_pictures, state->device_unwritten};
    for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
        if (memory[i] != NULL)
            (void)CONVOY_CUDA_BESIDE(&ignored, cudaFree, (memory[i]));
    if (state->done != NULL)
        (void)CONVOY_CUDA_BESIDE(&ignored, cudaEventDestroy, (state->done));
    if (state->stream != NULL)
        (void)CONVOY_CUDA_BESIDE(&ignored, cudaStreamDestroy, (state->stream));
    memset(state, 0, sizeof(*state));
}

/* Is the file what its header says, in the eyes of nvJPEG, too? */
static bool agrees(const struct convoy_jpeg_library *library, const struct convoy_jpeg_row *row,
                   const uint8_t *bytes, const struct convoy_jpeg_file *file)
{
    int components = 0, sampling = 0;
    int widths[CONVOY_NVJPEG_COMPONENTS] = {0}, heights[CONVOY_NVJPEG_COMPONENTS] = {0};
    if ((file->components == 1 && !library->takes_grey) || file->width != row->width ||
        file->height != row->height || file->components != row->components ||
        library->nvjpeg.get_image_info(library->handle, bytes, file->length, &components, &sampling, widths,
                                       heights) != CONVOY_NVJPEG_SUCCESS ||
        (uint32_t)components != file->components || (uint32_t)widths[0] != file->width ||
        (uint32_t)heights[0] != file->height)
        return false;
    int width = (int)((file->width + file->half_x) >> file->half_x);
    int height = (int)((file->height + file->half_y) >> file->half_y);
    for (int i = 1; i < components; i++)
        if (widths[i] != width || heights[i] != height)
            return false;
    return true;
}

/* How a row is begun. */
enum begun { READY, UNDECODABLE, NO_ROOM };

/* Finds room for the planes of a file: what it would take, and where they would lie. */
static enum begun place_planes(struct convoy_jpeg_state *state, const struct convoy_jpeg_file *file,
                               struct convoy_fit_picture *picture, struct convoy_nvjpeg_image *image)
{
    size_t used = state->planes_used;
    picture->chroma_width = (int32_t)((file->width + file->half_x) >> file->half_x);
    picture->chroma_height = (int32_t)((file->height + file->half_y) >> file->half_y);
    memset(image, 0, sizeof(*image));
    for (uint32_t i = 0; i < file->components; i++) {
        size_t pitch = rounded(i == 0 ? file->width : (uint32_t)picture->chroma_width, LINE_ALIGN);
        image->channel[i] = state->planes + used;
        image->pitch[i] = pitch;
        picture->planes[i] = image->channel[i];
        picture->pitch[i] = (int32_t)pitch;
        used += rounded(pitch * (i == 0 ? file->height : (uint32_t)picture->chroma_height), PLANE_ALIGN);
    }
    if (used - state->planes_used > CONVOY_JPEG_PLANES_BYTES)
        return UNDECODABLE;
    if (used > CONVOY_JPEG_PLANES_BYTES)
        return NO_ROOM;
    state->planes_used = used;
    return READY;
}

/* The tables of both axes. */
static enum begun place_tables(struct convoy_jpeg_state *state, const struct convoy_image_fitting *fitting,
                               const struct convoy_jpeg_row *row, struct convoy_fit_picture *picture)
{
    struct convoy_resampling resampling;
    bool turned = row->orientation >= 5;
    convoy_resampling_choose(fitting, turned ? row->height : row->width, turned ? row->width : row->height,
                             &resampling);
    const struct convoy_axis *const axes[2] = {&resampling.x, &resampling.y};
    const struct convoy_jpeg_table *found[2] = {NULL, NULL};
    size_t numbers = 0;
    for (int i = 0; i < 2; i++) {
        size_t taps = convoy_resampling_taps(axes[i]);
        numbers += (size_t)axes[i]->out * (2 + taps);
        bool first = (i == 1) == resampling.rows_first;
        if (taps == 0 || numbers > CONVOY_JPEG_TABLES_NUMBERS ||
            (first && convoy_resampling_span(axes[i], taps, CONVOY_FIT_TILE) > CONVOY_FIT_SPAN))
            return UNDECODABLE;
        found[i] = convoy_jpeg_tables_get(&state->tables, axes[i], taps);
    }
    if (found[0] == NULL || found[1] == NULL)
        return NO_ROOM;
    picture->rows_first = resampling.rows_first;
    picture->x = (struct convoy_fit_axis){state->tables.device + found[0]->at, (int32_t)found[0]->taps,
                                          resampling.x.out, resampling.left};
    picture->y = (struct convoy_fit_axis){state->tables.device + found[1]->at, (int32_t)found[1]->taps,
                                          resampling.y.out, resampling.top};
    return READY;
}

/* Checks a row and adds it to the round. */
static enum begun begin_row(struct convoy_jpeg_state *state, const struct convoy_jpeg_task *task,
                            uint32_t number)
{
    size_t at = (size_t)number * CONVOY_JPEG_ROW_BYTES;
    const uint8_t *place = (const uint8_t *)task->input + at;
    struct convoy_jpeg_row row = {0};
    struct convoy_fit_picture *picture = &state->pictures[number];
    struct convoy_jpeg_files *files = &state->files;
    struct convoy_jpeg_file file;
    *picture = (struct convoy_fit_picture){.form = CONVOY_FIT_MISSING};
    /* A copy: it lies in memory that another process can write. */
    if (at + sizeof(row) <= task->input_bytes)
        memcpy(&row, place, sizeof(row));
    if (!convoy_jpeg_row_valid(&row, task->input_bytes - at) ||
        !convoy_jpeg_file_read(place + row.offset, row.length, &file) ||
        !agrees(state->library, &row, place + row.offset, &file))
        return UNDECODABLE;
    size_t used = state->planes_used;
    enum begun begun = place_planes(state, &file, picture, &files->images[files->count]);
    if (begun == READY)
        begun = place_tables(state, task->fitting, &row, picture);
    if (begun != READY) {
        state->planes_used = used;
        return begun;
    }
    picture->form = file.components == 1 ? CONVOY_FIT_GREY : CONVOY_FIT_YCC;
    picture->width = row.width;
    picture->height = row.height;
    picture->half_x = (int32_t)file.half_x;
    picture->half_y = (int32_t)file.half_y;
    picture->orientation = row.orientation;
    files->data[files->count] = place + row.offset;
    files->lengths[files->count] = file.length;
    files->rows[files->count++] = number;
    return READY;
}

static void give_up_row(struct convoy_jpeg_state *state, struct convoy_jpeg_task *task, uint32_t row)
{
    state->pictures[row].form = CONVOY_FIT_MISSING;
    task->undecoded[row / 64] |= (uint64_t)1 << row % 64;
}

/* Decodes files of the round; of a batch that fails each half, down to the files that are to blame. */
static int decode(struct convoy_jpeg_state *state, struct convoy_jpeg_task *task, uint32_t first,
                  uint32_t count, struct convoy_error *error)
{
    const struct convoy_jpeg_library *library = state->library;
    struct convoy_jpeg_files *files = &state->files;
    int status = CONVOY_NVJPEG_SUCCESS;
    if (count == 0)
        return 0;
    if (state->batch != count)
        status =
            library->nvjpeg.batch_initialize(library->handle, state->nvjpeg, (int)count, 1, library->output);
    state->batch = count;
    if (status == CONVOY_NVJPEG_SUCCESS)
        status = library->nvjpeg.batch_decode(library->handle, state->nvjpeg, files->data + first,
                                              files->lengths + first, files->images + first, state->stream);
    if (status == CONVOY_NVJPEG_SUCCESS)
        return 0;
    state->batch = 0;
    /* What the files are to blame for leaves the device as it was. */
    int failed = CONVOY_CUDA_BESIDE(error, cudaStreamSynchronize, (state->stream));
    if (failed)
        return convoy_fail_in(error, failed, "nvjpegDecodeBatched (%s)", convoy_nvjpeg_status_text(status));
    if (count == 1) {
        give_up_row(state, task, files->rows[first]);
        return 0;
    }
    failed = decode(state, task, first, count / 2, error);
    return failed ? failed : decode(state, task, first + count / 2, count - count / 2, error);
}

static struct convoy_fit_job fit_job(const struct convoy_jpeg_state *state,
                                     const struct convoy_jpeg_task *task, uint32_t first, uint32_t rows)
{
    const struct convoy_image_fitting *fitting = task->fitting;
    const uint8_t *rgb = fitting->color;
    struct convoy_fit_job job = {.pictures = state->device_pictures + first,
                                 .unwritten = state->device_unwritten + first,
                                 .rows = (int)rows,
                                 .images = task->room->images + first * task->image_bytes,
                                 .image_bytes = (int64_t)task->image_bytes,
                                 .width = (int)fitting->width,
                                 .height = (int)fitting->height,
                                 .channels = (int)fitting->channels,
                                 .bgr = fitting->bgr};
    for (int c = 0; c < 3; c++)
        job.color[c] = rgb[fitting->bgr ? 2 - c : c];
    if (fitting->channels == 1)
        job.color[0] = (uint8_t)((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 32768u) >> 16);
    return job;
}

static int launched(cudaError_t code, const char *kernel, struct convoy_error *error)
{
    convoy_cuda_count_beside(CONVOY_CUDA_cudaLaunchKernelExC);
    return convoy_cuda_check(code, kernel, error);
}

/* The thread sleeps meanwhile. */
static int wait_for_stream(const struct convoy_jpeg_state *state, struct convoy_error *error)
{
    int failed = CONVOY_CUDA_BESIDE(error, cudaEventRecord, (state->done, state->stream));
    return failed ? failed : CONVOY_CUDA_BESIDE(error, cudaEventSynchronize, (state->done));
}

/* Makes rows from `first` on, as many as there is room for; *next is the first that is left. */
static int run_round(struct convoy_jpeg_state *state, struct convoy_jpeg_task *task, uint32_t first,
                     uint32_t *next, struct convoy_error *error)
{
    enum begun begun = READY;
    state->planes_used = 0;
    state->files.count = 0;
    for (*next = first; *next < task->rows; ++*next) {
        begun = begin_row(state, task, *next);
        if (begun == NO_ROOM)
            break;
        if (begun == UNDECODABLE)
            give_up_row(state, task, *next);
    }
    uint32_t rows = *next - first;
    int failed = 0;
    if (begun == NO_ROOM && rows == 0) {
        /* Its planes have room, so it is the tables that are full, of what other jobs needed. */
        failed = CONVOY_CUDA_BESIDE(error, cudaStreamSynchronize, (state->stream));
        convoy_jpeg_tables_forget(&state->tables);
        return failed;
    }
    /* What a decoder leaves out is this, never another picture. The engines write when they are asked,
     * whatever waits in the stream: without waiting here they wrote planes before these were marked, and
     * while the round before was read. On an H100 beside resnet50 7 % of the files came back to the front so,
     * a job of two rounds hung, and 256 clients had 12,700 pictures a second in place of 14,800. */
    if (state->planes_used > 0)
        failed =
            launched(convoy_launch_mark_planes(state->planes, (int64_t)state->planes_used, state->stream),
                     "mark_planes", error);
    if (!failed)
        failed = wait_for_stream(state, error);
    if (!failed)
        failed = decode(state, task, 0, state->files.count, error);
    if (!failed)
        failed = convoy_jpeg_tables_upload(&state->tables, state->stream, error);
    if (!failed)
        failed = CONVOY_CUDA_BESIDE(error, cudaMemcpyAsync,
                                    (state->device_pictures + first, state->pictures + first,
                                     rows * sizeof(*state->pictures), cudaMemcpyHostToDevice, state->stream));
    if (!failed)
        failed = launched(convoy_launch_check_planes(state->device_pictures + first, (int)rows,
                                                     state->device_unwritten + first, state->stream),
                          "check_planes", error);
    if (!failed)
        failed = convoy_jpeg_room_wait(task->room, state->stream, error);
    if (failed)
        return failed;
    const struct convoy_fit_job job = fit_job(state, task, first, rows);
    return launched(convoy_launch_fit_images(&job, state->stream), "fit_images", error);
}

/* Waits for the job, and tells the files that were passed over. */
static int end_job(struct convoy_jpeg_state *state, struct convoy_jpeg_task *task, struct convoy_error *error)
{
    int failed =
        CONVOY_CUDA_BESIDE(error, cudaMemcpyAsync,
                           (state->unwritten, state->device_unwritten, task->rows * sizeof(*state->unwritten),
                            cudaMemcpyDeviceToHost, state->stream));
    if (!failed)
        failed = wait_for_stream(state, error);
    for (uint32_t row = 0; row < task->rows && !failed; row++)
        if (state->unwritten[row] != 0)
            give_up_row(state, task, row);
    return failed;
}

int convoy_jpeg_state_run(struct convoy_jpeg_state *state, struct convoy_jpeg_task *task,
                          struct convoy_error *error)
{
    uint64_t begun_us = convoy_now_us();
    int failed = 0;
    memset(task->undecoded, 0, sizeof(task->undecoded));
    failed = convoy_jpeg_room_begin(task->room, error);
    task->images = task->room->images;
    for (uint32_t first = 0; first < task->rows && !failed;)
        failed = run_round(state, task, first, &first, error);
    if (!failed)
        failed = end_job(state, task, error);
    task->decode_us = (float)(convoy_now_us() - begun_us);
    return failed;
}
