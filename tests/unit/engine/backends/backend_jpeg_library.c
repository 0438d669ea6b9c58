/* Devices that cannot decode JPEG files, and libraries that fail. On the emulated GPU alone. */
#include "tests/unit/engine/backends/backend_jpeg.h"

#include <sys/mman.h>
#include <unistd.h>

TestSuite(backend_jpeg_library, .fini = close_backend, .timeout = 300);

/* Opens a device whose library behaves like that; on a GPU there is no such thing. */
static void open_as(const char *library, const char *wish)
{
    if (!is_exact() || backend_nvjpeg[0] == '\0')
        cr_skip("there is no stand-in for the library");
    if (wish != NULL)
        setenv("CONVOY_EMULATED_NVJPEG", wish, 1);
    open_with_library(library);
}

/* A network for pixels is loaded all the same. */
static void check_takes_none(const char *said)
{
    struct mirror mirror;
    struct convoy_error error;
    cr_assert_eq(try_mirror(&mirror, 24, 20, 3, 8, &stretch, &error), 0, "%s", error.message);
    cr_assert(!mirror.info.takes_jpeg);
    cr_assert(strstr(logged, said) != NULL, "'%s' is not in: %s", said, logged);
    check_rows(mirror.graph, mirror.net, &mirror.info, CONVOY_LAYOUT_F32_CHW, 3, 1e-6);
    struct rows *rows = new_rows();
    struct convoy_job_times times;
    add_row(rows, usual(), 1);
    lay_out(rows);
    struct convoy_job job = job_of(&mirror, rows, NULL, &times);
    cr_assert_eq(backend->submit(device, mirror.net, &job, &error), -EINVAL);
    free_rows(rows);
    unload_mirror(&mirror);
}

/* The driver reads the number of queues when it is asked first. */
Test(backend_jpeg_library, asks_for_queues)
{
    unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
    open_as(NULL, NULL);
    cr_assert_null(getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "without files there is nothing to wait for");
    backend->close(device);
    open_as(backend_nvjpeg, NULL);
    cr_assert_str_eq(getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "32");
    backend->close(device);
    unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
    struct convoy_error error;
    cr_assert_eq(backend->open(0, &(struct convoy_open_options){.streams = 1, .pixels_only = true}, &device,
                               &about, &error),
                 0);
    cr_assert_null(getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "files that never come wait for nothing");
    cr_assert_eq(about.jpeg_jobs, 0);
    backend->close(device);
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "16", 1);
    open_as(backend_nvjpeg, NULL);
    cr_assert_str_eq(getenv("CUDA_DEVICE_MAX_CONNECTIONS"), "16", "who runs the worker knows better");
}

Test(backend_jpeg_library, is_not_there)
{
    open_as(NULL, NULL);
    cr_assert_eq(about.jpeg_jobs, 0);
    check_takes_none("info: JPEG files are decoded by the processor: there is no libnvjpeg.so.13");
}

Test(backend_jpeg_library, lacks_a_function)
{
    open_as(backend_nvjpeg_lacking, NULL);
    cr_assert_eq(about.jpeg_jobs, 0);
    check_takes_none("libnvjpeg.so.13 lacks nvjpegGetImageInfo");
}

Test(backend_jpeg_library, has_no_backend)
{
    open_as(backend_nvjpeg, "none");
    check_takes_none("nvjpegCreateExV2: implementation not supported");
    int tries = 0;
    check_takes_none("nvjpegCreateExV2: implementation not supported");
    for (const char *at = logged; (at = strstr(at, "cannot be decoded by")) != NULL; at++)
        tries++;
    cr_assert_eq(tries, 4, "%s", logged); /* each way once, for both networks together */
}

Test(backend_jpeg_library, decodes_nothing)
{
    open_as(backend_nvjpeg, "fail");
    check_takes_none("nvjpegDecodeBatched: execution failed");
}

Test(backend_jpeg_library, decodes_wrongly)
{
    open_as(backend_nvjpeg, "other");
    check_takes_none("gives other pixels than a known picture has");
}

/* The pictures of the first probe are flat: these are found by the file whose row is known. */
Test(backend_jpeg_library, loses_what_is_in_a_block)
{
    open_as(backend_nvjpeg, "flat");
    check_takes_none("of a known JPEG file are off by more than");
    cr_assert_eq(backend->verify_decoder(device, &(struct convoy_error){0}), 0);
}

