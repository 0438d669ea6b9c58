/* How many CPU cores this process may run on. */
#ifndef CONVOY_ENGINE_BASE_CORES_H
#define CONVOY_ENGINE_BASE_CORES_H

#include <sched.h>
#include <stdint.h>

/* Returns the number of cores in the process's affinity mask; 1 if it cannot be read. Any thread. */
static inline uint32_t convoy_cores(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    return (uint32_t)CPU_COUNT(&set);
}

#endif
