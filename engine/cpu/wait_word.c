#include "engine/cpu/wait_word.h"

#include "engine/base/clock.h"
#include "engine/base/pause.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOOKS 8 /* between two readings of the clock */

static void futex(_Atomic uint32_t *address, int operation, uint32_t value)
{
    syscall(SYS_futex, address, operation, value, NULL, NULL, 0);
}

/* True when the value changed within the time. */
static bool spin(struct convoy_cpu_wait_word *word, uint32_t old, uint32_t ns)
{
    uint64_t begun = convoy_now_ns();
    do {
        for (int look = 0; look < LOOKS; look++) {
            convoy_pause();
            if (atomic_load_explicit(&word->value, memory_order_acquire) != old)
                return true;
        }
    } while (convoy_now_ns() - begun < ns);
    return false;
}

/* A setter writes the value, then looks for sleepers; a sleeper says that it is one, then looks at the value.
 * In one order of all four, one of them sees the other. */
void convoy_cpu_wait_word_set(struct convoy_cpu_wait_word *word, uint32_t value)
{
    atomic_store(&word->value, value);
    if (atomic_load(&word->sleepers) > 0)
        futex(&word->value, FUTEX_WAKE_PRIVATE, INT_MAX);
}

void convoy_cpu_wait_word_wait(struct convoy_cpu_wait_word *word, uint32_t old,
                               struct convoy_cpu_patience *patience)
{
    if (atomic_load_explicit(&word->value, memory_order_acquire) != old)
        return;
    uint32_t ns = patience->spin_ns > 0 ? patience->spin_ns : CONVOY_CPU_SPIN_MOST_NS;
    if (spin(word, old, ns)) {
        patience->spin_ns = ns * 2 < CONVOY_CPU_SPIN_MOST_NS ? ns * 2 : CONVOY_CPU_SPIN_MOST_NS;
        return;
    }
    patience->spin_ns = ns / 2 > CONVOY_CPU_SPIN_LEAST_NS ? ns / 2 : CONVOY_CPU_SPIN_LEAST_NS;
    atomic_fetch_add(&word->sleepers, 1);
    while (atomic_load(&word->value) == old)
        futex(&word->value, FUTEX_WAIT_PRIVATE, old);
    atomic_fetch_sub(&word->sleepers, 1);
}
