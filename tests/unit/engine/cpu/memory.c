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
        free(memory);
    }
}
