/* Memory for activations and weights. */
#include "engine/cpu/memory.h"

#include <criterion/criterion.h>

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether the kernel was asked for huge pages ("hg") where `address` is. */
static bool asked_for_huge_pages(const void *address)
{
    char line[4096];
    bool here = false, asked = false;
    FILE *file = fopen("/proc/self/smaps", "re");
    cr_assert_not_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        uintptr_t first = 0, end = 0;
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &first, &end) == 2)
            here = first <= (uintptr_t)address && (uintptr_t)address < end;
        else if (here && strncmp(line, "VmFlags:", 8) == 0)
            asked = strstr(line, " hg") != NULL;
    }
    fclose(file);
    return asked;
}

Test(memory, large_memory_has_huge_pages_small_has_not)
{
    static const size_t sizes[] = {64, 4096, (2 << 20) - 64, 2 << 20, (2 << 20) + 64, 9 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char *memory = convoy_cpu_allocate(sizes[i]);
        cr_assert_not_null(memory);
        bool large = sizes[i] >= 2 << 20;
        cr_assert_eq((uintptr_t)memory % (large ? 2 << 20 : 64), 0, "%zu bytes at %p", sizes[i],
                     (void *)memory);
        memset(memory, 1, sizes[i]);
        cr_assert_eq(asked_for_huge_pages(memory), large, "%zu bytes", sizes[i]);
        convoy_cpu_free(memory, sizes[i]);
    }
    convoy_cpu_free(NULL, 64);
    convoy_cpu_free(NULL, 9 << 20);
}

/* Else malloc could give that memory to others. */
Test(memory, what_has_huge_pages_goes_back_to_the_kernel)
{
#ifdef __SANITIZE_ADDRESS__
    cr_skip("it keeps what is freed for a while");
#endif
    free(malloc((size_t)24 << 20)); /* from now on malloc keeps smaller ones, too */
    size_t bytes = (size_t)3 << 20;
    char *memory = convoy_cpu_allocate(bytes);
    cr_assert_not_null(memory);
    memset(memory, 1, bytes);
    cr_assert(asked_for_huge_pages(memory));
    convoy_cpu_free(memory, bytes);
    cr_assert_not(asked_for_huge_pages(memory));
}
