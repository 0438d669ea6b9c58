/* A number for whose change threads wait: they spin for a while, then sleep.
 *
 * Waking a sleeping thread takes tens of microseconds, more than most layers of a single image. But a thread
 * that spins takes a core, and where another program computes on it, the one that is waited for may need that
 * very core. So each thread learns how long it pays to spin: a wait that ends while it spins doubles the
 * time, up to CONVOY_CPU_SPIN_MOST_NS, one that does not halves it, down to CONVOY_CPU_SPIN_LEAST_NS. */
#ifndef CONVOY_ENGINE_CPU_WAIT_WORD_H
#define CONVOY_ENGINE_CPU_WAIT_WORD_H

#include <stdatomic.h>
#include <stdint.h>

#define CONVOY_CPU_SPIN_MOST_NS  64000
#define CONVOY_CPU_SPIN_LEAST_NS 4000

/* All zero at first. */
struct convoy_cpu_wait_word {
    _Alignas(64) _Atomic uint32_t value; /* read by all, written by convoy_cpu_wait_word_set() */
    _Atomic uint32_t sleepers;
};

/* A thread's own; all zero at first. */
struct convoy_cpu_patience {
    uint32_t spin_ns;
};

/* Sets the value and wakes all that sleep. What was written before is seen by those that return from a wait.
 * Any thread. */
void convoy_cpu_wait_word_set(struct convoy_cpu_wait_word *word, uint32_t value);

/* Returns when the value is not `old` (any more). Any number of threads, each with its own patience. */
void convoy_cpu_wait_word_wait(struct convoy_cpu_wait_word *word, uint32_t old,
                               struct convoy_cpu_patience *patience);

#endif
