#include "server/batching/completion_estimate.h"

#define KEPT    (7.0 / 8.0) /* of what was known, with each run */
#define FADE_US 1e7
#define TURN_US 10.0 /* a doorbell's round trip between two processes takes 8 */

void convoy_image_cost_ran(struct convoy_image_cost *cost, uint32_t images, uint64_t took_us, uint64_t now_us)
{
    cost->busy_us = cost->busy_us * KEPT + (double)took_us;
    cost->images = cost->images * KEPT + images;
    cost->ran_us = now_us;
}

static double mean_us(const struct convoy_image_cost *cost)
{
    /* A run too short to be measured is not for nothing: rows behind one another have to add up. */
    double us = cost->images > 0 ? cost->busy_us / cost->images : 0;
    return us > 0.01 ? us : 0.01;
}

double convoy_image_cost_us(const struct convoy_image_cost *here, const struct convoy_image_cost *everywhere,
                            uint64_t now_us)
{
    if (everywhere->images <= 0)
        return 1;
    double all_us = mean_us(everywhere), rest_us = (double)(now_us - here->ran_us);
    if (here->images <= 0 || rest_us >= FADE_US)
        return all_us;
    double here_us = mean_us(here);
    return here_us + (all_us - here_us) * (rest_us / FADE_US);
}

double convoy_completion_estimate_us(const struct convoy_worker_load *load, uint64_t progress_us,
                                     uint64_t now_us, double price_us)
{
    double done_us = now_us > progress_us ? (double)(now_us - progress_us) : 0;
    if (done_us > load->running_us)
        done_us = load->running_us;
    double left_us = load->backlog_us - done_us;
    return (left_us > 0 ? left_us : 0) + price_us;
}

bool convoy_completion_as_good(double completion_us, double best_us)
{
    return completion_us <= best_us * 1.125 + TURN_US;
}