Test(backend_jpeg_library, a_state_decodes_wrongly)
{
    open_as(backend_nvjpeg, "second");
    check_takes_none("of a known JPEG file are off by more than");
}

/* What was right at the start is found when it goes wrong; a decoder that decodes nothing is none that goes
 * wrong. */
Test(backend_jpeg_library, decodes_wrongly_later)
{
    char wish[64];
    struct convoy_error error;
    int file = memfd_create("wish", 0); /* has no name, so that nothing stays where the test ends early */
    cr_assert_geq(file, 0);
    snprintf(wish, sizeof(wish), "later:/proc/self/fd/%d", file);
    open_as(backend_nvjpeg, wish);
    cr_assert_eq(backend->verify_decoder(device, &error), 0); /* nothing was made yet */
    struct mirror mirror = load_mirror(2, 1, 3, 1, &stretch); /* of smaller rows than the known one */
    for (int again = 0; again < 3; again++)
        cr_assert_eq(backend->verify_decoder(device, &error), 1, "%s", error.message);
    cr_assert_eq(write(file, "all", 3), 3);
    cr_assert_eq(backend->verify_decoder(device, &error), -EBADMSG);
    cr_assert(strstr(error.message, "of a known JPEG file are off by more than 6 levels") != NULL, "%s",
              error.message);
    cr_assert_eq(ftruncate(file, 0), 0);
    cr_assert_eq(backend->verify_decoder(device, &error), 1, "%s", error.message);
    setenv("CONVOY_EMULATED_NVJPEG", "fail", 1);
    cr_assert_eq(backend->verify_decoder(device, &error), 0);
    unsetenv("CONVOY_EMULATED_NVJPEG");
    struct rows *rows = new_rows();
    add_row(rows, usual(), 1);
    lay_out(rows);
    check_rows_but(&mirror, rows, 0);
    unload_mirror(&mirror);
    cr_assert_eq(backend->verify_decoder(device, &error), 1, "%s", error.message);
    close(file);
}

Test(backend_jpeg_library, wants_too_much_memory)
{
    open_as(backend_nvjpeg, "memory");
    check_takes_none("allocator failure");
}

Test(backend_jpeg_library, has_no_engines)
{
    open_as(backend_nvjpeg, "no-engines");
    struct mirror mirror = load_mirror(24, 20, 3, 8, &stretch);
    cr_assert(strstr(logged, "info: JPEG files are decoded by nvJPEG's kernels (nvJPEG 13.0.1)") != NULL,
              "%s", logged);
    struct rows *rows = new_rows();
    add_row(rows, usual(), 1);
    lay_out(rows);
    check_rows_but(&mirror, rows, 0);
    unload_mirror(&mirror);
}

/* Grey files are told undecoded, the others are decoded. */
Test(backend_jpeg_library, takes_no_grey)
{
    open_as(backend_nvjpeg, "no-grey");
    struct mirror mirror = load_mirror(24, 20, 3, 8, &stretch);
    cr_assert(strstr(logged, "info: grey JPEG files are decoded by the processor: nvjpegDecodeBatched") !=
                  NULL,
              "%s", logged);
    struct rows *rows = new_rows();
    for (int i = 0; i < 6; i++)
        add_row(rows, encode(&(struct encoding){.width = 40, .height = 30, .grey = i % 3 == 1}), 1);
    lay_out(rows);
    check_rows_but(&mirror, rows, 0x12);
    unload_mirror(&mirror);
}

Test(backend_jpeg_library, engines_are_taken_first)
{
    open_as(backend_nvjpeg, NULL);
    struct mirror mirror = load_mirror(24, 20, 3, 8, &stretch);
    cr_assert(strstr(logged, "info: JPEG files are decoded by the GPU's JPEG engines") != NULL, "%s", logged);
    unload_mirror(&mirror);
}

