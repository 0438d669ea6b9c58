/* Rows that a thread has written and not committed yet: see convoy_batcher_hold(). */
#include "server/batching/batcher_internal.h"

/* As many slots as a thread holds rows of. */
#define SLOTS_MOST 8u
/* As many rows, about what it decodes in 0.8 ms of small images; and where there are many cores. */
#define HELD_MOST  32u
#define HELD_FEW   3u
#define MANY_CORES 8u

static uint32_t held_most = HELD_MOST;

struct held {
    struct convoy_worker_slots *worker;
    struct worker_slot *slot;
    uint32_t rows;
};

static _Thread_local struct {
    bool holds;
    uint32_t rows, count;
    struct held slots[SLOTS_MOST];
} mine;

static void commit_all(void)
{
    for (uint32_t i = 0; i < mine.count; i++)
        convoy_batcher_commit_unlocked(mine.slots[i].worker, mine.slots[i].slot, mine.slots[i].rows);
    mine.rows = mine.count = 0;
}

void convoy_batcher_commit_held(struct convoy_worker_slots *worker, struct worker_slot *slot, uint32_t rows)
{
    if (!mine.holds) {
        convoy_batcher_commit_unlocked(worker, slot, rows);
        return;
    }
    struct held *last = mine.count > 0 ? &mine.slots[mine.count - 1] : NULL;
    mine.rows += rows;
    if (last != NULL && last->slot == slot)
        last->rows += rows;
    else
        mine.slots[mine.count++] = (struct held){worker, slot, rows};
    if (mine.count == SLOTS_MOST || mine.rows >= held_most)
        commit_all();
}

void convoy_batcher_hold_by_cores(uint32_t cores)
{
    held_most = cores < MANY_CORES ? HELD_MOST : HELD_FEW;
}

void convoy_batcher_hold(void)
{
    mine.holds = true;
}

void convoy_batcher_let_go(void)
{
    mine.holds = false;
    commit_all();
}
