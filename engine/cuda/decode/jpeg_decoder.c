#include "engine/cuda/decode/jpeg_decoder.h"

#include "engine/base/clock.h"
#include "engine/cuda/decode/jpeg_known.h"
#include "engine/cuda/decode/jpeg_memory.h"
#include "engine/cuda/decode/jpeg_probe.h"
#include "engine/cuda/decode/jpeg_state.h"
#include "engine/cuda/runtime/calls.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Of rows, for each task; networks of larger ones take pixels. */
#define ROWS_BYTES ((size_t)256 << 20)
#define FEW_ROOMS  4
/* Of rows, in all rooms: where they would be more, there are FEW_ROOMS. Tests are compiled with less. */
#ifndef CONVOY_JPEG_ROOMS_BYTES
#define CONVOY_JPEG_ROOMS_BYTES (FEW_ROOMS * ROWS_BYTES)
#endif

enum stage { UNPREPARED, PREPARED, REFUSED };

struct worker {
    struct convoy_jpeg_decoder *decoder;
    struct convoy_jpeg_state state;
    pthread_t thread;
    bool runs;    /* the thread is there */
    bool checked; /* it has taken a task of the check that is under way */
};

struct convoy_jpeg_decoder {
    const struct convoy_cuda_gpu *gpu;
    struct convoy_jpeg_library library;
    pthread_mutex_t preparing; /* held by prepare(); the states are that thread's until they are prepared */
    atomic_int stage;          /* enum stage */
    struct convoy_error why;   /* REFUSED: what was found; written before */
    _Atomic size_t wanted;     /* bytes of a room, so far; the compute thread's to change */
    struct convoy_jpeg_memory memory;
    pthread_mutex_t lock; /* of what follows, and of each worker's `checked` */
    pthread_cond_t changed;
    pthread_cond_t ended;                   /* a task that wakes has */
    struct convoy_jpeg_task *first, **last; /* that wait */
    bool closing, checking;                 /* checking: each state takes one task */
    uint64_t released;                      /* tasks */
    struct convoy_jpeg_room rooms[CONVOY_JPEG_ROOMS];
    struct worker workers[CONVOY_JPEG_STATES];
};

struct convoy_jpeg_decoder *convoy_jpeg_decoder_open(const struct convoy_cuda_gpu *gpu,
                                                     struct convoy_error *error)
{
    struct convoy_jpeg_decoder *decoder = calloc(1, sizeof(*decoder));
    int failed = decoder == NULL ? convoy_fail(error, -ENOMEM, "out of memory")
                                 : convoy_nvjpeg_open(&decoder->library.nvjpeg, error);
    if (failed) {
        free(decoder);
        return NULL;
    }
    decoder->gpu = gpu;
    convoy_jpeg_memory_init(&decoder->memory);
    decoder->last = &decoder->first;
    pthread_mutex_init(&decoder->preparing, NULL);
    pthread_mutex_init(&decoder->lock, NULL);
    pthread_cond_init(&decoder->changed, NULL);
    pthread_cond_init(&decoder->ended, NULL);
    return decoder;
}

static void stop_threads(struct convoy_jpeg_decoder *decoder)
{
    pthread_mutex_lock(&decoder->lock);
    decoder->closing = true;
    pthread_cond_broadcast(&decoder->changed);
    pthread_mutex_unlock(&decoder->lock);
    for (int i = 0; i < CONVOY_JPEG_STATES; i++)
        if (decoder->workers[i].runs)
            pthread_join(decoder->workers[i].thread, NULL);
}

/* What was prepared. */
static void free_states(struct convoy_jpeg_decoder *decoder)
{
    stop_threads(decoder);
    for (int i = 0; i < CONVOY_JPEG_STATES; i++)
        convoy_jpeg_state_free(&decoder->workers[i].state);
    memset(decoder->workers, 0, sizeof(decoder->workers));
    for (int i = 0; i < CONVOY_JPEG_ROOMS; i++)
        convoy_jpeg_room_free(&decoder->rooms[i]);
    if (decoder->library.handle != NULL)
        (void)decoder->library.nvjpeg.destroy(decoder->library.handle);
    decoder->library.handle = NULL;
    decoder->closing = false;
}

