#include "engine/worker/hold_last.h"

#include <fcntl.h>
#include <sys/resource.h>

#define ABOVE 4096 /* a CUDA context with its JPEG decoder has some hundred descriptors */

void convoy_worker_hold_last(int fd)
{
    struct rlimit limit;
    int lowest = ABOVE;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur <= ABOVE)
        lowest = (int)limit.rlim_cur - 1;
    (void)fcntl(fd, F_DUPFD_CLOEXEC, lowest);
}
