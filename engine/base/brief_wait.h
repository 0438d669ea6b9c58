/* Whether a thread that has nothing to do looks again for a moment before it sleeps. Waking a thread costs
 * processor time, and time passes until its core has woken, too.
 * Under load front and worker wait for each other for less than that. So a thread whose last wait was brief
 * expects the next one to be brief, and looks again that long; one whose waits are longer sleeps at once, and
 * costs nothing. On 16 cores with the null backend that took the front from 0.80 to 0.86 of the bare server
 * (tests/bench/front.sh). With few cores the thread that is waited for may need this one's. */
#ifndef CONVOY_ENGINE_BASE_BRIEF_WAIT_H
#define CONVOY_ENGINE_BASE_BRIEF_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#define CONVOY_BRIEF_WAIT_US 50u
#ifndef CONVOY_BRIEF_WAIT_CORES
#define CONVOY_BRIEF_WAIT_CORES 8u /* at least */
#endif

/* waited_us: the last wait; cores: convoy_cores(), which is a system call. True when the next wait begins
 * with looking again, for CONVOY_BRIEF_WAIT_US. */
static inline bool convoy_brief_wait(uint64_t waited_us, uint32_t cores)
{
    return waited_us < CONVOY_BRIEF_WAIT_US && cores >= CONVOY_BRIEF_WAIT_CORES;
}

#endif