void convoy_jpeg_decoder_close(struct convoy_jpeg_decoder *decoder)
{
    if (decoder == NULL)
        return;
    free_states(decoder);
    convoy_nvjpeg_close(&decoder->library.nvjpeg);
    pthread_cond_destroy(&decoder->ended);
    pthread_cond_destroy(&decoder->changed);
    pthread_mutex_destroy(&decoder->lock);
    pthread_mutex_destroy(&decoder->preparing);
    free(decoder);
}

/* The room that was released first of those that the task's rows fit; NULL: there is none yet. */
static struct convoy_jpeg_room *free_room(struct convoy_jpeg_decoder *decoder,
                                          const struct convoy_jpeg_task *task)
{
    struct convoy_jpeg_room *first = NULL;
    for (struct convoy_jpeg_room *at = decoder->rooms; at < decoder->rooms + CONVOY_JPEG_ROOMS; at++)
        if (!at->held && at->bytes >= task->rows * task->image_bytes &&
            (first == NULL || at->released < first->released))
            first = at;
    return first;
}

/* Waits for a task and a room for it; NULL when the decoder is closed. */
static struct convoy_jpeg_task *next_task(struct worker *worker)
{
    struct convoy_jpeg_decoder *decoder = worker->decoder;
    struct convoy_jpeg_room *room = NULL;
    pthread_mutex_lock(&decoder->lock);
    while (!decoder->closing && ((decoder->checking && worker->checked) || decoder->first == NULL ||
                                 (room = free_room(decoder, decoder->first)) == NULL))
        pthread_cond_wait(&decoder->changed, &decoder->lock);
    struct convoy_jpeg_task *task = decoder->closing ? NULL : decoder->first;
    if (task != NULL) {
        decoder->first = task->next;
        if (decoder->first == NULL)
            decoder->last = &decoder->first;
        worker->checked = decoder->checking;
        task->room = room;
        convoy_jpeg_room_take(room);
    }
    pthread_mutex_unlock(&decoder->lock);
    return task;
}

static void *run_tasks(void *context)
{
    struct worker *worker = context;
    struct convoy_jpeg_decoder *decoder = worker->decoder;
    struct convoy_error error = {0};
    int failed = CONVOY_CUDA_BESIDE(&error, cudaSetDevice, (decoder->gpu->index));
    struct convoy_jpeg_task *task;
    while ((task = next_task(worker)) != NULL) {
        task->code = failed;
        task->error = error;
        if (!failed)
            task->code = convoy_jpeg_state_run(&worker->state, task, &task->error);
        bool wakes = task->wakes; /* from then on it may be gone */
        atomic_store_explicit(&task->ended, true, memory_order_release);
        if (!wakes)
            continue;
        pthread_mutex_lock(&decoder->lock);
        pthread_cond_broadcast(&decoder->ended);
        pthread_mutex_unlock(&decoder->lock);
    }
    return NULL;
}

static int probe(struct convoy_jpeg_decoder *decoder, struct convoy_error *error)
{
    struct convoy_jpeg_library *library = &decoder->library;
    const struct convoy_jpeg_state *state = &decoder->workers[0].state;
    const struct convoy_jpeg_probe probe = {.nvjpeg = &library->nvjpeg,
                                            .handle = library->handle,
                                            .state = state->nvjpeg,
                                            .output = library->output,
                                            .memory = state->planes,
                                            .stream = state->stream};
    int failed = convoy_jpeg_probe(&probe, &library->takes_grey, error);
    if (!failed && !library->takes_grey)
        convoy_cuda_log(decoder->gpu, "info", "grey JPEG files are decoded by the processor: %s",
                        error->message);
    return failed;
}

/* Tries one way of decoding with the first state. */
static int try_library(struct convoy_jpeg_decoder *decoder, int backend, int output,
                       struct convoy_error *error)
{
    struct convoy_jpeg_library *library = &decoder->library;
    struct convoy_jpeg_state *state = &decoder->workers[0].state;
    library->output = output;
    int status = library->nvjpeg.create(backend, &decoder->memory.device, &decoder->memory.pinned, 0,
                                        &library->handle);
    if (status != CONVOY_NVJPEG_SUCCESS) {
        library->handle = NULL;
        return convoy_fail(error, -ENOTSUP, "nvjpegCreateExV2: %s", convoy_nvjpeg_status_text(status));
    }
    int failed = convoy_jpeg_state_make(state, library, error);
    if (!failed)
        failed = probe(decoder, error);
    state->batch = 0; /* the probe's was another one */
    if (failed)
        free_states(decoder);
    return failed;
}

