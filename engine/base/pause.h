/* A thread that spins tells its core so between two looks: the core saves power, and the other thread of its
 * core runs faster. Takes from some 3 to 140 cycles. */
#ifndef CONVOY_ENGINE_BASE_PAUSE_H
#define CONVOY_ENGINE_BASE_PAUSE_H

static inline void convoy_pause(void)
{
#if defined __x86_64__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("isb" ::: "memory");
#else
    __asm__ volatile("" ::: "memory");
#endif
}

#endif
