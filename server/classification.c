#include "server/classification.h"

#include "engine/base/clock.h"
#include "server/body_memory.h"
#include "server/http_internal.h"
#include "server/image/image.h"
#include "server/service_time.h"

#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Images up to this size together are decoded on the HTTP thread, in about a millisecond: handing them to
 * another thread and back would cost more than it frees. */
#define INLINE_PIXELS (128u * 1024)
#define INLINE_BYTES  (256u * 1024)

/* What a thread needs to decode; freed when the thread ends. */
struct place {
    struct convoy_image_scratch *scratch;
    uint8_t *row;
    size_t row_capacity;
};

static pthread_key_t place_key;
static pthread_once_t place_once = PTHREAD_ONCE_INIT;

static void free_place(void *context)
{
    struct place *place = context;

    convoy_image_scratch_free(place->scratch);
    free(place->row);
    free(place);
}

static void make_place_key(void)
{
    /* Without a key every image would be told that memory is out; the limit of 1024 keys is far away. */
    if (pthread_key_create(&place_key, free_place) != 0)
        abort();
}

/* The calling thread's place with room for a row; NULL when memory is out. */
static struct place *place_for(size_t row_bytes)
{
    pthread_once(&place_once, make_place_key);
    struct place *place = pthread_getspecific(place_key);
    if (place == NULL) {
        place = calloc(1, sizeof *place);
        if (place == NULL || pthread_setspecific(place_key, place) != 0) {
            free(place);
            return NULL;
        }
    }
    if (place->scratch == NULL)
        place->scratch = convoy_image_scratch_new();
    if (place->row_capacity < row_bytes) {
        free(place->row);
        place->row = malloc(row_bytes);
        place->row_capacity = place->row == NULL ? 0 : row_bytes;
    }
    return place->scratch != NULL && place->row_capacity >= row_bytes ? place : NULL;
}

struct convoy_classification *convoy_classification_new(const struct convoy_model_view *view, uint32_t count)
{
    size_t images = (size_t)count * sizeof(struct convoy_classify_image);
    size_t outputs = (size_t)count * view->shape.outputs_per_row * sizeof(float);
    struct convoy_classification *classification = calloc(1, sizeof *classification + images);
    struct convoy_model_view taken = *view;

    if (classification != NULL)
        classification->outputs = malloc(outputs > 0 ? outputs : 1);
    if (classification == NULL || classification->outputs == NULL) {
        free(classification);
        convoy_model_view_end(&taken);
        return NULL;
    }
    classification->view = taken;
    classification->count = count;
    atomic_init(&classification->refs, 1);
    atomic_init(&classification->left, count + 1);
    return classification;
}

void convoy_classification_drop(struct convoy_classification *classification)
{
    if (atomic_fetch_sub_explicit(&classification->refs, 1, memory_order_acq_rel) != 1)
        return;
    for (uint32_t i = 0; i < classification->count; i++) {
        free(classification->images[i].error);
        free(classification->images[i].item.layers);
    }
    convoy_model_view_end(&classification->view);
    free(classification->outputs);
    free(classification->body);
    convoy_body_memory_give(classification->body_capacity);
    free(classification);
}

/* Lists, suspends and, with_pool, hands the images to the decode threads; false when the daemon is stopping.
 * All under one lock, so that a stop finds either nothing or the whole. On the HTTP thread. */
static bool suspend(struct convoy_classification *classification, bool with_pool)
{
    struct convoy_http *http = classification->http;

    pthread_mutex_lock(&http->suspended_lock);
    bool stopping = atomic_load(&http->stopping);
    if (!stopping) {
        classification->previous = NULL;
        classification->next = http->suspended;
        if (http->suspended != NULL)
            http->suspended->previous = classification;
        http->suspended = classification;
        MHD_suspend_connection(classification->mhd);
        if (with_pool)
            convoy_decode_pool_add(http->decode_pool, &classification->job);
    }
    pthread_mutex_unlock(&http->suspended_lock);
    return !stopping;
}

/* Under the lock. */
static void unlist(struct convoy_http *http, struct convoy_classification *classification)
{
    if (classification->previous != NULL)
        classification->previous->next = classification->next;
    else
        http->suspended = classification->next;
    if (classification->next != NULL)
        classification->next->previous = classification->previous;
    if (http->suspended == NULL && atomic_load_explicit(&http->stopping, memory_order_relaxed))
        pthread_cond_broadcast(&http->none_suspended);
}

/* The caller holds a reference. Any thread. Once another has claimed the resumption, http may be gone. */
static void resume(struct convoy_classification *classification)
{
    if (atomic_exchange(&classification->resumed, true))
        return;
    struct convoy_http *http = classification->http;
    MHD_resume_connection(classification->mhd);
    pthread_mutex_lock(&http->suspended_lock);
    unlist(http, classification);
    pthread_mutex_unlock(&http->suspended_lock);
}

