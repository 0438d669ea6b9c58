/* Jobs of JPEG files that are damaged, or whose headers lie: these are told, and the others are right. */
#include "tests/unit/engine/backends/backend_jpeg.h"

TestSuite(backend_jpeg_damage, .init = open_jpeg, .fini = close_backend, .timeout = 300);

/* Each between whole ones, which are not touched; then all of them together. */
Test(backend_jpeg_damage, damaged_files)
{
    struct mirror mirror = load_mirror(24, 20, 3, 64, &stretch);
    /* Those of the stand-in are whole files for an engine, and what it makes of bits that are missing is its
     * own matter. */
    int damages = is_exact() ? DAMAGES : REFUSED;
    for (int damage = 0; damage <= damages; damage++) {
        struct rows *rows = new_rows();
        if (!is_exact() && damage == CUT_DATA)
            continue;
        for (int i = 0; i < 7; i++) {
            bool bad = i == 3 && damage < damages;
            add_row(rows, bad ? damaged((enum damage)damage) : usual(), 1);
        }
        if (damage == damages) {
            for (int all = 0; all < damages; all++)
                if (is_exact() || all != CUT_DATA)
                    add_row(rows, damaged((enum damage)all), 1);
            add_row(rows, usual(), 1);
        }
        lay_out(rows);
        uint64_t bad = damage < damages ? 8 : (((uint64_t)1 << (rows->count - 8)) - 1) << 7;
        check_rows_but(&mirror, rows, bad);
    }
    unload_mirror(&mirror);
}

/* A picture that is passed over shows nothing of the one that was decoded into the same memory before it,
 * however large both jobs are; the stand-in passes over some. So often that each state has several of either.
 */
Test(backend_jpeg_damage, passed_over_where_another_was)
{
    if (!is_exact())
        cr_skip("engines are not told to pass over a picture");
    struct mirror mirror = load_mirror(24, 20, 3, 64, &stretch);
    for (int turn = 0; turn < 24; turn++) {
        struct rows *rows = new_rows();
        int count = turn % 2 == 0 ? 4 : 1 + turn % 7;
        for (int i = 0; i < count; i++)
            add_row(rows, turn % 2 == 0 ? usual() : damaged(SKIPPED), 1);
        lay_out(rows);
        check_rows_but(&mirror, rows, turn % 2 == 0 ? 0 : ((uint64_t)1 << count) - 1);
    }
    unload_mirror(&mirror);
}

/* Whole files that look odd. */
Test(backend_jpeg_damage, unusual_files)
{
    struct mirror mirror = load_mirror(24, 20, 3, 64, &stretch);
    struct rows *rows = new_rows();
    struct file file = usual();
    add_row(rows, with_bytes(file, file.length, 0, "what follows the end \xff\xd9", 23), 1);
    add_row(rows, encode(&(struct encoding){.width = 90, .height = 60, .restart = 3}), 1);
    add_row(rows, encode(&(struct encoding){.width = 90, .height = 60, .restart = 1, .grey = true}), 1);
    file = usual();
    add_row(rows,
            with_bytes(file, 2, 0,
                       "\xff\xff\xff\xfe\0\x05"
                       "abc",
                       9),
            1); /* fill bytes, a comment */
    file = usual();
    add_row(rows, with_bytes(file, 2, 18, "", 0), 1); /* no JFIF */
    file = usual();
    add_row(rows,
            with_bytes(file, 2, 18,
                       "\xff\xee\0\x0e"
                       "Adobe\0\x64\0\0\0\0\x01",
                       16),
            1);
    add_row(rows, encode(&(struct encoding){.width = 300, .height = 200, .quality = 1}), 1);
    add_row(rows, encode(&(struct encoding){.width = 60, .height = 50, .quality = 100}), 1);
    lay_out(rows);
    check_rows_but(&mirror, rows, 0);
    unload_mirror(&mirror);
}

/* Headers that lie about whole files. */
Test(backend_jpeg_damage, headers_that_lie)
{
    struct mirror mirror = load_mirror(24, 20, 3, 64, &stretch);
    struct rows *rows = new_rows();
    for (int i = 0; i < 16; i++)
        add_row(rows, usual(), 1);
    lay_out(rows);
    header_of(rows, 0)->width = 41;
    header_of(rows, 1)->height = 29;
    header_of(rows, 2)->components = 1;
    header_of(rows, 3)->components = 2;
    header_of(rows, 4)->orientation = 0;
    header_of(rows, 5)->orientation = 9;
    header_of(rows, 6)->length = UINT32_MAX;
    header_of(rows, 7)->length = 0;
    header_of(rows, 8)->offset += 32;
    header_of(rows, 9)->offset = 0;
    header_of(rows, 10)->offset = UINT32_MAX - 63;
    header_of(rows, 11)->width = 0;
    header_of(rows, 12)->height = CONVOY_JPEG_SIDE_MAX + 1;
    header_of(rows, 13)->length -= 1;
    header_of(rows, 15)->length = (uint32_t)(rows->bytes - (size_t)15 * 64 - header_of(rows, 15)->offset + 1);
    check_rows_but(&mirror, rows, 0xbfff);
    unload_mirror(&mirror);
}

