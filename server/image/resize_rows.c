#include "server/image/resize_rows.h"

#include "server/image/alpha.h"
#include "server/image/weighted_sums.h"
#include "server/image/window.h"

#include <errno.h>
#include <string.h>

/* Rows go through the passes together, so that few of the result begin in one batch and end in another, whose
 * sums have to be kept; but no more than a core's second cache holds beside other things. */
#define BATCH_BYTES 131072
#define BATCH_LEAST 8
#define BATCH_MOST  64
/* libjpeg-turbo writes lines that begin at a multiple of 16 or 32 bytes past the caches, from where they have
 * to come back. Rows begin ROW_OFFSET behind a multiple of ROW_ALIGN, so lines that begin at their first
 * pixel, or at an even one, as a crop's do unless it is 4:4:4 and decoded at an eighth, never begin there. */
#define ROW_ALIGN  16
#define ROW_OFFSET 9

bool convoy_resize_rows_can(const struct convoy_axis *x, const struct convoy_axis *y)
{
    return x->filter == CONVOY_FILTER_NEAREST || (convoy_window_has_table(x) && convoy_window_has_table(y));
}

/* ---- Making the tables ---- */

/* An axis of the result as it was stored. */
struct stored_axis {
    const struct convoy_axis *axis;
    bool mirrored;
};

/* Of the axis's output pixel i, as shown. places: of NEAREST, else NULL. */
static struct convoy_window shown_window(const struct convoy_axis *axis, const size_t *places, int i)
{
    if (places == NULL)
        return convoy_window_of(axis, i);
    return (struct convoy_window){.start = (int64_t)places[i], .end = (int64_t)places[i] + 1};
}

/* The same pixels as they were stored. */
static struct convoy_row_span stored_span(const struct stored_axis *stored,
                                          const struct convoy_window *window)
{
    int64_t in = stored->axis->in;
    if (stored->mirrored)
        return (struct convoy_row_span){(int)(in - window->end), (int)(in - window->start)};
    return (struct convoy_row_span){(int)window->start, (int)window->end};
}

static void reverse(int32_t *weights, size_t count)
{
    for (size_t i = 0; i < count / 2; i++) {
        int32_t weight = weights[i];
        weights[i] = weights[count - 1 - i];
        weights[count - 1 - i] = weight;
    }
}

/* Each weight stands `times` times. */
static void stored_weights(const struct stored_axis *stored, const struct convoy_window *window, int times,
                           int32_t *weights)
{
    size_t count = (size_t)(window->end - window->start) * (size_t)times;
    if (stored->axis->filter == CONVOY_FILTER_NEAREST) {
        for (int i = 0; i < times; i++)
            weights[i] = 1 << CONVOY_WEIGHT_BITS;
        return;
    }
    convoy_window_weights(stored->axis, window, times, weights);
    if (stored->mirrored)
        reverse(weights, count);
}

static size_t most_taps(const struct convoy_axis *axis)
{
    return axis->filter == CONVOY_FILTER_NEAREST ? 1 : convoy_window_most(axis);
}

/* *places: for NEAREST alone. 0 or -ENOMEM. */
static int find_places(struct convoy_image_buffer *buffer, const struct convoy_axis *axis,
                       const size_t **places)
{
    *places = NULL;
    if (axis->filter != CONVOY_FILTER_NEAREST)
        return 0;
    size_t *found = convoy_image_buffer_reserve(buffer, (size_t)axis->out, sizeof *found, 1);
    if (found == NULL)
        return -ENOMEM;
    convoy_window_nearest(axis, found);
    *places = found;
    return 0;
}

/* The columns that are needed. */
static void find_columns(struct convoy_row_resizer *resizer, const struct stored_axis *along,
                         const size_t *places)
{
    const struct convoy_window first = shown_window(along->axis, places, 0);
    const struct convoy_window last = shown_window(along->axis, places, along->axis->out - 1);
    const struct convoy_row_span one = stored_span(along, &first), other = stored_span(along, &last);
    int left = one.start < other.start ? one.start : other.start;
    int right = one.end > other.end ? one.end : other.end;
    resizer->sink.left = (size_t)left;
    resizer->sink.columns = (size_t)(right - left);
}

