/* Kernels that the emulation ends the process for. */
#ifndef CONVOY_TESTS_EMULATION_ABORTS_H
#define CONVOY_TESTS_EMULATION_ABORTS_H

/* Expects that a process of its own which calls run(fault) aborts, and writes `saying` to its standard error.
 */
void expect_abort(void (*run)(int fault), int fault, const char *saying);

#endif
