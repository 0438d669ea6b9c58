/* The IDX reader on whole, cut and hostile files, and the PNG that is made of its pixels. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "client/data/idx.h"
#include "client/data/png.h"

static const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0,  0,  0,  2,  0,  0,
                                 0, 3, 1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16};
static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 9, 4};

static char folder[] = "/tmp/convoy-idx-XXXXXX";
static char images_path[64], labels_path[64];
static struct convoy_failure failure;
static struct client_idx idx;

static void make_folder(void)
{
    cr_assert(mkdtemp(folder));
    snprintf(images_path, sizeof images_path, "%s/t-images-idx3-ubyte", folder);
    snprintf(labels_path, sizeof labels_path, "%s/t-labels-idx1-ubyte", folder);
}

static void drop_folder(void)
{
    unlink(images_path);
    unlink(labels_path);
    rmdir(folder);
}

TestSuite(client_idx, .init = make_folder, .fini = drop_folder);

static void lay(const char *path, const uint8_t *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    cr_assert(file && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
}

static void reads_whole(void)
{
    uint8_t pixels[6], label;
    cr_assert_eq(client_idx_open(images_path, NULL, &idx, &failure), 0, "%s", failure.message);
    cr_assert(idx.count == 2 && idx.height == 2 && idx.width == 3);
    cr_assert_eq(client_idx_next(&idx, pixels, &label, &failure), 1);
    cr_assert_eq(label, 9);
    cr_assert_eq(memcmp(pixels, images + 16, 6), 0);
    cr_assert_eq(client_idx_next(&idx, pixels, &label, &failure), 1);
    cr_assert_eq(label, 4);
    cr_assert_eq(memcmp(pixels, images + 22, 6), 0);
    cr_assert_eq(client_idx_next(&idx, pixels, &label, &failure), 0);
    client_idx_close(&idx);
}

Test(client_idx, plain_files)
{
    lay(images_path, images, sizeof images);
    lay(labels_path, labels, sizeof labels);
    reads_whole();
}

Test(client_idx, gzip_files)
{
    gzFile file = gzopen(images_path, "wb");
    cr_assert_eq(gzwrite(file, images, sizeof images), (int)sizeof images);
    gzclose(file);
    file = gzopen(labels_path, "wb");
    cr_assert_eq(gzwrite(file, labels, sizeof labels), (int)sizeof labels);
    gzclose(file);
    reads_whole();
}

/* Whether it is cut in the header, the labels or the pixels: an error that names the file. */
Test(client_idx, cut_anywhere)
{
    uint8_t pixels[6], label;
    lay(labels_path, labels, sizeof labels);
    for (size_t size = 0; size < sizeof images; size++) {
        lay(images_path, images, size);
        int status = client_idx_open(images_path, NULL, &idx, &failure);
        cr_assert_eq(status, size < 16 ? -EINVAL : 0, "%zu bytes: %d", size, status);
        for (int i = 0; status == 0 && i < 2; i++)
            status = client_idx_next(&idx, pixels, &label, &failure) == 1 ? 0 : -1;
        cr_assert(status < 0, "%zu bytes", size);
        cr_assert(strstr(failure.message, images_path), "%s", failure.message);
        client_idx_close(&idx);
    }
    lay(images_path, images, sizeof images);
    for (size_t size = 0; size < sizeof labels; size++) {
        lay(labels_path, labels, size);
        cr_assert_eq(client_idx_open(images_path, NULL, &idx, &failure), -EINVAL, "%zu bytes", size);
        cr_assert(strstr(failure.message, labels_path), "%s", failure.message);
        client_idx_close(&idx);
    }
}

static void refused(size_t at, uint8_t value, const char *sentence)
{
    uint8_t invalid[sizeof images];
    memcpy(invalid, images, sizeof images);
    invalid[at] = value;
    lay(images_path, invalid, sizeof invalid);
    lay(labels_path, labels, sizeof labels);
    cr_assert_eq(client_idx_open(images_path, NULL, &idx, &failure), -EINVAL);
    cr_assert(strstr(failure.message, sentence), "%s", failure.message);
    client_idx_close(&idx);
}

Test(client_idx, hostile_headers)
{
    refused(0, 1, "two zero bytes");
    refused(2, 0x0D, "type 0x0d");
    refused(3, 1, "1 dimensions, 3");
    refused(4, 0xFF, "entries");
    refused(7, 3, "2 labels");
    refused(8, 0xFF, "1 to 65535");
    refused(15, 0, "1 to 65535");
    lay(images_path, images, sizeof images);
    unlink(labels_path);
    cr_assert_eq(client_idx_open(images_path, NULL, &idx, &failure), -ENOENT);
    client_idx_close(&idx);
    cr_assert_eq(client_idx_open("/nowhere", NULL, &idx, &failure), -ENOENT);
    client_idx_close(&idx);
}

Test(client_idx, a_png_of_the_pixels)
{
    uint8_t *png;
    size_t size;
    cr_assert_eq(client_png_encode(images + 16, 3, 2, &png, &size), 0);
    /* The image data, unpacked: a filter byte before each row. */
    uint8_t rows[8];
    uLongf got = sizeof rows;
    cr_assert_eq(uncompress(rows, &got, png + 41, size - 41 - 16), Z_OK);
    cr_assert_eq(got, 8);
    cr_assert_eq(memcmp(rows, "\0\1\2\3\0\4\5\6", 8), 0);
    cr_assert_eq(memcmp(png + size - 12, "\0\0\0\0IEND\xAE\x42\x60\x82", 12), 0);
    cr_assert_eq(memcmp(png + 12, "IHDR\0\0\0\3\0\0\0\2\10\0\0\0\0", 17), 0);
    free(png);
}
