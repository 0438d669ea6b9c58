/* Every kind of image against python3-pil: see tests/tools/image_reference.py for what the rows are. */
#include "server/image/image.h"
#include "tests/unit/server/image/image_samples.h"

#define MAX_PIXELS 50000000

struct comparison {
    char image[128], row[192], fit[16], filter[16];
    int width, height, channels, cover, tolerance;
    unsigned color;
};

static int worst_difference(const uint8_t *a, const uint8_t *b, size_t size)
{
    int worst = 0;
    for (size_t i = 0; i < size; i++)
        if (abs(a[i] - b[i]) > worst)
            worst = abs(a[i] - b[i]);
    return worst;
}

static bool next(FILE *manifest, struct comparison *c)
{
    return fscanf(manifest, "%127s %191s %d %d %d %15s %15s %d %x %d", c->image, c->row, &c->width,
                  &c->height, &c->channels, c->fit, c->filter, &c->cover, &c->color, &c->tolerance) == 10;
}

/* Where word stands in words. */
static int index_of(const char *word, const char *const *words)
{
    int index = 0;
    while (words[index] != NULL && strcmp(word, words[index]) != 0)
        index++;
    cr_assert_not_null(words[index], "%s", word);
    return index;
}

static struct convoy_image_target target_of(const struct comparison *c)
{
    static const char *const fits[] = {"stretch", "crop", "pad", NULL};
    static const char *const filters[] = {"bilinear", "bicubic", "lanczos", "nearest", NULL};
    return (struct convoy_image_target){
        .width = c->width,
        .height = c->height,
        .channels = c->channels,
        .fit = (enum convoy_image_fit)index_of(c->fit, fits),
        .filter = (enum convoy_image_filter)index_of(c->filter, filters),
        .cover_width = c->cover,
        .cover_height = c->cover,
        .color = {(uint8_t)(c->color >> 16), (uint8_t)(c->color >> 8), (uint8_t)c->color},
    };
}

static FILE *open_manifest(void)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/manifest.txt", samples_folder());
    FILE *manifest = fopen(path, "r");
    cr_assert_not_null(manifest);
    return manifest;
}

/* How many rows were checked, and how many of the resampled ones differ at all, is printed: a reader sees
 * that this compared something. */
Test(image_reference, rows_equal_pillow, .timeout = 120)
{
    FILE *manifest = open_manifest();
    struct convoy_image_scratch *scratch = convoy_image_scratch_new();
    cr_assert_not_null(scratch);
    struct comparison c;
    int rows = 0;
    int differing = 0;
    while (next(manifest, &c)) {
        struct convoy_image_target target = target_of(&c);
        size_t length;
        size_t size;
        uint8_t *bytes = samples_read(c.image, &length);
        uint8_t *expected = samples_read(c.row, &size);
        cr_assert_eq(size, (size_t)c.width * (size_t)c.height * (size_t)c.channels);
        uint8_t *row = malloc(size);
        cr_assert_not_null(row);
        memset(row, 0xA5, size);
        struct convoy_error error;
        int code = convoy_image_to_row(scratch, bytes, length, MAX_PIXELS, &target, row, &error);
        cr_expect_eq(code, 0, "%s: %d, %s", c.row, code, error.message);
        if (code == 0) {
            int worst = worst_difference(row, expected, size);
            cr_expect(worst <= c.tolerance, "%s: differs by %d, %d allowed", c.row, worst, c.tolerance);
            differing += worst > 0;
        }
        rows++;
        free(row);
        free(expected);
        free(bytes);
    }
    cr_assert(feof(manifest));
    fclose(manifest);
    cr_assert_geq(rows, 2000);
    fprintf(stderr, "image_reference: %d rows, %d of them not bit for bit Pillow's\n", rows, differing);
    convoy_image_scratch_free(scratch);
}

/* What probe says before decoding is what stretching to that size leaves alone. */
Test(image_reference, probe_tells_the_turned_size)
{
    const struct {
        const char *name;
        int width, height;
        enum convoy_image_kind kind;
    } cases[] = {
        {"444.jpg", 47, 31, CONVOY_IMAGE_JPEG},
        {"exif0.jpg", 47, 31, CONVOY_IMAGE_JPEG},
        {"exif3.jpg", 47, 31, CONVOY_IMAGE_JPEG},
        {"exif6.jpg", 47, 31, CONVOY_IMAGE_JPEG},
        {"exif9.jpg", 47, 31, CONVOY_IMAGE_JPEG},
        {"cmyk-turned.jpg", 47, 31, CONVOY_IMAGE_JPEG},
        {"photo.jpg", 500, 375, CONVOY_IMAGE_JPEG},
        {"exif1-rgb.png", 47, 31, CONVOY_IMAGE_PNG},
        {"exif5-rgb.png", 47, 31, CONVOY_IMAGE_PNG},
        {"exif8-grey.png", 47, 31, CONVOY_IMAGE_PNG},
        {"size-9x1.png", 9, 1, CONVOY_IMAGE_PNG},
        {"ballast.png", 47, 31, CONVOY_IMAGE_PNG},
        {"endless-wide.png", 50000000, 1, CONVOY_IMAGE_PNG},
        {"lossy.webp", 47, 31, CONVOY_IMAGE_WEBP},
        {"exif6-rgba.webp", 47, 31, CONVOY_IMAGE_WEBP},
        {"animated-part-lossless.webp", 60, 50, CONVOY_IMAGE_WEBP},
        {"palette1-top-down.bmp", 47, 31, CONVOY_IMAGE_BMP},
        {"runs8-skips.bmp", 10, 8, CONVOY_IMAGE_BMP},
        {"large.gif", 300, 200, CONVOY_IMAGE_GIF},
        {"frame-beyond.gif", 50, 35, CONVOY_IMAGE_GIF},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t length;
        uint8_t *bytes = samples_read(cases[i].name, &length);
        struct convoy_image_info info = {0};
        struct convoy_error error;
        cr_expect_eq(convoy_image_probe(bytes, length, MAX_PIXELS, &info, &error), 0, "%s", cases[i].name);
        cr_expect_eq(info.width, cases[i].width, "%s: %d wide", cases[i].name, info.width);
        cr_expect_eq(info.height, cases[i].height, "%s: %d high", cases[i].name, info.height);
        cr_expect_eq(info.kind, cases[i].kind, "%s", cases[i].name);
        free(bytes);
    }
}