static void say_what(const struct convoy_jpeg_decoder *decoder, const char *what)
{
    int version[3] = {0};
    for (int i = 0; i < 3; i++)
        (void)decoder->library.nvjpeg.get_property(i, &version[i]);
    convoy_cuda_log(decoder->gpu, "info", "JPEG files are decoded by %s (nvJPEG %d.%d.%d)", what, version[0],
                    version[1], version[2]);
}

/* Makes the library ready in the best way that works here. */
static int find_way(struct convoy_jpeg_decoder *decoder, struct convoy_error *error)
{
    static const struct {
        int backend, output;
        const char *name;
    } ways[] = {{CONVOY_NVJPEG_HARDWARE, CONVOY_NVJPEG_YUV, "the GPU's JPEG engines"},
                {CONVOY_NVJPEG_HARDWARE, CONVOY_NVJPEG_UNCHANGED, "the GPU's JPEG engines"},
                {CONVOY_NVJPEG_GPU_HYBRID, CONVOY_NVJPEG_YUV, "nvJPEG's kernels"},
                {CONVOY_NVJPEG_GPU_HYBRID, CONVOY_NVJPEG_UNCHANGED, "nvJPEG's kernels"}};
    int failed = -ENOTSUP;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]) && failed == -ENOTSUP; i++) {
        failed = try_library(decoder, ways[i].backend, ways[i].output, error);
        if (failed == 0)
            say_what(decoder, ways[i].name);
        else if (failed == -ENOTSUP)
            convoy_cuda_log(decoder->gpu, "debug", "JPEG files cannot be decoded by %s: %s", ways[i].name,
                            error->message);
    }
    return failed;
}

static int start_threads(struct convoy_jpeg_decoder *decoder, struct convoy_error *error)
{
    int failed = 0;
    for (int i = 0; i < CONVOY_JPEG_ROOMS && !failed; i++)
        failed = convoy_jpeg_room_make(&decoder->rooms[i], error);
    for (int i = 0; i < CONVOY_JPEG_STATES && !failed; i++) {
        struct worker *worker = &decoder->workers[i];
        worker->decoder = decoder;
        if (i > 0) /* the first one is there */
            failed = convoy_jpeg_state_make(&worker->state, &decoder->library, error);
        if (!failed && (failed = -pthread_create(&worker->thread, NULL, run_tasks, worker)) != 0)
            failed = convoy_fail(error, -ENOTSUP, "no thread can be made: %s", strerror(-failed));
        worker->runs = !failed;
    }
    return failed;
}

static int reserve_rooms(struct convoy_jpeg_decoder *decoder, int first, int end, size_t bytes,
                         struct convoy_error *error)
{
    int failed = 0;
    pthread_mutex_lock(&decoder->lock);
    for (int i = first; i < end && !failed; i++)
        failed = convoy_jpeg_room_reserve(&decoder->rooms[i], bytes, error);
    pthread_mutex_unlock(&decoder->lock);
    return failed;
}

/* Those above one for each state are for speed: it goes without them, too. */
static int reserve_more_rooms(struct convoy_jpeg_decoder *decoder, size_t bytes, struct convoy_error *error)
{
    bool many = bytes * CONVOY_JPEG_ROOMS <= CONVOY_JPEG_ROOMS_BYTES;
    int failed =
        reserve_rooms(decoder, CONVOY_JPEG_STATES, many ? CONVOY_JPEG_ROOMS : FEW_ROOMS, bytes, error);
    return failed == -ENOMEM ? 0 : failed;
}

int convoy_jpeg_decoder_reserve(struct convoy_jpeg_decoder *decoder, uint32_t rows, size_t image_bytes,
                                struct convoy_error *error)
{
    if (rows > CONVOY_JPEG_ROWS_MAX)
        rows = CONVOY_JPEG_ROWS_MAX;
    if (image_bytes > ROWS_BYTES / rows)
        return convoy_fail(error, -ENOTSUP, "%u rows of %zu bytes are more than %zu MiB", rows, image_bytes,
                           ROWS_BYTES >> 20);
    size_t bytes = rows * image_bytes;
    if (bytes > atomic_load(&decoder->wanted))
        atomic_store(&decoder->wanted, bytes);
    switch (atomic_load(&decoder->stage)) {
    case UNPREPARED:
        return convoy_fail(error, -EAGAIN, "the decoder is not prepared yet");
    case REFUSED:
        *error = decoder->why;
        return -ENOTSUP;
    default:
        break;
    }
    int failed = reserve_rooms(decoder, 0, CONVOY_JPEG_STATES, bytes, error);
    return failed ? failed : reserve_more_rooms(decoder, bytes, error);
}

