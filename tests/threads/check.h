/* What the programs that run under the thread sanitizer, where Criterion does not start, assert with. */
#ifndef CONVOY_TESTS_THREADS_CHECK_H
#define CONVOY_TESTS_THREADS_CHECK_H

#include <stdio.h>
#include <stdlib.h>

/* Any thread: ends the process with status 1 where the condition is false. */
#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition);                         \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

#endif
