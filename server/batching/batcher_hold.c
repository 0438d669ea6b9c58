/* Rows that a thread has written and not committed yet: see convoy_batcher_hold(). */
#include "server/batching/batcher_internal.h"

/* As many runs of rows as a thread holds at most: about as many small images as it decodes in 0.2 ms. */
#define HELD_MOST 8u

struct held {
    struct convoy_worker_slots *worker;
    struct worker_slot *slot;
    uint32_t rows;
};

static _Thread_local struct {
    bool holds;
    uint32_t count;
    struct held runs[HELD_MOST];
} mine;

static void commit_all(void)
{
    for (uint32_t i = 0; i < mine.count; i++)
        convoy_batcher_commit_unlocked(mine.runs[i].worker, mine.runs[i].slot, mine.runs[i].rows);
    mine.count = 0;
}

void convoy_batcher_commit_held(struct convoy_worker_slots *worker, struct worker_slot *slot, uint32_t rows)
{
    if (!mine.holds) {
        convoy_batcher_commit_unlocked(worker, slot, rows);
        return;
    }
    struct held *last = mine.count > 0 ? &mine.runs[mine.count - 1] : NULL;
    if (last != NULL && last->slot == slot && last->rows + rows <= HELD_MOST) {
        last->rows += rows;
        return;
    }
    mine.runs[mine.count++] = (struct held){worker, slot, rows};
    if (mine.count == HELD_MOST || rows >= HELD_MOST)
        commit_all();
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
