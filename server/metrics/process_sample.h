/* What the kernel says of a process: what Prometheus' client libraries report as process_*. Any thread. */
#ifndef CONVOY_SERVER_PROCESS_SAMPLE_H
#define CONVOY_SERVER_PROCESS_SAMPLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct convoy_process_sample {
    double cpu_seconds;   /* user and system */
    double start_seconds; /* since the epoch */
    uint64_t resident_bytes, virtual_bytes;
    uint64_t open_fds, max_fds; /* 0 where the kernel does not tell: a process of another user */
};

/* Reads /proc/PID: some 30 us, and 0.2 us for each open descriptor, which are listed. False when there is no
 * such process. */
bool convoy_process_sample(pid_t pid, struct convoy_process_sample *sample);

#endif