uint64_t convoy_jpeg_decoder_memory(const struct convoy_jpeg_decoder *decoder)
{
    if (decoder == NULL || atomic_load(&decoder->stage) != PREPARED)
        return 0;
    uint64_t bytes = atomic_load(&decoder->memory.device_bytes);
    for (int i = 0; i < CONVOY_JPEG_ROOMS; i++)
        bytes += decoder->rooms[i].bytes;
    for (int i = 0; i < CONVOY_JPEG_STATES; i++)
        bytes += CONVOY_JPEG_PLANES_BYTES + CONVOY_JPEG_TABLES_NUMBERS * sizeof(int32_t);
    return bytes;
}

void convoy_jpeg_decoder_submit(struct convoy_jpeg_decoder *decoder, struct convoy_jpeg_task *task)
{
    task->next = NULL;
    task->code = 0;
    atomic_store_explicit(&task->ended, false, memory_order_relaxed);
    pthread_mutex_lock(&decoder->lock);
    *decoder->last = task;
    decoder->last = &task->next;
    pthread_cond_broadcast(&decoder->changed);
    pthread_mutex_unlock(&decoder->lock);
}

bool convoy_jpeg_task_ended(const struct convoy_jpeg_task *task)
{
    return atomic_load_explicit(&task->ended, memory_order_acquire);
}

/* The room is another task's, behind the event. */
static void give_back(struct convoy_jpeg_decoder *decoder, struct convoy_jpeg_room *room)
{
    room->was_taken = true;
    pthread_mutex_lock(&decoder->lock);
    room->held = false;
    room->released = ++decoder->released;
    pthread_cond_broadcast(&decoder->changed);
    pthread_mutex_unlock(&decoder->lock);
}

int convoy_jpeg_decoder_release(struct convoy_jpeg_decoder *decoder, struct convoy_jpeg_task *task,
                                cudaStream_t stream, struct convoy_error *error)
{
    struct convoy_jpeg_room *room = task->room;
    int failed = CONVOY_CUDA(error, cudaEventRecord, (room->taken, stream));
    if (failed)
        return failed;
    give_back(decoder, room);
    return 0;
}

void convoy_jpeg_decoder_wait(struct convoy_jpeg_decoder *decoder, const struct convoy_jpeg_task *task)
{
    pthread_mutex_lock(&decoder->lock);
    while (!convoy_jpeg_task_ended(task))
        pthread_cond_wait(&decoder->ended, &decoder->lock);
    pthread_mutex_unlock(&decoder->lock);
}

/* Copies the row of a task that has ended, and releases it. In a stream of the decoder's own: it may be
 * prepared while networks run in the others. */
static int take_known(struct convoy_jpeg_decoder *decoder, struct convoy_jpeg_task *task, uint8_t *row,
                      struct convoy_error *error)
{
    cudaStream_t stream = decoder->workers[0].state.stream;
    struct convoy_jpeg_room *room = task->room;
    int failed = CONVOY_CUDA_BESIDE(
        error, cudaMemcpyAsync, (row, task->images, CONVOY_JPEG_KNOWN_BYTES, cudaMemcpyDeviceToHost, stream));
    if (!failed)
        failed = CONVOY_CUDA_BESIDE(error, cudaEventRecord, (room->taken, stream));
    if (!failed)
        failed = CONVOY_CUDA_BESIDE(error, cudaEventSynchronize, (room->taken));
    if (!failed)
        give_back(decoder, room);
    return failed;
}

/* While it is checking, each state takes one task. */
static void set_checking(struct convoy_jpeg_decoder *decoder, bool checking)
{
    pthread_mutex_lock(&decoder->lock);
    decoder->checking = checking;
    for (int i = 0; i < CONVOY_JPEG_STATES; i++)
        decoder->workers[i].checked = false;
    pthread_mutex_unlock(&decoder->lock);
}

