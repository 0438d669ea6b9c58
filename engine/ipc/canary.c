#include "engine/ipc/canary.h"

#include "engine/base/hash.h"

#include <errno.h>
#include <math.h>

#define SEED 0x636f6e766f7964ull

void convoy_canary_take(const float *outputs, uint32_t output_count, const uint32_t *elements,
                        struct convoy_canary *canary)
{
    uint32_t each = CONVOY_CANARY_SAMPLES / output_count;
    size_t total = 0;
    *canary = (struct convoy_canary){.finite = true};
    for (uint32_t i = 0; i < output_count; i++) {
        const float *output = outputs + total;
        uint32_t samples = elements[i] < each ? elements[i] : each;
        float range = 0;
        for (uint32_t k = 0; k < elements[i]; k++) {
            if (!isfinite(output[k]))
                canary->finite = false;
            else if (fabsf(output[k]) > range)
                range = fabsf(output[k]);
        }
        for (uint32_t k = 0; k < samples; k++) {
            canary->values[canary->count] = output[(uint64_t)k * elements[i] / samples];
            canary->ranges[canary->count++] = range;
        }
        total += elements[i];
    }
    canary->hash = convoy_hash(0, outputs, total * sizeof outputs[0]);
}

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

void convoy_canary_fill(void *row, size_t bytes, bool pixels)
{
    uint64_t state = SEED;
    uint8_t *byte = row;
    float *number = row;
    for (size_t i = 0; pixels && i < bytes; i++)
        byte[i] = (uint8_t)(64 + (next(&state) >> 57));
    for (size_t i = 0; !pixels && i < bytes / sizeof *number; i++)
        number[i] = (float)(next(&state) >> 40) / (float)(1u << 24);
}

bool convoy_canary_agrees(const struct convoy_canary *first, const struct convoy_canary *now, float bound,
                          struct convoy_error *error)
{
    if (first->count != now->count) {
        convoy_fail(error, -EBADMSG, "it has %u samples, the first one had %u", now->count, first->count);
        return false;
    }
    if (first->finite && !now->finite) {
        convoy_fail(error, -EBADMSG, "it is not finite, as the first one was");
        return false;
    }
    uint32_t off = 0, worst = 0;
    for (uint32_t i = 0; i < first->count; i++) {
        float range = fmaxf(first->ranges[i], now->ranges[i]);
        float by = fabsf(now->values[i] - first->values[i]);
        if (isfinite(first->values[i]) && !(by <= bound * range + CONVOY_CANARY_LEAST)) {
            worst = i;
            off++;
        }
    }
    if (off * CONVOY_CANARY_STRAY <= first->count)
        return true;
    convoy_fail(error, -EBADMSG,
                "%u of %u samples are off by more than %g of their output's range: one is %g and was %g", off,
                first->count, (double)bound, (double)now->values[worst], (double)first->values[worst]);
    return false;
}