static struct file copy_of(const struct file *file)
{
    struct file copy = *file;
    copy.bytes = malloc(file->length);
    cr_assert(copy.bytes != NULL);
    memcpy(copy.bytes, file->bytes, file->length);
    return copy;
}

static bool front_refuses(const struct file *file)
{
    struct convoy_image_target target = {.width = 24, .height = 20, .channels = 3};
    struct convoy_image_scratch *scratch = convoy_image_scratch_new();
    struct convoy_error error;
    uint8_t row[24 * 20 * 3];
    int code = convoy_image_to_row(scratch, file->bytes, file->length, 1u << 20, &target, row, &error);
    convoy_image_scratch_free(scratch);
    return code != 0;
}

/* Bits flip in the entropy-coded data of half the files, so that the rest of it means something else or ends
 * too early: what comes of these is theirs; the whole ones beside them give the same bits each time. */
Test(backend_jpeg_damage, bits_that_flip)
{
    enum { ROWS = 12 };
    int jobs = is_exact() ? 12 : 400, flipped = 0, refused = 0, told = 0;
    struct mirror mirror = load_mirror(24, 20, 3, 64, &stretch);
    float *first = NULL;
    struct file kept[ROWS];
    for (int i = 0; i < ROWS; i++)
        kept[i] = usual();
    for (int job = 0; job < jobs; job++) {
        struct rows *rows = new_rows();
        struct convoy_job_times times;
        for (int i = 0; i < ROWS; i++)
            add_row(rows, copy_of(&kept[i]), 1);
        random_state = (uint64_t)job * 77 + 1;
        for (int i = 1; i < ROWS && job > 0; i += 2) {
            struct file *file = &rows->files[i];
            size_t data = marker_at(file, 0xda) + 14, length = file->length - 2 - data;
            for (int flips = 1 + job % 3; flips > 0; flips--) {
                uint8_t *byte = file->bytes + data + (size_t)((random_value() + 1) / 2 * (float)(length - 1));
                *byte ^= (uint8_t)(1 << (int)((random_value() + 1) * 3.99f));
            }
        }
        lay_out(rows);
        float *output = run_rows(&mirror, rows, &times);
        if (first == NULL)
            first = output;
        for (uint32_t row = 0; row < ROWS; row += 2) {
            size_t at = row * output_stride(&mirror) / sizeof(float);
            cr_assert(!is_undecoded(&times, row), "job %d row %u", job, row);
            cr_assert_arr_eq(output + at, first + at, mirror.info.outputs_per_row * sizeof(float));
        }
        for (uint32_t row = 1; row < ROWS && job > 0; row += 2, flipped++)
            if (front_refuses(&rows->files[row])) {
                refused++;
                told += is_undecoded(&times, row);
            }
        if (output != first)
            free(output);
        free_rows(rows);
    }
    cr_log_info("%d files with flipped bits: the front refuses %d, of which the device told %d", flipped,
                refused, told);
    free(first);
    for (int i = 0; i < ROWS; i++)
        free(kept[i].bytes);
    unload_mirror(&mirror);
}

/* Bits of all words of the report. */
Test(backend_jpeg_damage, many_rows)
{
    struct mirror mirror = load_mirror(8, 8, 3, 256, &stretch);
    struct rows *rows = new_rows();
    struct convoy_job_times times;
    for (int i = 0; i < 256; i++)
        add_row(rows, i == 3 || i == 64 || i == 130 || i == 255 ? damaged(NO_START) : usual(), 1);
    lay_out(rows);
    float *output = run_rows(&mirror, rows, &times);
    const uint64_t want[] = {8, 1, 4, (uint64_t)1 << 63};
    cr_assert_arr_eq(times.undecoded, want, sizeof(want));
    free(output);
    free_rows(rows);
    unload_mirror(&mirror);
}

/* A picture that shrinks so much that the kernel's lines do not hold what a tile needs is the front's. */
Test(backend_jpeg_damage, too_wide)
{
    struct mirror mirror = load_mirror(24, 20, 3, 64, &stretch);
    struct rows *rows = new_rows();
    add_row(rows, usual(), 1);
    add_row(rows, encode(&(struct encoding){.width = 6500, .height = 4}), 1);
    add_row(rows, encode(&(struct encoding){.width = 4, .height = 6500}), 1); /* rows go first */
    add_row(rows, encode(&(struct encoding){.width = 6000, .height = 4}), 1);
    add_row(rows, encode(&(struct encoding){.width = 4, .height = 6000}), 8);
    lay_out(rows);
    check_rows_but(&mirror, rows, 6);
    unload_mirror(&mirror);
}