static int plan_along(struct convoy_row_resizer *resizer, struct convoy_image_scratch *scratch,
                      const struct stored_axis *along)
{
    const size_t *places, together = CONVOY_WINDOW_TOGETHER;
    size_t out = (size_t)along->axis->out, channels = (size_t)resizer->channels;
    size_t most = (most_taps(along->axis) + together - 1) / together * together, stride = most * channels;
    struct convoy_taps *taps = convoy_image_buffer_reserve(&scratch->windows, out, sizeof *taps, 1);
    int32_t *weights = convoy_image_buffer_reserve(&scratch->weights, out, stride, sizeof *weights);
    if (taps == NULL || weights == NULL || find_places(&scratch->row, along->axis, &places) != 0)
        return -ENOMEM;
    find_columns(resizer, along, places);
    memset(weights, 0, out * stride * sizeof *weights);
    for (size_t i = 0; i < out; i++) {
        const struct convoy_window window = shown_window(along->axis, places, (int)i);
        const struct convoy_row_span span = stored_span(along, &window);
        taps[i] = convoy_taps_together((size_t)span.start - resizer->sink.left,
                                       (size_t)(span.end - span.start), resizer->sink.columns);
        size_t before = (size_t)span.start - resizer->sink.left - taps[i].first;
        stored_weights(along, &window, resizer->channels, weights + i * stride + before * channels);
    }
    resizer->out = out;
    resizer->taps = taps;
    resizer->weights = weights;
    resizer->weights_stride = stride;
    return 0;
}

/* How many spans have begun and not ended where a batch ends, at most. Spans of more than a row leave out no
 * row between them, so batches end in steps from the first one on. */
static int count_open(const struct convoy_row_span *spans, int count, int batch)
{
    int most = 1, first = 0, behind = 0;
    for (int end = spans[0].start + batch; end < spans[count - 1].end; end += batch) {
        while (spans[first].end <= end)
            first++;
        while (behind < count && spans[behind].start < end)
            behind++;
        most = behind - first > most ? behind - first : most;
    }
    return most;
}

static int plan_down(struct convoy_row_resizer *resizer, struct convoy_image_scratch *scratch,
                     const struct stored_axis *down)
{
    const size_t *places;
    size_t out = (size_t)down->axis->out, stride = most_taps(down->axis);
    struct convoy_row_span *spans = convoy_image_buffer_reserve(&scratch->spans, out, sizeof *spans, 1);
    int32_t *weights = convoy_image_buffer_reserve(&scratch->span_weights, out, stride, sizeof *weights);
    if (spans == NULL || weights == NULL || find_places(&scratch->row, down->axis, &places) != 0)
        return -ENOMEM;
    for (size_t j = 0; j < out; j++) {
        int shown = (int)(down->mirrored ? out - 1 - j : j);
        const struct convoy_window window = shown_window(down->axis, places, shown);
        spans[j] = stored_span(down, &window);
        stored_weights(down, &window, 1, weights + j * stride);
    }
    resizer->spans = spans;
    resizer->spans_count = (int)out;
    resizer->span_weights = weights;
    resizer->span_stride = stride;
    resizer->open_most = count_open(spans, (int)out, resizer->batch_most);
    return 0;
}

/* ---- Rows ---- */

static uint8_t *slot(const struct convoy_row_resizer *resizer, int number)
{
    return resizer->batch + (size_t)number * resizer->batch_stride;
}

/* Where row or column j of the result as it was stored is shown. */
static uint8_t *shown(const struct convoy_row_resizer *resizer, int j)
{
    int at = resizer->mirrored_down ? resizer->spans_count - 1 - j : j;
    size_t bytes = (resizer->turned ? 1 : resizer->out) * (size_t)resizer->channels;
    return resizer->result + (size_t)at * bytes;
}

