#include "server/batching/fair_queue.h"

/* Of the cost of an image, when a batch says another: batches differ, and so does what runs beside them. */
#define NEW_PART 0.25

static double weighted(double us, uint32_t weight)
{
    return us / (weight > 0 ? weight : 1);
}

void convoy_fair_queue_enter(struct convoy_fair_queue *fair, double now_us)
{
    if (fair->used_us < now_us)
        fair->used_us = now_us;
}

double convoy_fair_queue_charge(struct convoy_fair_queue *fair, uint32_t weight, uint32_t images,
                                double *now_us)
{
    /* Where nothing is known, or a device tells no times, images count. */
    double charged_us = images * (fair->row_us > 0 ? fair->row_us : 1.0);

    if (*now_us < fair->used_us)
        *now_us = fair->used_us;
    fair->used_us += weighted(charged_us, weight);
    return charged_us;
}

void convoy_fair_queue_settle(struct convoy_fair_queue *fair, uint32_t weight, uint32_t images,
                              double charged_us, double took_us)
{
    if (took_us == 0)
        return;
    fair->used_us += weighted((took_us > 0 ? took_us : 0) - charged_us, weight);
    if (took_us <= 0 || images == 0)
        return;
    double row_us = took_us / images;
    fair->row_us = fair->row_us > 0 ? fair->row_us + NEW_PART * (row_us - fair->row_us) : row_us;
}
