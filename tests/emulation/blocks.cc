/* A block of threads, or the blocks of a cluster, on one CPU thread: each has a stack of its own, runs until
 * it waits at a barrier or ends, then another goes on. Which comes next is drawn at random between barriers,
 * and of a cluster's blocks some get ahead of others, and now and then the first lane of a warp of its other
 * ones, so that code that lacks a barrier is likely to give something else than it should. */
#include "emulation.h"

#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <sanitizer/asan_interface.h>
#include <sys/mman.h>

#ifndef __x86_64__
#error "the emulation switches stacks by hand, which is written for x86-64 alone"
#endif

/* Of a stack: an odd multiple of a line of the cache, so that their tops, which are used most, lie in
 * different sets of it. The kernels need less than 5 KB. */
#ifdef __SANITIZE_ADDRESS__
#define STACK_BYTES ((256u << 10) + 320u)
#else
#define STACK_BYTES ((16u << 10) + 320u)
#endif
#define STACK_END  0x5ac4e11dc0de4b1du /* the lowest word of each */
#define WARP       32u
#define BLOCK_MAX  1024u
#define BLOCKS_MAX CONVOY_EMULATED_CLUSTER_MAX
#define FIBERS_MAX (BLOCK_MAX * BLOCKS_MAX)
#define EVERYBODY  0xffffffffu
#define NO_WARP    FIBERS_MAX

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace
{

/* Leaves this stack for another, until another thread switches back to it. By hand because swapcontext()
 * makes two system calls, and the address sanitizer takes longjmp() between stacks for an overflow. */
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

enum state { READY, AT_WARP, AT_FIRST, AT_BLOCK, AT_CLUSTER, AT_EVENT, ENDED };

struct fiber {
    void *stack; /* where it stands, while another runs */
    state now;
    uint3 index;
    unsigned block; /* its number in the cluster */
    unsigned turn;  /* 0 or 1: where it puts what it exchanges next */
    int line;       /* of the source, where it waits for its block */
};

struct block {
    uint3 index;
    char *shared;
    size_t threads; /* that have not ended */
    bool touched;   /* by another block, since the last cluster barrier */
};

/* Block b of the cluster has the fibers from b * pitch on: its threads, then what fills the last warp, which
 * ends before it begins. */
fiber fibers[FIBERS_MAX];
block blocks[BLOCKS_MAX];
size_t running, threads, pitch, in_use, alive;
size_t meeting;           /* the first threads of a block, which wait for each other AT_FIRST */
unsigned cluster, chosen; /* blocks, and the set of those that run now */
size_t torn;              /* a warp whose first lane goes on without the others; none: NO_WARP */
bool held;                /* these others do not run now */
bool met;                 /* at a cluster barrier, so all blocks have started */
bool happened;            /* since the last round: what threads may wait for */
size_t shared_size;
void *scheduler;
const std::function<void()> *work;
/* What the threads of a warp exchange, in turns: those that go on may bring the next values while others
 * still read. They cannot be two ahead, because each exchange waits for the whole warp. */
uint64_t exchange[2][FIBERS_MAX];
uint32_t gathered[2][FIBERS_MAX * CONVOY_EMULATED_WORDS_MAX];
alignas(256) char dynamic_shared[227 << 10];
uint32_t dice = 1;

/* The kernel does what breaks on the hardware, at best. Not by abort(): before what does not return, the
 * address sanitizer looks at the stack, and takes one of ours for an error. */
__attribute__((format(printf, 1, 2))) void die(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("emulated kernel: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    raise(SIGABRT);
}

uint32_t roll()
{
    dice ^= dice << 13;
    dice ^= dice >> 17;
    return dice ^= dice << 5;
}

void *next_stack();

/* Straight on to the next that is ready: by way of the scheduler it would be twice as many switches. */
void leave(state why)
{
    fiber &self = fibers[running];
    self.now = why;
    void *next = next_stack();
    convoy_switch_stack(&self.stack, next != nullptr ? next : scheduler);
}

/* A fiber runs one thread of a block after the other, for as long as the process lives. */
void live()
{
    for (;;) {
        (*work)();
        alive--;
        block &own = blocks[fibers[running].block];
        if (--own.threads == 0 && own.touched)
            die("block %u of a cluster ends without a cluster barrier after another's last access to its "
                "shared memory",
                fibers[running].block);
        leave(ENDED);
    }
}

char *stacks;
size_t stacks_made;

/* A stack on which a first switch arrives in live(): six registers, where to return to, and who called. */
void *new_stack()
{
    const size_t all = (size_t)STACK_BYTES * FIBERS_MAX;
    if (stacks == nullptr) {
        void *memory =
            mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED)
            abort();
        stacks = (char *)memory;
#ifndef __SANITIZE_ADDRESS__
        /* A thousand stacks in as many small pages are more than the processor keeps track of. Where the
         * system has no large ones to give, they are small. */
        madvise(memory, all, MADV_HUGEPAGE);
#endif
    }
    char *own = stacks + stacks_made++ * STACK_BYTES;
    *(uint64_t *)(void *)own = STACK_END;
    void **top = (void **)(void *)(own + STACK_BYTES);
    top[-2] = (void *)live;
    return top - 8;
}

/* What a thread wrote beyond its stack is the top of another's: that mostly crashes. Where it did not, this
 * tells. */
void look_at_stacks()
{
    for (size_t i = 0; i < in_use; i++) {
        if (fibers[i].stack == nullptr)
            continue;
        size_t number = (size_t)((const char *)fibers[i].stack - stacks) / STACK_BYTES;
        if (*(const uint64_t *)(const void *)(stacks + number * STACK_BYTES) != STACK_END)
            die("a thread needs more than the %u bytes of stack that it has", STACK_BYTES);
    }
}

bool runs_now(size_t number)
{
    return fibers[number].now == READY && (chosen >> fibers[number].block & 1) != 0 &&
           !(held && number / WARP == torn && number % WARP != 0);
}

/* A round: every thread that is ready, of those that were chosen, in an order of chance. */
struct {
    size_t at, left; /* the next one, and how many are left */
    bool forwards;
} this_round;

/* Where the next thread of the round goes on; nullptr behind the last one. */
void *next_stack()
{
    while (this_round.left > 0) {
        size_t number = this_round.at;
        this_round.left--;
        if (this_round.forwards)
            this_round.at = number + 1 == in_use ? 0 : number + 1;
        else
            this_round.at = (number == 0 ? in_use : number) - 1;
        if (!runs_now(number))
            continue;
        fiber &next = fibers[number];
        running = number;
        threadIdx = next.index;
        blockIdx = blocks[next.block].index;
        if (next.stack == nullptr)
            next.stack = new_stack();
        return next.stack;
    }
    return nullptr;
}

char *new_shared(size_t bytes)
{
    void *memory;
    if (posix_memalign(&memory, 256, bytes + (bytes == 0)) != 0)
        abort();
    return (char *)memory;
}

void run_ready()
{
    this_round = {roll() % in_use, in_use, roll() % 2 == 0};
    void *first = next_stack();
    if (first != nullptr)
        convoy_switch_stack(&scheduler, first);
}

bool free_warps()
{
    bool freed = false;
    for (size_t first = 0; first < in_use; first += WARP) {
        size_t end = first + WARP < in_use ? first + WARP : in_use;
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

/* Lets the threads from first to end go on, if none of them is elsewhere than at this barrier. One that
 * counts its threads waits for those that have ended, too, and so for ever. */
bool free_barrier(state barrier, size_t first, size_t end)
{
    bool any = false;
    for (size_t i = first; i < end; i++) {
        if (fibers[i].now != barrier && (fibers[i].now != ENDED || barrier == AT_FIRST))
            return false;
        any = any || fibers[i].now == barrier;
    }
    for (size_t i = first; any && i < end; i++)
        if (fibers[i].now == barrier)
            fibers[i].now = READY;
    return any;
}

/* The threads of a block have met: compute-sanitizer's synccheck takes it for an error where they call
 * __syncthreads() in different places. */
void look_at_lines(size_t first)
{
    int line = 0;
    for (size_t i = first; i < first + threads; i++) {
        if (fibers[i].now == ENDED)
            continue;
        if (line != 0 && fibers[i].line != line)
            die("threads of a block meet in different places: __syncthreads() of lines %d and %d", line,
                fibers[i].line);
        line = fibers[i].line;
    }
}

bool free_blocks()
{
    bool freed = false;
    for (unsigned b = 0; b < cluster; b++) {
        freed = free_barrier(AT_FIRST, b * pitch, b * pitch + meeting) || freed;
        if (!free_barrier(AT_BLOCK, b * pitch, b * pitch + threads))
            continue;
        look_at_lines(b * pitch);
        freed = true;
    }
    return freed;
}

bool free_cluster()
{
    if (!free_barrier(AT_CLUSTER, 0, in_use))
        return false;
    met = true;
    for (unsigned b = 0; b < cluster; b++)
        blocks[b].touched = false;
    return true;
}

/* All blocks, some, or a single one. */
void choose()
{
    chosen = EVERYBODY;
    if (cluster > 1 && roll() % 4 != 0)
        chosen = roll() % 2 == 0 ? 1u << roll() % cluster : roll();
}

/* Those who wait for what others do look again, as long as one of them makes progress. */
bool free_events(bool others)
{
    bool any = false;
    for (size_t i = 0; i < in_use; i++)
        if (fibers[i].now == AT_EVENT) {
            fibers[i].now = READY;
            any = true;
        }
    bool further = others || happened;
    happened = false;
    return any && further;
}

/* Is there more to do? The same blocks go on for some barriers, and so get ahead of the others. */
bool go_on()
{
    if (alive == 0)
        return false;
    bool freed = free_warps();
    freed = free_blocks() || freed;
    freed = free_events(freed) || freed;
    if (freed) {
        held = true;
        if (roll() % 4 == 0)
            choose();
        return true;
    }
    if (chosen != EVERYBODY) {
        chosen = EVERYBODY;
        return true;
    }
    if (held && torn != NO_WARP) {
        held = false;
        return true;
    }
    if (!free_cluster())
        return false;
    choose();
    return true;
}

/* The blocks of a cluster, from first on. */
void run_cluster(uint3 first)
{
    for (unsigned b = 0; b < cluster; b++) {
        blocks[b].index = {first.x + b, first.y, first.z};
        blocks[b].threads = threads;
        blocks[b].touched = false;
        memset(blocks[b].shared, 0xff, shared_size); /* NaN */
        for (size_t i = 0; i < threads; i++) {
            fibers[b * pitch + i].now = READY;
            fibers[b * pitch + i].turn = 0;
        }
        for (size_t i = threads; i < pitch; i++)
            fibers[b * pitch + i].now = ENDED;
    }
    alive = cluster * threads;
    met = false;
    happened = false;
    /* A first lane mostly speaks for its warp. What it tells before the others of its warp have looked shows
     * where these come so late that all others have gone on meanwhile. */
    torn = roll() % 2 == 0 ? roll() % ((in_use + WARP - 1) / WARP) : NO_WARP;
    held = true;
    choose();
    do
        run_ready();
    while (go_on());
    if (alive > 0)
        die("threads wait for others that wait elsewhere: lanes of a warp at different barriers, or blocks"
            " of a cluster");
}

} // namespace

void __syncthreads(int line)
{
    fibers[running].line = line;
    leave(AT_BLOCK);
}

void convoy_emulated_threads_sync(int count)
{
    meeting = (size_t)count;
    leave(AT_FIRST);
}

void __syncwarp(unsigned)
{
    leave(AT_WARP);
}

size_t convoy_emulated_fiber()
{
    return running;
}

void convoy_emulated_wait(const std::function<bool()> &is_true)
{
    while (!is_true())
        leave(AT_EVENT);
}

void convoy_emulated_happened()
{
    happened = true;
}

int convoy_emulated_cluster_rank()
{
    return (int)fibers[running].block;
}

void convoy_emulated_cluster_sync()
{
    leave(AT_CLUSTER);
}

void *convoy_emulated_cluster_place(const void *at, int rank, size_t bytes)
{
    unsigned self = fibers[running].block, other = (unsigned)rank;
    size_t offset = (size_t)((const char *)at - blocks[self].shared);
    if (other >= cluster)
        die("an access to block %d of a cluster of %u", rank, cluster);
    if (offset > shared_size || bytes > shared_size - offset || offset % bytes != 0)
        die("an access to another block of %zu bytes that are not in dynamic shared memory, or not aligned",
            bytes);
    if (other != self) {
        if (!met)
            die("an access to block %u of a cluster before a first cluster barrier: it may not have started",
                other);
        if (blocks[other].threads == 0)
            die("an access to the shared memory of block %u of a cluster, which has ended", other);
        blocks[other].touched = true;
    }
    return blocks[other].shared + offset;
}

/* Waits for the whole warp; which turn it was. */
static unsigned exchanged()
{
    fiber &self = fibers[running];
    unsigned turn = self.turn;
    self.turn = 1 - turn;
    leave(AT_WARP);
    return turn;
}

uint64_t convoy_emulated_shuffle(uint64_t value, int from)
{
    size_t self = running, warp = self / WARP * WARP;
    exchange[fibers[self].turn][self] = value;
    unsigned turn = exchanged();
    bool exists = warp % pitch + (size_t)from < threads;
    return exists ? exchange[turn][warp + (size_t)from] : value;
}

uint32_t *convoy_emulated_gather(const uint32_t *words, unsigned count)
{
    uint32_t *warp = gathered[fibers[running].turn] + running / WARP * WARP * CONVOY_EMULATED_WORDS_MAX;
    memcpy(warp + running % WARP * count, words, count * sizeof *words);
    exchanged();
    return warp;
}

void *convoy_emulated_shared()
{
    return blocks[fibers[running].block].shared;
}

void convoy_emulated_grid(dim3 grid, dim3 block, unsigned blocks_together, size_t shared_bytes,
                          const std::function<void()> &body)
{
    threads = (size_t)block.x * block.y * block.z;
    meeting = 0;
    cluster = blocks_together;
    pitch = cluster == 1 ? threads : (threads + WARP - 1) / WARP * WARP;
    in_use = cluster * pitch;
    for (unsigned b = 0; b < cluster; b++)
        for (size_t i = 0; i < threads; i++) {
            fiber &one = fibers[b * pitch + i];
            one.index = {(unsigned)(i % block.x), (unsigned)(i / block.x % block.y),
                         (unsigned)(i / block.x / block.y)};
            one.block = b;
        }
    /* A cluster's are allocated as large as asked, and of the other one what is beyond is closed, so that the
     * address sanitizer sees who leaves his own. */
    for (unsigned b = 0; b < cluster; b++)
        blocks[b].shared = cluster == 1 ? dynamic_shared : new_shared(shared_bytes);
    shared_size = shared_bytes;
    ASAN_POISON_MEMORY_REGION(dynamic_shared + shared_bytes, sizeof dynamic_shared - shared_bytes);
    gridDim = grid;
    blockDim = block;
    work = &body;
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x += cluster)
                run_cluster({x, y, z});
    look_at_stacks();
    ASAN_UNPOISON_MEMORY_REGION(dynamic_shared, sizeof dynamic_shared);
    for (unsigned b = 0; b < cluster && cluster > 1; b++)
        free(blocks[b].shared);
}