/* From now on each file fails: each is told, and the device is not lost. */
Test(backend_jpeg_library, fails_later)
{
    open_as(backend_nvjpeg, NULL);
    struct mirror mirror = load_mirror(24, 20, 3, 16, &stretch);
    setenv("CONVOY_EMULATED_NVJPEG", "fail", 1);
    for (int again = 0; again < 2; again++) {
        struct rows *rows = new_rows();
        for (int i = 0; i < 9; i++)
            add_row(rows, usual(), 1);
        lay_out(rows);
        check_rows_but(&mirror, rows, again == 0 ? 0x1ff : 0);
        unsetenv("CONVOY_EMULATED_NVJPEG");
    }
    unload_mirror(&mirror);
}

/* A fault of the device in the middle of decoding is the device's, whatever file it was. */
Test(backend_jpeg_library, loses_the_device)
{
    open_as(backend_nvjpeg, NULL);
    struct mirror mirror = load_mirror(24, 20, 3, 16, &stretch);
    struct rows *rows = new_rows();
    struct convoy_job_times times;
    struct convoy_error error;
    uint64_t tag;
    add_row(rows, usual(), 1);
    add_row(rows, encode(&(struct encoding){.width = 40, .height = 30, .comment = "nvjpeg:lose"}), 1);
    lay_out(rows);
    float *output = aligned_bytes(rows->count * output_stride(&mirror));
    struct convoy_job job = job_of(&mirror, rows, output, &times);
    cr_assert_eq(backend->submit(device, mirror.net, &job, &error), 0, "%s", error.message);
    cr_assert_lt(take(&tag, &error), 0);
    cr_assert(strstr(error.message, "cudaErrorIllegalAddress") != NULL, "%s", error.message);
    free(output);
    free_rows(rows);
    device = NULL; /* as the worker, which ends: nothing is cleaned up */
}

/* Without memory for the decoder the network is served, and takes pixels. */
Test(backend_jpeg_library, memory_does_not_suffice)
{
    setenv("CONVOY_EMULATED_FAULT", "memory:6000000", 1);
    open_as(backend_nvjpeg, NULL);
    check_takes_none("warning: model 'mirror': JPEG files are decoded by the processor");
}

/* A device with so many bytes: does a network of large rows take files, and what does it hold then? */
static bool takes_files_within(uint64_t bytes, uint64_t *held)
{
    struct mirror mirror;
    struct convoy_error error;
    struct convoy_device_memory memory;
    char fault[64];
    snprintf(fault, sizeof(fault), "memory:%llu", (unsigned long long)bytes);
    setenv("CONVOY_EMULATED_FAULT", fault, 1);
    open_as(backend_nvjpeg, NULL);
    bool loads = try_mirror(&mirror, 256, 256, 3, 2, &stretch, &error) == 0;
    bool takes = loads && mirror.info.takes_jpeg;
    cr_assert_eq(backend->memory(device, &memory, &error), 0);
    *held = memory.workspace;
    if (loads)
        unload_mirror(&mirror);
    close_backend();
    return takes;
}

/* Each state needs a room; the others are for speed. */
Test(backend_jpeg_library, fewer_rooms_where_memory_is_short)
{
    enum { STEP = 200 << 10, ROOM = 2 * 256 * 256 * 3 };
    uint64_t all, held, bytes = 4 << 20;
    cr_assert(takes_files_within(UINT64_C(1) << 30, &all));
    while (!takes_files_within(bytes, &held))
        cr_assert_lt(bytes += STEP, (uint64_t)64 << 20);
    cr_assert_lt(held + 4 * ROOM, all, "with as little as %llu bytes it holds %llu, with enough %llu",
                 (unsigned long long)bytes, (unsigned long long)held, (unsigned long long)all);
}

Test(backend_jpeg_library, networks_that_take_none)
{
    struct convoy_error error;
    struct mirror mirror;
    struct convoy_image_fitting none = {0};
    open_as(backend_nvjpeg, NULL);
    cr_assert_eq(try_mirror(&mirror, 24, 20, 3, 8, &none, &error), 0, "%s", error.message);
    cr_assert(!mirror.info.takes_jpeg);
    cr_assert(strstr(logged, "JPEG") == NULL, "%s", logged); /* nothing was made for it */
    unload_mirror(&mirror);
    for (int channels = 2; channels <= 5; channels++) {
        cr_assert_eq(try_mirror(&mirror, 24, 20, channels, 8, &stretch, &error), 0, "%s", error.message);
        cr_assert_eq(mirror.info.takes_jpeg, channels == 3);
        unload_mirror(&mirror);
    }
}
