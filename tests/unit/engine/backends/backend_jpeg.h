/* What the tests of JPEG rows share: files, jobs of them, and a network that gives its input back, which
 * shows the pixels that the device made of them. On the emulated GPU, whose stand-in for nvJPEG decodes with
 * libjpeg as the front does, they are the front's to the bit; on a GPU its engines' pixels differ a little.
 * Header only. */
#ifndef CONVOY_TESTS_BACKEND_JPEG_H
#define CONVOY_TESTS_BACKEND_JPEG_H

#include "server/image/image.h"
#include "server/image/scratch.h"
#include "tests/unit/engine/backends/backend_harness.h"
#include "tests/unit/engine/backends/jpeg_forge.h"

#define MOST_ROWS 300

static struct convoy_device_info about;
static char logged[4096];

static inline void keep_log(void *context, const char *level, const char *text)
{
    size_t used = strlen(logged);
    (void)context;
    snprintf(logged + used, sizeof(logged) - used, "%s: %s\n", level, text);
}

/* As open_backend(), with the library of that path beside it, NULL: none. */
static inline void open_with_library(const char *library)
{
    struct convoy_error error;
    struct convoy_open_options options = {.streams = 3, .log = keep_log};
    if (library != NULL)
        cr_assert(dlopen(library, RTLD_NOW | RTLD_LOCAL) != NULL, "%s", dlerror());
    open_backend_with(&options);
    backend->close(device);
    cr_assert_eq(backend->open(0, &options, &device, &about, &error), 0, "%s", error.message);
}

static inline void open_jpeg(void)
{
    bool stand_in = getenv("CONVOY_TEST_MODULE") == NULL && backend_nvjpeg[0] != '\0';
    open_with_library(stand_in ? backend_nvjpeg : NULL);
    if (about.jpeg_jobs == 0)
        cr_skip("this backend decodes no JPEG files");
}

/* The stand-in decodes as the front does. */
static inline bool is_exact(void)
{
    return getenv("CONVOY_TEST_MODULE") == NULL;
}

/* ---- Jobs ---- */

struct rows {
    uint32_t count;
    size_t bytes;
    uint8_t *memory;
    struct file files[MOST_ROWS];
    int orientations[MOST_ROWS];
};

static inline struct rows *new_rows(void)
{
    struct rows *rows = calloc(1, sizeof(*rows));
    cr_assert(rows != NULL);
    return rows;
}

static inline void add_row(struct rows *rows, struct file file, int orientation)
{
    rows->orientations[rows->count] = orientation;
    rows->files[rows->count++] = file;
}

static inline struct convoy_jpeg_row *header_of(const struct rows *rows, uint32_t row)
{
    return (struct convoy_jpeg_row *)(void *)(rows->memory + (size_t)row * CONVOY_JPEG_ROW_BYTES);
}

/* Headers, then files, as the front lays them out. */
static inline void lay_out(struct rows *rows)
{
    rows->bytes = (size_t)rows->count * CONVOY_JPEG_ROW_BYTES;
    for (uint32_t i = 0; i < rows->count; i++)
        rows->bytes += (rows->files[i].length + 63) / 64 * 64;
    rows->memory = aligned_bytes(rows->bytes);
    memset(rows->memory, 0xff, rows->bytes);
    size_t at = (size_t)rows->count * CONVOY_JPEG_ROW_BYTES;
    for (uint32_t i = 0; i < rows->count; i++) {
        const struct file *file = &rows->files[i];
        *header_of(rows, i) =
            (struct convoy_jpeg_row){.length = (uint32_t)file->length,
                                     .offset = (uint32_t)(at - (size_t)i * CONVOY_JPEG_ROW_BYTES),
                                     .width = (uint16_t)file->width,
                                     .height = (uint16_t)file->height,
                                     .orientation = (uint8_t)rows->orientations[i],
                                     .components = (uint8_t)file->components};
        memcpy(rows->memory + at, file->bytes, file->length);
        at += (file->length + 63) / 64 * 64;
    }
}

static inline void free_rows(struct rows *rows)
{
    for (uint32_t i = 0; i < rows->count; i++)
        free(rows->files[i].bytes);
    free(rows->memory);
    free(rows);
}

/* A network that gives back its pixels, less what fitting does to a picture. */
struct mirror {
    struct convoy_graph *graph;
    struct convoy_net *net;
    struct convoy_net_info info;
    struct convoy_image_fitting fitting;
};

static inline int try_mirror(struct mirror *mirror, int width, int height, int channels, uint32_t max_batch,
                             const struct convoy_image_fitting *fitting, struct convoy_error *error)
{
    struct convoy_load_options options = {.name = "mirror", .max_batch = max_batch, .fitting = *fitting};
    mirror->fitting = *fitting;
    mirror->graph = new_graph(SHAPE(1, channels, height, width));
    add_output(mirror->graph, add_act(mirror->graph, mirror->graph->input, CONVOY_RELU, 0, 0));
    for (int c = 0; c < CONVOY_MAX_U8_CHANNELS; c++)
        options.multiply[c] = 1;
    int code = backend->load(device, mirror->graph, &options, &mirror->net, &mirror->info, error);
    if (code != 0)
        convoy_graph_free(mirror->graph);
    return code;
}

static inline struct mirror load_mirror(int width, int height, int channels, uint32_t max_batch,
                                        const struct convoy_image_fitting *fitting)
{
    struct mirror mirror;
    struct convoy_error error;
    cr_assert_eq(try_mirror(&mirror, width, height, channels, max_batch, fitting, &error), 0, "%s",
                 error.message);
    cr_assert(mirror.info.takes_jpeg, "%s", logged);
    return mirror;
}

