/* A block of threads on one CPU thread: each has a stack of its own, runs until it waits at a barrier or
 * ends, then another goes on. Which comes next is drawn anew between barriers, so that code that lacks a
 * barrier is likely to give something else than it should. */
#include "emulation.h"

#include <cstdlib>
#include <sys/mman.h>
#include <vector>

#ifndef __x86_64__
#error "the emulation switches stacks by hand, which is written for x86-64 alone"
#endif

#define STACK_BYTES (256u << 10)
#define WARP        32u

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace
{

/* Leaves this stack for another, until somebody comes back to it. By hand because swapcontext() makes two
 * system calls, and the address sanitizer takes longjmp() between stacks for an overflow. */
extern "C" void convoy_switch_stack(void **here, void *there);
asm(R"(
    .text
    .globl convoy_switch_stack
    .type convoy_switch_stack, @function
convoy_switch_stack:
    push %rbp
    push %rbx
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, (%rdi)
    mov %rsi, %rsp
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbx
    pop %rbp
    ret
    .size convoy_switch_stack, . - convoy_switch_stack
)");

enum state { READY, AT_WARP, AT_BLOCK, ENDED };

struct fiber {
    void *stack = nullptr; /* where it stands, while another runs */
    state now = READY;
    uint3 index;
};

std::vector<fiber> fibers;
size_t running, threads;
void *scheduler;
const std::function<void()> *work;
uint64_t exchange[1024];
uint32_t gathered[1024 * 8];
alignas(256) char dynamic_shared[227 << 10];
uint32_t dice = 1;

uint32_t roll()
{
    dice ^= dice << 13;
    dice ^= dice >> 17;
    return dice ^= dice << 5;
}

void leave(state why)
{
    fiber &self = fibers[running];
    self.now = why;
    convoy_switch_stack(&self.stack, scheduler);
}

/* A fiber runs one thread of a block after the other, for as long as the process lives. */
void live()
{
    for (;;) {
        (*work)();
        leave(ENDED);
    }
}

/* A stack on which a first switch arrives in live(): six registers, where to return to, and who called. */
void *new_stack()
{
    void *memory = mmap(nullptr, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        abort();
    void **top = (void **)((char *)memory + STACK_BYTES);
    top[-2] = (void *)live;
    return top - 8;
}

void resume(size_t number)
{
    fiber &next = fibers[number];
    running = number;
    threadIdx = next.index;
    next.now = READY;
    if (next.stack == nullptr)
        next.stack = new_stack();
    convoy_switch_stack(&scheduler, next.stack);
}

/* Every thread that is ready, in an order of chance. */
void run_ready()
{
    size_t at = roll() % threads, step = roll() % 2 == 0 ? 1 : threads - 1;
    for (size_t i = 0; i < threads; i++, at = (at + step) % threads)
        if (fibers[at].now == READY)
            resume(at);
}

bool free_warps()
{
    bool freed = false;
    for (size_t first = 0; first < threads; first += WARP) {
        size_t end = first + WARP < threads ? first + WARP : threads;
        bool all = true, any = false;
        for (size_t i = first; i < end; i++) {
            all = all && (fibers[i].now == AT_WARP || fibers[i].now == ENDED);
            any = any || fibers[i].now == AT_WARP;
        }
        if (!all || !any)
            continue;
        freed = true;
        for (size_t i = first; i < end; i++)
            if (fibers[i].now == AT_WARP)
                fibers[i].now = READY;
    }
    return freed;
}

bool free_block()
{
    bool any = false;
    for (size_t i = 0; i < threads; i++) {
        if (fibers[i].now == AT_WARP)
            return false;
        any = any || fibers[i].now == AT_BLOCK;
    }
    for (size_t i = 0; i < threads; i++)
        if (fibers[i].now == AT_BLOCK)
            fibers[i].now = READY;
    return any;
}

void run_block()
{
    for (size_t i = 0; i < threads; i++)
        fibers[i].now = READY;
    do
        run_ready();
    while (free_warps() || free_block());
    for (size_t i = 0; i < threads; i++)
        if (fibers[i].now != ENDED)
            abort(); /* some lanes of a warp wait for others that wait for the block */
}

} // namespace

void __syncthreads()
{
    leave(AT_BLOCK);
}

void __syncwarp(unsigned)
{
    leave(AT_WARP);
}

uint64_t convoy_emulated_shuffle(uint64_t value, int from)
{
    size_t self = running, warp = self / WARP * WARP;
    exchange[self] = value;
    leave(AT_WARP);
    uint64_t got = warp + (size_t)from < threads ? exchange[warp + (size_t)from] : value;
    leave(AT_WARP);
    return got;
}

const uint32_t *convoy_emulated_gather(const uint32_t *words, unsigned count)
{
    uint32_t *warp = gathered + running / WARP * WARP * 8;
    memcpy(warp + running % WARP * count, words, count * sizeof *words);
    leave(AT_WARP);
    return warp;
}

void *convoy_emulated_shared()
{
    return dynamic_shared;
}

void convoy_emulated_grid(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()> &body)
{
    threads = (size_t)block.x * block.y * block.z;
    if (fibers.empty())
        fibers.resize(1024); /* never moved */
    for (size_t i = 0; i < threads; i++)
        fibers[i].index = {(unsigned)(i % block.x), (unsigned)(i / block.x % block.y),
                           (unsigned)(i / block.x / block.y)};
    gridDim = grid;
    blockDim = block;
    work = &body;
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                blockIdx = {x, y, z};
                memset(dynamic_shared, 0xff, shared_bytes); /* NaN */
                run_block();
            }
}