void convoy_classification_resume_all(struct convoy_http *http)
{
    pthread_mutex_lock(&http->suspended_lock);
    for (struct convoy_classification *at = http->suspended, *next; at != NULL; at = next) {
        next = at->next;
        if (atomic_exchange(&at->resumed, true))
            continue; /* its resumer is about to unlist it */
        MHD_resume_connection(at->mhd);
        unlist(http, at);
    }
    while (http->suspended != NULL)
        pthread_cond_wait(&http->none_suspended, &http->suspended_lock);
    pthread_mutex_unlock(&http->suspended_lock);
}

/* The fate of an image is known. */
static void finish_image(struct convoy_classification *classification)
{
    if (atomic_fetch_sub_explicit(&classification->left, 1, memory_order_acq_rel) == 1)
        resume(classification);
    convoy_classification_drop(classification);
}

/* On the control loop: counting and waking up is all that happens here. */
static void image_done(struct convoy_item *item)
{
    finish_image(item->context);
}

static void fail_image(struct convoy_classify_image *image, int status, const char *sentence)
{
    image->status = status;
    image->error = strdup(sentence);
}

static int status_of_decoding(int code)
{
    switch (code) {
    case -ENODATA:
        return MHD_HTTP_BAD_REQUEST;
    case -ENOTSUP:
        return MHD_HTTP_UNSUPPORTED_MEDIA_TYPE;
    case -EFBIG:
        return MHD_HTTP_CONTENT_TOO_LARGE;
    case -EBADMSG:
        return MHD_HTTP_UNPROCESSABLE_CONTENT;
    default:
        return MHD_HTTP_INTERNAL_SERVER_ERROR;
    }
}

/* Decodes image, of at most max_pixels, into the thread's row; NULL when it failed, which the image then
 * says, unless max_pixels is below the configuration's limit and only that was exceeded: the image is as
 * before. */
static const uint8_t *decode(const struct convoy_classification *classification,
                             struct convoy_classify_image *image, size_t row_bytes, uint64_t max_pixels)
{
    const struct convoy_model_shape *shape = &classification->view.shape;
    const struct convoy_image_target target = {
        .width = (int)shape->width,
        .height = (int)shape->height,
        .channels = (int)shape->channels,
        .fit = classification->view.crop ? CONVOY_FIT_CROP : CONVOY_FIT_STRETCH,
    };
    struct place *place = place_for(row_bytes);
    struct convoy_error error;
    uint64_t begun_us = convoy_now_us();

    if (place == NULL) {
        fail_image(image, MHD_HTTP_INTERNAL_SERVER_ERROR, "the server is out of memory: try again later");
        return NULL;
    }
    if (begun_us >= classification->deadline_us) {
        fail_image(
            image, MHD_HTTP_SERVICE_UNAVAILABLE,
            "the deadline passed before the image could be decoded: try again later, or allow more with "
            "timeout_ms");
        return NULL;
    }
    int code = convoy_image_to_row(place->scratch, image->part.bytes, image->part.length, max_pixels, &target,
                                   place->row, &error);
    image->decode_us = convoy_now_us() - begun_us;
    if (code == -EFBIG && max_pixels < classification->http->config->images.max_pixels)
        return NULL;
    if (code != 0) {
        fail_image(image, status_of_decoding(code), error.message);
        return NULL;
    }
    return place->row;
}

/* Decodes one image and hands it to the batcher. Any thread; classification may be gone afterwards. False,
 * with nothing done, when the image has more than max_pixels but not too many for the configuration.
 * *took_us: the time of decoding, whether it succeeded or not; 0 if it was not tried. */
static bool process(struct convoy_classification *classification, uint32_t index, uint64_t max_pixels,
                    uint64_t *took_us)
{
    const struct convoy_model_shape *shape = &classification->view.shape;
    size_t row_bytes = (size_t)shape->channels * shape->height * shape->width;
    struct convoy_classify_image *image = &classification->images[index];
    const uint8_t *row = NULL;

    if (atomic_load(&classification->http->stopping))
        fail_image(image, MHD_HTTP_SERVICE_UNAVAILABLE, "the server is stopping: send the request again");
    else
        row = decode(classification, image, row_bytes, max_pixels);
    if (row == NULL && image->status == 0)
        return false;
    *took_us = image->decode_us;
    if (row == NULL) {
        convoy_batcher_cancel(classification->batcher, classification->view.model, 1);
        finish_image(classification);
        return true;
    }
    image->item = (struct convoy_item){
        .model = classification->view.model,
        .form = CONVOY_SLOT_U8_HWC,
        .profile = classification->profile,
        .deadline_us = classification->deadline_us,
        .outputs = classification->outputs + (size_t)index * shape->outputs_per_row,
        .done = image_done,
        .context = classification,
    };
    convoy_batcher_submit(classification->batcher, &image->item, row, row_bytes);
    return true;
}