/* Puts a finished row there. */
static void place(const struct convoy_row_resizer *resizer, int j, const uint8_t *row)
{
    size_t channels = (size_t)resizer->channels, apart = (size_t)resizer->spans_count * channels;
    uint8_t *to = shown(resizer, j);
    if (!resizer->turned) {
        memcpy(to, row, resizer->out * channels);
        return;
    }
    for (size_t i = 0; i < resizer->out; i++, row += channels, to += apart)
        for (size_t c = 0; c < channels; c++)
            to[c] = row[c];
}

static void pass_along(const struct convoy_row_resizer *resizer, const uint8_t *rows, size_t stride,
                       int count, uint8_t *to)
{
    convoy_mean_along_rows(rows, stride, (size_t)count, resizer->channels, resizer->out, resizer->taps,
                           resizer->weights, resizer->weights_stride, to);
}

/* With down first: the rows that were made go along, and are placed. */
static void place_made(struct convoy_row_resizer *resizer)
{
    size_t channels = (size_t)resizer->channels;
    pass_along(resizer, resizer->between, resizer->sink.columns * channels, resizer->made_count,
               resizer->row);
    for (int k = 0; k < resizer->made_count; k++)
        place(resizer, resizer->made[k], resizer->row + (size_t)k * resizer->out * channels);
    resizer->made_count = 0;
}

/* Where the row of span j is written, when its rows are all there. */
static uint8_t *made_row(const struct convoy_row_resizer *resizer, int j)
{
    size_t bytes = resizer->sink.columns * (size_t)resizer->channels;
    if (resizer->down_first)
        return resizer->between + (size_t)resizer->made_count * bytes;
    return resizer->turned ? resizer->row : shown(resizer, j);
}

/* It is written. */
static void finish(struct convoy_row_resizer *resizer, int j)
{
    if (!resizer->down_first) {
        if (resizer->turned)
            place(resizer, j, resizer->row);
        return;
    }
    resizer->made[resizer->made_count++] = j;
    if (resizer->made_count == 2 || j + 1 == resizer->spans_count)
        place_made(resizer); /* two are cheaper together */
}

/* Adds rows [from, to) of the stored image, of `bytes` bytes, to span j. */
static void add_rows(struct convoy_row_resizer *resizer, int j, const uint8_t *rows, size_t stride, int from,
                     int to, size_t bytes)
{
    const struct convoy_row_span *span = &resizer->spans[j];
    const int32_t *weights = resizer->span_weights + (size_t)j * resizer->span_stride + (from - span->start);
    int32_t *sums = resizer->sums + (size_t)(j % resizer->open_most) * bytes;
    if (from == span->start && to == span->end) {
        convoy_mean_of_rows(rows, stride, (size_t)(to - from), weights, bytes, made_row(resizer, j));
        finish(resizer, j);
        return;
    }
    if (from == span->start)
        convoy_sums_begin(sums, bytes);
    convoy_sums_add(sums, rows, stride, (size_t)(to - from), weights, bytes);
    if (to < span->end)
        return;
    convoy_sums_end(sums, bytes, made_row(resizer, j));
    finish(resizer, j);
}

/* Both passes over the rows that wait. */
static void pass_batch(struct convoy_row_resizer *resizer)
{
    int first = resizer->batch_first, end = first + resizer->batch_count;
    size_t channels = (size_t)resizer->channels;
    const uint8_t *rows = resizer->batch + resizer->sink.left * channels;
    size_t stride = resizer->batch_stride, bytes = resizer->sink.columns * channels;
    if (!resizer->down_first) {
        pass_along(resizer, rows, stride, resizer->batch_count, resizer->between);
        rows = resizer->between;
        stride = bytes = resizer->out * channels;
    }
    for (int j = resizer->next; j < resizer->spans_count && resizer->spans[j].start < end; j++) {
        const struct convoy_row_span *span = &resizer->spans[j];
        int from = span->start > first ? span->start : first, to = span->end < end ? span->end : end;
        add_rows(resizer, j, rows + (size_t)(from - first) * stride, stride, from, to, bytes);
        resizer->next += span->end <= end;
    }
    resizer->batch_count = 0;
}

static uint8_t *line(struct convoy_raster_sink *sink, int y)
{
    const struct convoy_row_resizer *resizer = (const struct convoy_row_resizer *)sink;
    (void)y;
    return slot(resizer, resizer->batch_count);
}

