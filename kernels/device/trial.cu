/* Kernels on trial: convoy_trial_kernels() of kernels.h. */
#include "kernels/kernels.h"

#include <stdlib.h>
#include <string.h>

extern "C" bool convoy_trial_kernels(void)
{
    static int known; /* 0: not yet; 1: no; 2: yes. Threads that find 0 write the same. */
    if (known == 0) {
        const char *value = getenv("CONVOY_TRIAL_KERNELS");
        known = value != nullptr && strcmp(value, "1") == 0 ? 2 : 1;
    }
    return known == 2;
}
