#include "server/batching/service_time.h"

#define MEMORY_US    1e6         /* older time counts for less than half */
#define LEAST_FACTOR (7.0 / 8.0) /* for batches that take so long that few fit into MEMORY_US */

static double learnt_us(const struct convoy_service_time *service)
{
    return service->images > 0 ? service->busy_us / service->images : 0;
}

double convoy_service_time_image_us(const struct convoy_service_time *service)
{
    return service->images > 0 ? learnt_us(service) : service->guess_us;
}

void convoy_service_time_guess(struct convoy_service_time *service, double image_us)
{
    if (image_us > 0 && (service->guess_us == 0 || image_us < service->guess_us))
        service->guess_us = image_us;
}

void convoy_service_time_finished(struct convoy_service_time *service, uint64_t now_us, uint32_t images,
                                  uint64_t ran_us, bool waiting)
{
    double ceiling_us = (double)ran_us / images;
    if (service->since_us != 0) {
        double busy_us = (double)(now_us - service->since_us);
        double factor = MEMORY_US / (MEMORY_US + busy_us);
        if (factor < LEAST_FACTOR)
            factor = LEAST_FACTOR;
        service->busy_us = service->busy_us * factor + busy_us;
        service->images = service->images * factor + images;
        service->batches = service->batches * factor + 1;
    } else if (learnt_us(service) > ceiling_us) {
        service->busy_us = service->images * ceiling_us;
    }
    if (!waiting)
        service->guess_us = 0;
    service->since_us = waiting ? now_us : 0;
}

void convoy_service_time_interrupted(struct convoy_service_time *service)
{
    service->since_us = 0;
}

uint64_t convoy_service_time_run_us(const struct convoy_service_time *service, uint64_t images)
{
    return (uint64_t)((double)images * learnt_us(service));
}

double convoy_service_time_company(const struct convoy_service_time *service)
{
    return service->batches > 0 ? service->images / service->batches : 0;
}

uint64_t convoy_service_time_wait_us(double image_us, double company, uint64_t images)
{
    /* A batch is answered as a whole: the first image in it waits for those that come after, too. */
    return (uint64_t)(((double)images + company) * image_us);
}

uint64_t convoy_service_time_spendable_us(uint64_t deadline_us, uint64_t now_us)
{
    return deadline_us > now_us ? (deadline_us - now_us) / 4 * 3 : 0;
}
