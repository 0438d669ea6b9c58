#include "server/workers/worker_exit_text.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

void convoy_worker_exit_text(int status, char *text, size_t capacity)
{
    if (WIFSIGNALED(status))
        snprintf(text, capacity, "killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        snprintf(text, capacity, "exit status %d", WEXITSTATUS(status));
}
