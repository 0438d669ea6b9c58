/* What the front's decoder takes for an image beside a full decode by libjpeg-turbo, both on one thread and
 * in turns: bench_decode_time FILE SIDE[/COVER][:FILTER]... A target is SIDE x SIDE pixels of three channels;
 * with COVER the image is scaled until it covers COVER x COVER, and the centre is cropped. Prints a line for
 * each target: microseconds of processor time of both, medians of their rounds, the median of the ratios, and
 * how much memory decoding the whole image took more than there was. */
#include "server/image/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <turbojpeg.h>

#define ROUNDS     41
#define FEW_ROUNDS 11 /* of pictures of more than */
#define MANY       4000000
#define MAX_PIXELS 1000000000u

static uint8_t *file_bytes(const char *path, size_t *length)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = NULL;
    if (file == NULL || fseek(file, 0, SEEK_END) != 0)
        return NULL;
    *length = (size_t)ftell(file);
    rewind(file);
    bytes = malloc(*length);
    if (bytes == NULL || fread(bytes, 1, *length, file) != *length) {
        free(bytes);
        bytes = NULL;
    }
    fclose(file);
    return bytes;
}

/* Of this thread: others on the same cores do not count. */
static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void forget_peak(void)
{
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (file != NULL) {
        fputs("5", file);
        fclose(file);
    }
}

/* The most memory since then, in KiB. */
static long peak_kib(void)
{
    char line[128];
    long kib = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status != NULL && fgets(line, sizeof line, status) != NULL)
        (void)sscanf(line, "VmHWM: %ld", &kib);
    if (status != NULL)
        fclose(status);
    return kib;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, by_value);
    return values[count / 2];
}

/* Both decoders in turns, after one round that is not counted. */
static int measure(const uint8_t *bytes, size_t length, const struct convoy_image_target *target,
                   const char *name)
{
    static const enum convoy_scaled_decoding ways[] = {CONVOY_SCALED_OFF, CONVOY_SCALED_AUTO};
    static double full[ROUNDS], ours[2][ROUNDS], ratios[2][ROUNDS];
    tjhandle turbo = tjInitDecompress();
    int width, height, sampling, space;
    struct convoy_error error;
    if (turbo == NULL || tjDecompressHeader3(turbo, bytes, length, &width, &height, &sampling, &space) != 0) {
        fprintf(stderr, "no JPEG image\n");
        return 1;
    }
    uint8_t *pixels = malloc((size_t)width * (size_t)height * 3);
    uint8_t *row = malloc((size_t)target->width * (size_t)target->height * 3);
    struct convoy_image_scratch *scratch = convoy_image_scratch_new();
    long taken_kib = 0;
    int rounds = (int64_t)width * height > MANY ? FEW_ROUNDS : ROUNDS;
    for (int round = -1; round < rounds; round++) {
        double begun = now_us();
        if (tjDecompress2(turbo, bytes, length, pixels, width, 0, height, TJPF_RGB, 0) != 0)
            return 1;
        double full_us = now_us() - begun;
        for (int way = 0; way < 2; way++) {
            struct convoy_image_target asked = *target;
            asked.scaled_decoding = ways[way];
            if (round < 0 && way == 0) {
                forget_peak();
                taken_kib = peak_kib();
            }
            begun = now_us();
            if (convoy_image_to_row(scratch, bytes, length, MAX_PIXELS, &asked, row, &error) != 0) {
                fprintf(stderr, "%s\n", error.message);
                return 1;
            }
            double us = now_us() - begun;
            if (round < 0 && way == 0)
                taken_kib = peak_kib() - taken_kib;
            if (round < 0)
                continue;
            full[round] = full_us;
            ours[way][round] = us;
            ratios[way][round] = us / full_us;
        }
    }
    printf("%d x %d to %s: full decode %.0f us, off %.0f us, ratio %.2f, %.1f MB, auto %.0f us, ratio %.2f\n",
           width, height, name, median(full, rounds), median(ours[0], rounds), median(ratios[0], rounds),
           (double)taken_kib / 1000, median(ours[1], rounds), median(ratios[1], rounds));
    convoy_image_scratch_free(scratch);
    free(row);
    free(pixels);
    tjDestroy(turbo);
    return 0;
}

static enum convoy_image_filter filter_named(const char *name)
{
    if (name != NULL && strcmp(name, "bicubic") == 0)
        return CONVOY_FILTER_BICUBIC;
    return name != NULL && strcmp(name, "lanczos") == 0 ? CONVOY_FILTER_LANCZOS : CONVOY_FILTER_BILINEAR;
}

int main(int argc, char **argv)
{
    size_t length = 0;
    uint8_t *bytes = argc > 2 ? file_bytes(argv[1], &length) : NULL;
    int status = bytes == NULL;
    if (status != 0)
        fprintf(stderr, "usage: bench_decode_time FILE SIDE[/COVER][:FILTER]...\n");
    for (int i = 2; status == 0 && i < argc; i++) {
        const char *cover = strchr(argv[i], '/'), *filter = strchr(argv[i], ':');
        int side = atoi(argv[i]), covered = cover != NULL ? atoi(cover + 1) : 0;
        struct convoy_image_target target = {.width = side,
                                             .height = side,
                                             .channels = 3,
                                             .fit = covered != 0 ? CONVOY_FIT_CROP : CONVOY_FIT_STRETCH,
                                             .filter = filter_named(filter != NULL ? filter + 1 : NULL),
                                             .cover_width = covered,
                                             .cover_height = covered};
        status = measure(bytes, length, &target, argv[i]);
    }
    free(bytes);
    return status;
}
