/* The convolutions that are checked and timed: those of the library, and among them those kept for
 * comparison. */
#include "kernels/check/check_conv.h"
#include "kernels/reference/reference.h"

static const struct convoy_conv_kernel *all[CHECK_KERNELS_MAX];
static int all_count;

static void add(const struct convoy_conv_kernel *kernel)
{
    if (all_count == CHECK_KERNELS_MAX)
        check_die("more than %d convolutions: enlarge CHECK_KERNELS_MAX", CHECK_KERNELS_MAX);
    all[all_count++] = kernel;
}

const struct convoy_conv_kernel *const *check_kernels(int *count)
{
    int library_count = 0, reference_count = 0;
    const struct convoy_conv_kernel *const *library = convoy_conv_kernels(&library_count);
    const struct convoy_reference_kernel *reference = convoy_reference_kernels(&reference_count);
    for (int i = 0; all_count < library_count + reference_count && i < library_count; i++) {
        add(library[i]);
        for (int j = 0; j < reference_count; j++)
            if (check_name_matches(library[i], reference[j].after) &&
                (i + 1 == library_count || !check_name_matches(library[i + 1], reference[j].after)))
                add(reference[j].kernel);
    }
    *count = all_count;
    return all;
}

bool check_is_reference(const struct convoy_conv_kernel *kernel)
{
    int count = 0;
    const struct convoy_reference_kernel *reference = convoy_reference_kernels(&count);
    for (int i = 0; i < count; i++)
        if (reference[i].kernel == kernel)
            return true;
    return false;
}
