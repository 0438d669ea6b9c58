/* Kernels on trial: convoy_trial_kernels() of kernels.h. */
#include "kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

extern "C" bool convoy_trial_kernels(void)
{
    static int known; /* 0: not yet; 1: no; 2: yes. Threads that find 0 write the same. */
    int is = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (is == 0) {
        const char *value = getenv("CONVOY_TRIAL_KERNELS");
        is = value != nullptr && strcmp(value, "1") == 0 ? 2 : 1;
        __atomic_store_n(&known, is, __ATOMIC_RELAXED);
    }
    return is == 2;
}