static void take(struct convoy_raster_sink *sink, int y)
{
    struct convoy_row_resizer *resizer = (struct convoy_row_resizer *)sink;
    const struct convoy_row_span *spans = resizer->spans;
    int last = resizer->spans_count - 1;
    while (resizer->coming <= last && spans[resizer->coming].end <= y)
        resizer->coming++;
    if (resizer->coming > last || spans[resizer->coming].start > y)
        return; /* nothing is made of it */
    if (resizer->batch_count > 0 && y != resizer->batch_first + resizer->batch_count) {
        uint8_t *row = slot(resizer, resizer->batch_count);
        pass_batch(resizer);
        memmove(slot(resizer, 0), row, (size_t)resizer->width * (size_t)resizer->channels);
    }
    if (resizer->batch_count == 0)
        resizer->batch_first = y;
    if (resizer->multiplies)
        convoy_alpha_multiply(slot(resizer, resizer->batch_count), (size_t)resizer->width);
    resizer->batch_count++;
    if (resizer->batch_count == resizer->batch_most || y + 1 == spans[last].end)
        pass_batch(resizer);
}

static int batch_rows(size_t stride, int height)
{
    size_t rows = BATCH_BYTES / stride;
    if (height <= BATCH_MOST)
        return height; /* sums would take more than all rows do */
    return (int)(rows < BATCH_LEAST ? BATCH_LEAST : rows > BATCH_MOST ? BATCH_MOST : rows);
}

int convoy_resize_rows_begin(struct convoy_row_resizer *resizer, struct convoy_image_scratch *scratch,
                             const struct convoy_stored_image *stored, int channels, bool multiplies,
                             const struct convoy_axis *x, const struct convoy_axis *y, uint8_t *result)
{
    bool mirrors_x, mirrors_y, turned = convoy_orientation_swaps(stored->orientation);
    convoy_orientation_mirrors(stored->orientation, &mirrors_x, &mirrors_y);
    const struct stored_axis across = {x, mirrors_x}, upright = {y, mirrors_y};
    const struct stored_axis *along = turned ? &upright : &across, *down = turned ? &across : &upright;
    int pixel = convoy_pixel_bytes(stored->pixel);
    *resizer = (struct convoy_row_resizer){.sink = {.line = line, .take = take},
                                           .multiplies = multiplies,
                                           .down_first = convoy_window_rows_first(x, y) != turned,
                                           .turned = turned,
                                           .mirrored_down = down->mirrored,
                                           .width = stored->width,
                                           .channels = channels,
                                           .result = result};
    size_t row = (size_t)stored->width * (size_t)(pixel > channels ? pixel : channels);
    resizer->batch_stride = (row + ROW_ALIGN - 1) / ROW_ALIGN * ROW_ALIGN;
    resizer->batch_most = batch_rows(resizer->batch_stride, stored->height);
    if (plan_along(resizer, scratch, along) != 0 || plan_down(resizer, scratch, down) != 0)
        return -ENOMEM;
    size_t made = resizer->out * (size_t)channels, whole = resizer->sink.columns * (size_t)channels;
    size_t summed = resizer->down_first ? whole : made;
    size_t pieces = (size_t)resizer->batch_most * (resizer->batch_stride / ROW_ALIGN) + 1;
    uint8_t *batch = convoy_image_buffer_reserve(&scratch->batch, pieces, ROW_ALIGN, 1);
    resizer->batch = batch != NULL ? batch + ROW_OFFSET : NULL;
    resizer->between = convoy_image_buffer_reserve(
        &scratch->middle, resizer->down_first ? 2 : (size_t)resizer->batch_most, summed, 1);
    resizer->row = convoy_image_buffer_reserve(&scratch->row, 2, made, 1);
    resizer->sums = convoy_image_buffer_reserve(&scratch->sums, (size_t)resizer->open_most, summed,
                                                sizeof *resizer->sums);
    return resizer->batch != NULL && resizer->between != NULL && resizer->row != NULL && resizer->sums != NULL
               ? 0
               : -ENOMEM;
}
