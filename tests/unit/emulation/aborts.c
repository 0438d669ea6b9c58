#include "tests/unit/emulation/aborts.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void expect_abort(void (*run)(int fault), int fault, const char *saying)
{
    int tube[2], status;
    char said[512];
    size_t length = 0;
    cr_assert_eq(pipe(tube), 0);
    fflush(NULL);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        dup2(tube[1], STDERR_FILENO);
        close(tube[0]);
        run(fault);
        _exit(0);
    }
    close(tube[1]);
    for (ssize_t got; (got = read(tube[0], said + length, sizeof said - 1 - length)) > 0;)
        length += (size_t)got;
    said[length] = '\0';
    close(tube[0]);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "%s: status %d", saying, status);
    cr_expect_neq(strstr(said, saying), NULL, "\"%s\" is not in \"%s\"", saying, said);
}
