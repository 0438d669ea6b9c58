#include "server/workers/process_ending.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_THREADS 4096
#define STAT_BYTES   1024
#define EXITING      0x4u /* PF_EXITING of the kernel's include/linux/sched.h; a zombie keeps it */

struct threads {
    uint32_t count;
    pid_t ids[MOST_THREADS];
};

bool convoy_thread_stat_ends(const char *stat)
{
    unsigned flags = 0;
    /* The second field is the name, which the thread chooses: it may hold brackets and blanks. */
    const char *behind = strrchr(stat, ')');
    /* state, parent, group, session, terminal, its foreground group, flags */
    return behind != NULL && sscanf(behind + 1, " %*c %*d %*d %*d %*d %*d %u", &flags) == 1 &&
           (flags & EXITING) != 0;
}

/* 1: the thread is ending; 0: it runs; a negative errno. */
static int look_at_thread(int folder, const char *id)
{
    char path[32], text[STAT_BYTES];
    snprintf(path, sizeof path, "%.16s/stat", id);
    int file = openat(folder, path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -errno;
    ssize_t got = read(file, text, sizeof text - 1);
    int code = got < 0 ? -errno : 0;
    close(file);
    if (code != 0)
        return code;
    text[got] = '\0';
    return convoy_thread_stat_ends(text);
}

static enum convoy_process_ending look(DIR *folder, struct threads *threads)
{
    const struct dirent *entry;
    threads->count = 0;
    for (errno = 0; (entry = readdir(folder)) != NULL; errno = 0) {
        if (entry->d_name[0] == '.')
            continue;
        int ends = look_at_thread(dirfd(folder), entry->d_name);
        if (ends == 0)
            return CONVOY_PROCESS_RUNS;
        if (ends == -ENOENT || ends == -ESRCH) /* gone since: what it started last may not be listed */
            return CONVOY_PROCESS_RUNS;
        if (ends < 0 || threads->count == MOST_THREADS)
            return CONVOY_PROCESS_NOT_VISIBLE;
        threads->ids[threads->count++] = (pid_t)strtol(entry->d_name, NULL, 10);
    }
    /* The first thread of a process is listed until the process is gone. */
    return errno == 0 && threads->count > 0 ? CONVOY_PROCESS_ENDS : CONVOY_PROCESS_NOT_VISIBLE;
}

/* The kernel lists threads in the order in which they were started. */
static bool same(const struct threads *a, const struct threads *b)
{
    return a->count == b->count && memcmp(a->ids, b->ids, a->count * sizeof a->ids[0]) == 0;
}

enum convoy_process_ending convoy_process_ending(pid_t pid)
{
    struct threads first, second;
    char path[48];
    snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
    DIR *folder = opendir(path);
    if (folder == NULL)
        return CONVOY_PROCESS_NOT_VISIBLE;
    enum convoy_process_ending state = look(folder, &first);
    if (state == CONVOY_PROCESS_ENDS) {
        rewinddir(folder);
        state = look(folder, &second);
    }
    closedir(folder);
    /* One that has gone meanwhile makes a difference, too: the next look will tell. */
    return state == CONVOY_PROCESS_ENDS && !same(&first, &second) ? CONVOY_PROCESS_RUNS : state;
}