static inline void unload_mirror(struct mirror *mirror)
{
    backend->unload(device, mirror->net);
    convoy_graph_free(mirror->graph);
}

static inline bool is_undecoded(const struct convoy_job_times *times, uint32_t row)
{
    return times->undecoded[row / 64] >> row % 64 & 1;
}

static inline size_t output_stride(const struct mirror *mirror)
{
    return (mirror->info.outputs_per_row * sizeof(float) + 63) / 64 * 64;
}

static inline struct convoy_job job_of(const struct mirror *mirror, const struct rows *rows, float *output,
                                       struct convoy_job_times *times)
{
    memset(times, 0xff, sizeof(*times));
    times->layer_us = NULL;
    return (struct convoy_job){.tag = 5,
                               .layout = CONVOY_LAYOUT_JPEG,
                               .rows = rows->count,
                               .input = rows->memory,
                               .input_stride = CONVOY_JPEG_ROW_BYTES,
                               .input_bytes = rows->bytes,
                               .output = output,
                               .output_stride = output_stride(mirror),
                               .times = times};
}

/* Runs them all; the caller frees the outputs. */
static inline float *run_rows(const struct mirror *mirror, const struct rows *rows,
                              struct convoy_job_times *times)
{
    float *output = aligned_bytes(rows->count * output_stride(mirror));
    memset(output, 0xff, rows->count * output_stride(mirror));
    struct convoy_job job = job_of(mirror, rows, output, times);
    run(mirror->net, &job);
    cr_assert_geq(times->input_us, 0);
    return output;
}

/* ---- What the front makes of them ---- */

/* The file with an Exif segment that has the orientation. */
static inline uint8_t *with_orientation(const struct file *file, int orientation, size_t *length)
{
    static const uint8_t exif[] = {0xff, 0xe1, 0, 34, 'E', 'x', 'i', 'f', 0, 0,    'M', 'M',
                                   0,    42,   0, 0,  0,   8,   0,   1,   1, 0x12, 0,   3,
                                   0,    0,    0, 1,  0,   0,   0,   0,   0, 0,    0,   0};
    uint8_t *bytes = malloc(file->length + sizeof(exif));
    cr_assert(bytes != NULL);
    memcpy(bytes, file->bytes, 2);
    memcpy(bytes + 2, exif, sizeof(exif));
    bytes[2 + 29] = (uint8_t)orientation;
    memcpy(bytes + 2 + sizeof(exif), file->bytes + 2, file->length - 2);
    *length = file->length + sizeof(exif);
    return bytes;
}

static inline void check_row(const struct mirror *mirror, const struct rows *rows, uint32_t row,
                             const float *output)
{
    const struct convoy_image_fitting *fitting = &mirror->fitting;
    struct convoy_image_target target = {.width = (int)mirror->info.width,
                                         .height = (int)mirror->info.height,
                                         .channels = (int)mirror->info.channels,
                                         .fit = (enum convoy_image_fit)(fitting->kind - 1),
                                         .filter = (enum convoy_image_filter)fitting->filter,
                                         .cover_width = (int)fitting->cover_width,
                                         .cover_height = (int)fitting->cover_height,
                                         .color = {fitting->color[0], fitting->color[1], fitting->color[2]},
                                         .bgr = fitting->bgr,
                                         .cuts_down = fitting->cuts_down};
    struct convoy_error error;
    struct convoy_image_scratch *scratch = convoy_image_scratch_new();
    size_t pixels = (size_t)target.width * (size_t)target.height, channels = (size_t)target.channels, length;
    uint8_t *want = malloc(pixels * channels);
    uint8_t *bytes = with_orientation(&rows->files[row], rows->orientations[row], &length);
    cr_assert(scratch != NULL && want != NULL);
    cr_assert_eq(convoy_image_to_row(scratch, bytes, length, 1u << 30, &target, want, &error), 0, "%s",
                 error.message);
    double differences = 0;
    int worst = 0;
    for (size_t c = 0; c < channels; c++)
        for (size_t i = 0; i < pixels; i++) {
            int difference = abs((int)output[c * pixels + i] - want[i * channels + c]);
            differences += difference;
            worst = difference > worst ? difference : worst;
        }
    differences /= (double)(pixels * channels);
    cr_assert(
        is_exact() ? worst == 0 : worst <= 12 && differences <= 1.0,
        "row %u, %d x %d, %d components, orientation %d, kind %d filter %d: %d levels off, %.3f in the mean",
        row, rows->files[row].width, rows->files[row].height, rows->files[row].components,
        rows->orientations[row], (int)fitting->kind, (int)fitting->filter, worst, differences);
    free(bytes);
    free(want);
    convoy_image_scratch_free(scratch);
}

/* All rows are as the front makes them, but for those that are not to be decoded, a bit each. */
static inline void check_rows_but(const struct mirror *mirror, struct rows *rows, uint64_t undecodable)
{
    struct convoy_job_times times;
    float *output = run_rows(mirror, rows, &times);
    for (uint32_t row = 0; row < rows->count; row++) {
        bool bad = row < 64 && (undecodable >> row & 1);
        bool tiny = rows->files[row].width < 16 || rows->files[row].height < 16;
        if (tiny && !is_exact() && is_undecoded(&times, row))
            continue; /* engines have a least size */
        cr_assert_eq(is_undecoded(&times, row), bad, "row %u", row);
        const float *own = output + row * output_stride(mirror) / sizeof(float);
        if (!bad)
            check_row(mirror, rows, row, own);
        for (uint32_t i = 0; bad && i < mirror->info.outputs_per_row; i++)
            cr_assert(own[i] == 0, "row %u shows something", row);
    }
    free(output);
    free_rows(rows);
}

static const struct convoy_image_fitting stretch = {.kind = CONVOY_FITTING_STRETCH};

#endif