static uint64_t pixel_limit(const struct convoy_classification *classification)
{
    return classification->http->config->images.max_pixels;
}

static uint64_t process_in_pool(struct convoy_decode_job *job, uint32_t index)
{
    struct convoy_classification *classification =
        (struct convoy_classification *)((char *)job - offsetof(struct convoy_classification, job));
    uint64_t took_us = 0;

    process(classification, index, pixel_limit(classification), &took_us);
    return took_us;
}

/* Are several images together small enough to decode here? One whose header is bad costs nothing either. */
static bool small(const struct convoy_classification *classification)
{
    uint64_t pixels = 0, bytes = 0;

    for (uint32_t i = 0; i < classification->count; i++) {
        const struct convoy_part *part = &classification->images[i].part;
        struct convoy_image_info info;
        if (convoy_image_probe(part->bytes, part->length, pixel_limit(classification), &info, NULL) == 0)
            pixels += (uint64_t)info.width * (uint64_t)info.height;
        bytes += part->length;
        if (pixels > INLINE_PIXELS || bytes > INLINE_BYTES)
            return false;
    }
    return true;
}

/* Processes all images on this thread; false, with nothing done, when they are too large for that. */
static bool process_here(struct convoy_classification *classification)
{
    uint64_t most = pixel_limit(classification), took_us;
    uint32_t count = classification->count;

    /* One image is not probed first: reading its header twice would cost a tenth of its request. */
    if (count == 1)
        return classification->images[0].part.length <= INLINE_BYTES &&
               process(classification, 0, most < INLINE_PIXELS ? most : INLINE_PIXELS, &took_us);
    if (!small(classification))
        return false;
    /* The HTTP side's reference keeps it alive through all of this, which the analyzer cannot count. */
    for (uint32_t i = 0; i < count; i++)
        (void)process(classification, i, most, &took_us); // NOLINT(clang-analyzer-unix.Malloc)
    return true;
}

/* What decoding an image costs, in pixels: a byte of a file costs about as much as eight of them, to unpack.
 * One whose header is bad costs nothing. */
static uint64_t decoding_size(const struct convoy_classification *classification, uint32_t index)
{
    const struct convoy_part *part = &classification->images[index].part;
    struct convoy_image_info info;

    if (convoy_image_probe(part->bytes, part->length, pixel_limit(classification), &info, NULL) != 0)
        return 0;
    return (uint64_t)info.width * (uint64_t)info.height + 8 * (uint64_t)part->length;
}

/* Hands the images to the pool and suspends; false when that cannot be: the caller answers now. */
static bool process_in_turn(struct convoy_classification *classification)
{
    struct convoy_decode_pool *pool = classification->http->decode_pool;
    uint32_t count = classification->count;
    uint64_t size = 0;

    for (uint32_t i = 0; i < count; i++)
        size += decoding_size(classification, i);
    /* Decoding what would be late makes those behind it late as well. */
    bool late = convoy_decode_pool_wait_us(pool, size) >
                convoy_service_time_spendable_us(classification->deadline_us, convoy_now_us());
    classification->job = (struct convoy_decode_job){.count = count, .size = size, .work = process_in_pool};
    if (!late && suspend(classification, true))
        return true;
    convoy_batcher_cancel(classification->batcher, classification->view.model, count);
    atomic_fetch_sub_explicit(&classification->refs, count, memory_order_relaxed);
    if (late) {
        for (uint32_t i = 0; i < count; i++)
            fail_image(
                &classification->images[i], MHD_HTTP_SERVICE_UNAVAILABLE,
                "so many large images wait to be decoded that this one would miss its deadline: try again "
                "later, send smaller images, or allow more with timeout_ms");
        atomic_fetch_sub_explicit(&classification->left, count, memory_order_relaxed);
    }
    return false;
}

bool convoy_classification_run(struct convoy_classification *classification)
{
    uint32_t count = classification->count;

    atomic_fetch_add_explicit(&classification->refs, count, memory_order_relaxed);
    if (process_here(classification)) {
        /* Nothing reached the batcher, or it was quick: no need to suspend. */
        if (convoy_classification_complete(classification)) // NOLINT(clang-analyzer-unix.Malloc)
            return true;
        if (!suspend(classification, false))
            return true;
    } else if (!process_in_turn(classification)) {
        return true;
    }
    /* The last image may have been done before the connection was suspended. The HTTP side's reference holds
     * until the connection, resumed, is answered by this same thread. */
    if (atomic_fetch_sub_explicit(&classification->left, 1, memory_order_acq_rel) == 1)
        resume(classification);
    return false;
}

bool convoy_classification_complete(struct convoy_classification *classification)
{
    /* 1: the HTTP thread's own, when it asks before it gave that away. */
    uint32_t left = atomic_load_explicit(&classification->left, memory_order_acquire);
    return left == 0 || (left == 1 && !atomic_load(&classification->resumed));
}
