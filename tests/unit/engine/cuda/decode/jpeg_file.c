/* What is looked for in a JPEG file before a device is given it. */
#include "engine/cuda/decode/jpeg_file.h"

#include "tests/unit/engine/backends/jpeg_forge.h"

TestSuite(jpeg_file, .timeout = 20);

static bool takes(const struct file *file, struct convoy_jpeg_file *seen)
{
    /* Behind a copy of its length nothing may be read: the address sanitizer sees it. */
    uint8_t *copy = malloc(file->length);
    cr_assert(copy != NULL);
    memcpy(copy, file->bytes, file->length);
    bool taken = convoy_jpeg_file_read(copy, file->length, seen);
    free(copy);
    return taken;
}

Test(jpeg_file, whole_files)
{
    struct convoy_jpeg_file seen;
    for (int form = 0; form < 5; form++)
        for (int restart = 0; restart < 20; restart += 3) {
            struct encoding how = {.width = 200 + form,
                                   .height = 31,
                                   .grey = form == 4,
                                   .half_x = form & 1,
                                   .half_y = form >> 1 & 1,
                                   .restart = restart};
            struct file file = encode(&how);
            cr_assert(takes(&file, &seen), "form %d", form);
            cr_assert_eq(seen.length, file.length);
            cr_assert_eq(seen.width, (uint32_t)how.width);
            cr_assert_eq(seen.height, 31);
            cr_assert_eq(seen.components, how.grey ? 1 : 3);
            cr_assert_eq(seen.half_x, (uint32_t)(how.grey ? 0 : how.half_x));
            cr_assert_eq(seen.half_y, (uint32_t)(how.grey ? 0 : how.half_y));
            free(file.bytes);
        }
}

/* All but those that are whole, and whose data is shorter than it should be. */
Test(jpeg_file, damaged_files)
{
    struct convoy_jpeg_file seen;
    for (int damage = 0; damage < REFUSED; damage++) {
        struct file file = damaged((enum damage)damage);
        cr_assert_eq(takes(&file, &seen), damage == CUT_DATA, "damage %d", damage);
        free(file.bytes);
    }
}

Test(jpeg_file, ends_anywhere)
{
    struct convoy_jpeg_file seen;
    struct file file =
        encode(&(struct encoding){.width = 60, .height = 50, .restart = 2, .comment = "hello"});
    unsigned long whole = file.length;
    for (file.length = 0; file.length < whole; file.length++)
        cr_assert(!takes(&file, &seen), "%lu of %lu bytes", file.length, whole);
    free(file.bytes);
}

/* A table of codes that a scan names must have been defined, each of the four. */
Test(jpeg_file, lacks_a_table)
{
    struct convoy_jpeg_file seen;
    for (int lacks = 0; lacks < 4; lacks++) {
        struct file file = usual();
        size_t at = 2;
        for (int tables = 0; tables <= lacks; tables++) {
            while (file.bytes[at + 1] != 0xc4)
                at += 2 + ((size_t)file.bytes[at + 2] << 8 | file.bytes[at + 3]);
            if (tables == lacks)
                file.bytes[at + 1] = 0xfe;
            at += 2 + ((size_t)file.bytes[at + 2] << 8 | file.bytes[at + 3]);
        }
        cr_assert(!takes(&file, &seen), "table %d", lacks);
        free(file.bytes);
    }
}

/* A few bytes that promise millions of pixels. */
Test(jpeg_file, promises_too_much)
{
    struct convoy_jpeg_file seen;
    struct file file = usual();
    size_t frame = marker_at(&file, 0xc0);
    file.bytes[frame + 5] = 0x20; /* 8,000 x 8,000 */
    file.bytes[frame + 7] = 0x20;
    cr_assert(!takes(&file, &seen));
    free(file.bytes);
}

/* Any byte may be any other: nothing is read that is not there, and what is taken has a size. */
Test(jpeg_file, any_byte)
{
    struct convoy_jpeg_file seen;
    struct file file = usual();
    for (unsigned long at = 0; at < file.length; at++) {
        uint8_t was = file.bytes[at];
        for (int value = 0; value < 256; value += 5) {
            file.bytes[at] = (uint8_t)value;
            if (takes(&file, &seen))
                cr_assert(seen.width > 0 && seen.height > 0 && seen.length <= file.length);
        }
        file.bytes[at] = was;
    }
    free(file.bytes);
}
