#include "server/metrics/process_sample.h"

#include <dirent.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Opens /proc/PID/name. */
static FILE *open_of(pid_t pid, const char *name)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%ld/%s", (long)pid, name);
    return fopen(path, "re");
}

static double booted;

static void read_boot(void)
{
    struct timespec now, since_boot;

    clock_gettime(CLOCK_REALTIME, &now);
    clock_gettime(CLOCK_BOOTTIME, &since_boot);
    booted = (double)(now.tv_sec - since_boot.tv_sec) + (double)(now.tv_nsec - since_boot.tv_nsec) / 1e9;
}

/* When the machine was started, in seconds since the epoch. It is read once: one of the two clocks may be
 * set, and the start of a process that moves looks like a restart. */
static double boot_seconds(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, read_boot);
    return booted;
}

/* The fields of proc(5), from the 14th on, behind the name, which may hold blanks and parentheses. */
static bool read_stat(pid_t pid, struct convoy_process_sample *sample)
{
    char line[1024];
    uint64_t user, system, start, virtual_bytes;
    int64_t pages;
    double ticks = (double)sysconf(_SC_CLK_TCK);
    FILE *file = open_of(pid, "stat");

    if (file == NULL)
        return false;
    size_t length = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[length] = '\0';
    const char *behind = strrchr(line, ')');
    if (behind == NULL || sscanf(behind + 1,
                                 " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64
                                 " %*d %*d %*d %*d %*d %*d %" SCNu64 " %" SCNu64 " %" SCNd64,
                                 &user, &system, &start, &virtual_bytes,
                                 &pages) != 5) // NOLINT(cert-err34-c): the kernel's numbers
        return false;
    sample->cpu_seconds = (double)(user + system) / ticks;
    sample->start_seconds = boot_seconds() + (double)start / ticks;
    sample->virtual_bytes = virtual_bytes;
    sample->resident_bytes = (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
    return true;
}

static uint64_t count_fds(pid_t pid)
{
    char path[64];
    uint64_t count = 0, others = pid == getpid() ? 3 : 2; /* . and .., and the descriptor that lists them */

    snprintf(path, sizeof path, "/proc/%ld/fd", (long)pid);
    DIR *folder = opendir(path);
    if (folder == NULL)
        return 0;
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count > others ? count - others : 0; /* a process that ends meanwhile shows nothing */
}

static uint64_t read_max_fds(pid_t pid)
{
    char line[256];
    uint64_t most = 0;
    FILE *file = open_of(pid, "limits");

    if (file == NULL)
        return 0;
    while (most == 0 && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "Max open files %" SCNu64, &most) != 1) // NOLINT(cert-err34-c): the kernel's number
            most = 0;
    fclose(file);
    return most;
}

bool convoy_process_sample(pid_t pid, struct convoy_process_sample *sample)
{
    *sample = (struct convoy_process_sample){0};
    if (!read_stat(pid, sample))
        return false;
    sample->open_fds = count_fds(pid);
    sample->max_fds = read_max_fds(pid);
    return true;
}