/* As convoy_jpeg_decoder_check(), of states that need not be prepared yet. */
static int check(struct convoy_jpeg_decoder *decoder, struct convoy_error *error)
{
    uint8_t input[CONVOY_JPEG_KNOWN_INPUT], row[CONVOY_JPEG_KNOWN_BYTES];
    struct convoy_jpeg_task tasks[CONVOY_JPEG_STATES];
    bool undecoded = false;
    int result = 1;
    convoy_jpeg_known_fill(input);
    set_checking(decoder, true);
    for (int i = 0; i < CONVOY_JPEG_STATES; i++) {
        tasks[i] = (struct convoy_jpeg_task){.input = input,
                                             .input_bytes = sizeof(input),
                                             .rows = 1,
                                             .fitting = &convoy_jpeg_known_fitting,
                                             .image_bytes = sizeof(row),
                                             .wakes = true};
        convoy_jpeg_decoder_submit(decoder, &tasks[i]);
    }
    for (int i = 0; i < CONVOY_JPEG_STATES; i++)
        convoy_jpeg_decoder_wait(decoder, &tasks[i]);
    set_checking(decoder, false);
    for (int i = 0; i < CONVOY_JPEG_STATES; i++) {
        if (tasks[i].code != 0) {
            *error = tasks[i].error;
            return tasks[i].code;
        }
        struct convoy_error what;
        int failed = take_known(decoder, &tasks[i], row, &what);
        if (failed) {
            *error = what;
            return failed;
        }
        undecoded |= (tasks[i].undecoded[0] & 1) != 0;
        if ((tasks[i].undecoded[0] & 1) == 0 && result == 1 && !convoy_jpeg_known_agrees(row, error))
            result = -EBADMSG;
    }
    return result == 1 && undecoded ? 0 : result;
}

int convoy_jpeg_decoder_check(struct convoy_jpeg_decoder *decoder, struct convoy_error *error)
{
    return decoder != NULL && atomic_load(&decoder->stage) == PREPARED ? check(decoder, error) : 0;
}

/* Does each state decode rightly? 0, or that it is of no use. */
static int check_first(struct convoy_jpeg_decoder *decoder, struct convoy_error *error)
{
    int right = check(decoder, error);
    if (right > 0 || (right < 0 && right != -EBADMSG))
        return right > 0 ? 0 : right;
    return right == 0 ? convoy_fail(error, -ENOTSUP, "a known JPEG file could not be decoded") : -ENOTSUP;
}

static int prepare(struct convoy_jpeg_decoder *decoder, struct convoy_error *error)
{
    size_t bytes = atomic_load(&decoder->wanted);
    if (bytes < CONVOY_JPEG_KNOWN_BYTES)
        bytes = CONVOY_JPEG_KNOWN_BYTES;
    int failed = CONVOY_CUDA_BESIDE(error, cudaSetDevice, (decoder->gpu->index));
    if (!failed)
        failed = find_way(decoder, error);
    if (!failed)
        failed = start_threads(decoder, error);
    if (!failed)
        failed = reserve_rooms(decoder, 0, CONVOY_JPEG_STATES, bytes, error);
    if (failed == -ENOMEM &&
        decoder->workers[CONVOY_JPEG_STATES - 1].runs) { /* other networks may have smaller rows */
        bytes = CONVOY_JPEG_KNOWN_BYTES;
        failed = reserve_rooms(decoder, 0, CONVOY_JPEG_STATES, bytes, error);
    }
    if (!failed)
        failed = check_first(decoder, error);
    if (!failed) /* when nvJPEG has its memory */
        failed = reserve_more_rooms(decoder, bytes, error);
    /* Through a lost device nothing is freed: that can hang. */
    if (failed == -ENOTSUP || failed == -ENOMEM)
        free_states(decoder);
    return failed;
}

int convoy_jpeg_decoder_prepare(struct convoy_jpeg_decoder *decoder, struct convoy_error *error)
{
    int failed = 0;
    pthread_mutex_lock(&decoder->preparing);
    uint64_t begun_us = convoy_now_us();
    switch (atomic_load(&decoder->stage)) {
    case UNPREPARED:
        convoy_cuda_log(decoder->gpu, "debug", "the JPEG decoder is being prepared");
        failed = prepare(decoder, error);
        if (failed == -ENOTSUP)
            decoder->why = *error;
        if (!failed || failed == -ENOTSUP)
            atomic_store(&decoder->stage, failed ? REFUSED : PREPARED);
        if (!failed)
            convoy_cuda_log(decoder->gpu, "info", "the JPEG decoder was prepared in %llu ms",
                            (unsigned long long)((convoy_now_us() - begun_us) / 1000));
        break;
    case REFUSED:
        *error = decoder->why;
        failed = -ENOTSUP;
        break;
    default:
        break;
    }
    pthread_mutex_unlock(&decoder->preparing);
    return failed;
}
