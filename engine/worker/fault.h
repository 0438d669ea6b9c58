/* Faults on purpose, for tests only. The environment variable CONVOY_TEST_FAULT chooses one:
 *   kill:R,G,B   an 8-bit image whose first pixel is R,G,B kills the worker (SIGKILL) when it is run
 *   hang:R,G,B   the same, but the job never ends
 *   stall:NAME:FILE  loading the model NAME does not end while FILE exists
 *   load:NAME    loading the model NAME kills the worker
 *   pace:US      every image takes US microseconds more, asleep: a device whose capacity does not depend on
 *                the cores that a test's clients use too */
#ifndef CONVOY_ENGINE_WORKER_FAULT_H
#define CONVOY_ENGINE_WORKER_FAULT_H

#include "engine/backend.h"

/* Reads the environment once, before threads start. */
void convoy_fault_prepare(void);
void convoy_fault_on_load(const char *model);
void convoy_fault_on_job(const struct convoy_job *job);

#endif
