/* Where a program spends its processor time, on machines without perf: loaded with LD_PRELOAD, it takes a
 * sample with each tick of the process's own processor time, and writes them to the file $CONVOY_SAMPLES.PID
 * when the program ends. sampler.py makes a table of it; where.sh does all of that for convoyd.
 *
 * A line of the file is "MODULE OFFSET CALLER MAIN COUNT", in hexadecimal but for the last two: where the
 * processor was, in which file (time in the kernel is the system call's function); the first return address
 * on the stack that lies in the program itself, 0 when there is none; 1 on the process's first thread, 0 on
 * the others. The address is found by looks, not by unwinding: a stale one may be taken for it now and then.
 */
#include <dlfcn.h>
#include <link.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#define MOST    (1u << 20)
#define WORDS   512 /* of the stack that are looked at */
#define TICK_US 1000

struct sample {
    uintptr_t at, caller;
    bool main; /* on the process's first thread */
};

static struct sample *samples;
static _Atomic uint32_t count;
static uintptr_t text, text_end; /* of the program */

/* The first module is the program. */
static int find_text(struct dl_phdr_info *info, size_t size, void *context)
{
    (void)size;
    (void)context;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
            continue;
        text = info->dlpi_addr + part->p_vaddr;
        text_end = text + part->p_memsz;
    }
    return 1;
}

static uintptr_t caller_of(uintptr_t at, uintptr_t stack)
{
    uintptr_t words[WORDS];
    struct iovec here = {words, sizeof words}, there = {(void *)stack, sizeof words};
    if (at >= text && at < text_end)
        return at;
    /* Ends early, with no fault, where the stack ends. */
    ssize_t got = process_vm_readv(getpid(), &here, 1, &there, 1, 0);
    for (ssize_t i = 0; i < got / (ssize_t)sizeof words[0]; i++)
        if (words[i] >= text && words[i] < text_end)
            return words[i];
    return 0;
}

static void on_tick(int signal, siginfo_t *info, void *context)
{
    const ucontext_t *user = context;
    uint32_t i = atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
    (void)signal;
    (void)info;
    if (i >= MOST)
        return;
    uintptr_t at = (uintptr_t)user->uc_mcontext.gregs[REG_RIP];
    samples[i] =
        (struct sample){at, caller_of(at, (uintptr_t)user->uc_mcontext.gregs[REG_RSP]), gettid() == getpid()};
}

__attribute__((constructor)) static void begin(void)
{
    struct sigaction action = {.sa_sigaction = on_tick, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct itimerval tick = {{0, TICK_US}, {0, TICK_US}};
    if (getenv("CONVOY_SAMPLES") == NULL)
        return;
    samples = calloc(MOST, sizeof *samples);
    if (samples == NULL)
        return;
    dl_iterate_phdr(find_text, NULL);
    sigaction(SIGPROF, &action, NULL);
    setitimer(ITIMER_PROF, &tick, NULL);
}

static int by_place(const void *a, const void *b)
{
    const struct sample *x = a, *y = b;
    if (x->main != y->main)
        return x->main - y->main;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->caller < y->caller ? -1 : x->caller > y->caller;
}

static void print(FILE *file, const struct sample *sample, uint32_t times)
{
    Dl_info info, program;
    bool known = dladdr((void *)sample->at, &info) != 0;
    uintptr_t base = dladdr((void *)text, &program) != 0 ? (uintptr_t)program.dli_fbase : 0;
    fprintf(file, "%s %lx %lx %d %u\n", known ? info.dli_fname : "?",
            (unsigned long)(sample->at - (known ? (uintptr_t)info.dli_fbase : 0)),
            (unsigned long)(sample->caller > 0 ? sample->caller - base : 0), sample->main, times);
}

__attribute__((destructor)) static void end(void)
{
    char path[4096];
    uint32_t n = atomic_load(&count);
    if (samples == NULL)
        return;
    setitimer(ITIMER_PROF, &(struct itimerval){0}, NULL);
    n = n < MOST ? n : MOST;
    snprintf(path, sizeof path, "%s.%d", getenv("CONVOY_SAMPLES"), (int)getpid());
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return;
    qsort(samples, n, sizeof *samples, by_place);
    for (uint32_t i = 0, first = 0; i < n; i++)
        if (i + 1 == n || by_place(&samples[i], &samples[i + 1]) != 0) {
            print(file, &samples[first], i + 1 - first);
            first = i + 1;
        }
    fclose(file);
}
