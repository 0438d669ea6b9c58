/* When auto confines the files of a worker with a GPU. */
#include "engine/worker/confine_gpu.h"

#include "tests/unit/folder.h"

#include <criterion/criterion.h>

static struct folder devices, mps;
static struct convoy_error why;

static void begin(void)
{
    devices = folder_make();
    mps = folder_make();
    folder_write(&devices, "nvidiactl", "");
    folder_write(&devices, "nvidia-uvm", "");
    folder_write(&devices, "nvidia1", "");
}

static void end(void)
{
    folder_remove(&devices);
    folder_remove(&mps);
}

TestSuite(confine_gpu, .init = begin, .fini = end);

static bool starts(const char *folder)
{
    why.message[0] = '\0';
    return convoy_worker_gpu_starts_confined(devices.path, NULL, folder, &why);
}

Test(confine_gpu, where_the_device_files_are_and_no_mps)
{
    cr_assert(starts("/nonexistent"), "%s", why.message);
    cr_assert_str_eq(why.message, "");
}

Test(confine_gpu, not_where_a_device_file_is_to_be_made)
{
    static const char *const files[] = {"nvidiactl", "nvidia-uvm", "nvidia1"};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        cr_assert_eq(remove(folder_path(&devices, files[i])), 0);
        cr_assert_not(starts("/nonexistent"), "%s", files[i]);
        cr_assert_not_null(strstr(why.message, i < 2 ? files[i] : "/nvidia[0-9]* is"), "%s", why.message);
        cr_assert_not_null(strstr(why.message, "nvidia-modprobe -u -c N"), "%s", why.message);
        folder_write(&devices, files[i], "");
    }
}

Test(confine_gpu, not_where_mps_of_this_user_or_of_root_is)
{
    cr_assert_not(starts(mps.path));
    cr_assert_not_null(strstr(why.message, "MPS"), "%s", why.message);
}

Test(confine_gpu, a_folder_of_another_user_decides_nothing)
{
    if (geteuid() != 0)
        cr_skip_test("only root gives folders away");
    cr_assert_eq(chown(mps.path, 61183, 61183), 0);
    cr_assert(starts(mps.path), "%s", why.message);
    cr_assert_not(convoy_worker_gpu_starts_confined(devices.path, mps.path, "/nonexistent", &why), "named");
    cr_assert_eq(seteuid(61183), 0);
    cr_assert_not(starts(mps.path), "of the worker's own user");
    cr_assert_eq(seteuid(0), 0);
    cr_assert_eq(chown(mps.path, 0, 0), 0);
    cr_assert_eq(chmod(mps.path, 0755), 0);
    cr_assert_eq(chmod(devices.path, 0755), 0);
    cr_assert_eq(seteuid(61183), 0);
    cr_assert_not(starts(mps.path), "of root");
    cr_assert_eq(seteuid(0), 0);
}
