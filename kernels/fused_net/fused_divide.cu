/* Which block of a cluster, and which of its warps, computes what of a network. */
#include "kernels/device/chip.h"
#include "kernels/device/launch.cuh"
#include "kernels/fused_net/fused_planner.h"

#define ESTIMATE_REGISTERS 128

/* Estimates the cycles of a convolution that is divided into `parts` parts of its rows and `map_parts` of its
 * maps, with a warp's tiles of mt x nt: the steps of one warp, or the time of shared memory, whichever is
 * longer; the weights at 64 bytes a cycle, half of them beside something else; and the stores to all blocks
 * that read. The constants are cycles of instructions; the estimate only chooses between ways of dividing. */
static double conv_cycles(const struct fused_planner *p, int index, int parts, int map_parts, int mt, int nt)
{
    const struct fused_step *step = &p->plan->steps[index];
    bool exact = p->plan->math == TENSOR_FP32;
    int warps = p->plan->kernel->threads / 32;
    int down = (int)convoy_div_up(convoy_div_up(step->m_tiles, parts), mt);
    int across = (int)convoy_div_up(convoy_div_up(step->n_tiles, map_parts), nt);
    double tasks = (double)down * across,
           rounds = tasks > warps ? (double)convoy_div_up(down * across, warps) : 1;
    if (parts * map_parts > 1 && tasks < warps) /* that share them */
        rounds = tasks / warps > 4.0 / step->steps ? tasks / warps : 4.0 / step->steps;
    double products = mt * nt * (exact ? 12.0 : 2.0);
    double alone = rounds * (step->steps * (24 + 4.0 * mt + 2 * nt + products) + 60.0 * mt * nt + 300);
    double together =
        tasks * (step->steps * (4.0 * mt + (exact ? 4 : 2) * nt + products / 4) + 20.0 * mt * nt);
    double cycles = alone > together ? alone : together;
    if (parts * map_parts == 1)
        return cycles;
    double weights = (double)across * nt * step->steps * 256 * (exact ? 2 : 1) / 64;
    double stores = tasks * mt * nt * 4 * (map_parts + 1);
    return cycles + 0.5 * weights + stores;
}

/* Does a large dense layer follow, which is divided as this is? */
bool fused_feeds_dense(const struct fused_planner *p, int index)
{
    const struct convoy_fused_layer *next = &p->shape->layers[index + 1];
    return index + 1 < p->shape->count && next->kind == CONVOY_FUSED_DENSE && next->input == index &&
           (int64_t)next->shape.c * next->shape.h * next->shape.w * next->shape.k >= CONVOY_FUSED_LARGE_DENSE;
}

/* Has the device code (fused_conv_any()) for such tasks? */
static bool takes_tiles(const struct fused_planner *p, int mt, int nt)
{
    return mt * nt <=
           (p->plan->kernel->cluster > 1 ? 1 : fused_most_tiles(p->plan->math, p->plan->kernel->wgmma));
}

/* most: words of weights that a block keeps of a layer. */
void fused_divide_conv(struct fused_planner *p, int index, int most)
{
    struct fused_step *step = &p->plan->steps[index];
    int cluster = p->plan->kernel->cluster;
    double best = 0;
    step->mt = 0;
    for (int parts = cluster; parts >= 1; parts /= 2)
        for (int mt = 1; mt <= 4; mt *= 2)
            for (int nt = 1; nt <= 4; nt++) {
                int map_parts = cluster / parts;
                bool even = step->n_tiles % map_parts == 0 && step->n_tiles / map_parts % nt == 0;
                int staged = (int)convoy_div_up(step->n_tiles, map_parts) * fused_tile_words(p, index);
                if (!(even || nt == 1) || !takes_tiles(p, mt, nt))
                    continue;
                if (cluster > 1 && (staged > most || (map_parts > 1 && fused_feeds_dense(p, index))))
                    continue;
                double cycles = conv_cycles(p, index, parts, map_parts, mt, nt);
                if (step->mt != 0 && cycles >= best)
                    continue;
                best = cycles;
                step->parts = (uint8_t)parts;
                step->map_parts = (uint8_t)map_parts;
                step->mt = (uint8_t)mt;
                step->nt = (uint8_t)nt;
            }
}

/* The units that block rank of the cluster computes of a convolution. */
void fused_units_of(const struct fused_planner *p, int index, int rank, int *from, int *to)
{
    const struct fused_step *step = &p->plan->steps[index];
    int tile_units = 16 / p->unit_rows[index], number = rank / step->map_parts;
    *from = fused_at_most(fused_part(step->m_tiles, number, step->parts) * tile_units, p->units[index]);
    *to = fused_at_most(fused_part(step->m_tiles, number + 1, step->parts) * tile_units, p->units[index]);
}

void fused_places_of(const struct fused_planner *p, int index, int rank, int *from, int *to)
{
    const struct fused_tensor *y = &p->tensors[index + 1];
    int line = p->line_units[index], beside = p->plan->reductions[index].phases / p->plan->steps[index].pool;
    fused_units_of(p, index, rank, from, to);
    if (p->plan->reductions[index].phases == 1)
        return;
    *from = *from / line * y->w + fused_at_most(*from % line * beside, y->w);
    *to = *to / line * y->w + fused_at_most(*to % line * beside, y->w);
}

static void need(struct fused_tensor *t, int rank, int from, int to)
{
    from = fused_at_least(from, 0);
    to = fused_at_most(to, t->h);
    if (from >= to)
        return;
    bool none = t->need_from[rank] >= t->need_to[rank];
    t->need_from[rank] = none ? from : fused_at_most(t->need_from[rank], from);
    t->need_to[rank] = none ? to : fused_at_least(t->need_to[rank], to);
}

void fused_find_needs(struct fused_planner *p)
{
    for (int i = 0; i < p->shape->count; i++) {
        const struct convoy_fused_layer *layer = &p->shape->layers[i];
        const struct convoy_conv_shape *s = &layer->shape;
        const struct fused_step *step = &p->plan->steps[i];
        struct fused_tensor *x = &p->tensors[layer->input + 1];
        int line = p->line_units[i];
        if (layer->kind != CONVOY_FUSED_CONV) {
            /* Divided, each block reads what it wrote itself. */
            for (int rank = 0; rank < p->plan->kernel->cluster && step->parts > 1; rank++) {
                int from, to;
                fused_places_of(p, layer->input, rank, &from, &to);
                if (from < to)
                    need(x, rank, from / x->w, (to - 1) / x->w + 1);
            }
            if (step->parts == 1)
                need(x, 0, 0, x->h);
            continue;
        }
        for (int rank = 0; rank < p->plan->kernel->cluster; rank++) {
            int from, to;
            fused_units_of(p, i, rank, &from, &to);
            if (from >= to)
                continue;
            int first = from / line * s->pool * s->stride[0] - s->pad[0];
            int last = (((to - 1) / line + 1) * s->pool - 1) * s->stride[0] - s->pad[0] +
                       (s->r - 1) * s->dilation[0];
            need(x, rank, first, last + 1);
            if (layer->residual >= 0)
                need(&p->tensors[layer->residual + 1], rank, from / line, (to - 1) / line + 1);
        }
    }
}

/* The blocks that want a row, from the first to the last of them. */
void fused_readers(const struct fused_planner *p, const struct fused_tensor *t, int row, uint8_t *first,
                   uint8_t *last)
{
    *first = 1;
    *last = 0;
    for (int rank = p->plan->kernel->cluster - 1; rank >= 0; rank--)
        if (row >= t->need_from[rank] && row < t->need_to[rank]) {
            if (*first > *last)
                *last = (uint8_t)rank;
            *first = (uint8_t)rank;
        }
}

/* Waves of images over the chip, each as long as a block takes by itself or as its share of a multiprocessor
 * lets it, whichever is longer. */
void fused_estimate(struct fused_planner *p)
{
    struct convoy_fused_plan *plan = p->plan;
    int cluster = plan->kernel->cluster, threads = plan->kernel->threads;
    double alone = 1500, together = 500;
    for (int i = 0; i < p->shape->count; i++) {
        const struct fused_step *step = &plan->steps[i];
        alone += cluster > 1 ? 900 : 300;
        if (step->kind == CONVOY_FUSED_CONV) {
            double products = (double)step->m_tiles * step->n_tiles * step->steps;
            alone += step->wgmma ? fused_wgmma_cycles(step)
                                 : conv_cycles(p, i, step->parts, step->map_parts, step->mt, step->nt);
            together += step->wgmma
                            ? fused_wgmma_cycles(step)
                            : products / (step->mt * step->nt) * (4 * step->mt + 2 * step->nt) / cluster;
        } else {
            double bytes =
                4.0 * step->places * step->maps * step->in_words / (step->parts * plan->kernel->teams);
            alone += bytes / 40 + 600;
            together += bytes / 40;
        }
    }
    int per_sm = fused_at_most((int)(CONVOY_SHARED_MAX / (plan->shared_bytes + 1024)),
                               65536 / (ESTIMATE_REGISTERS * threads));
    per_sm = fused_at_least(per_sm, 1);
    double at_once = fused_at_least(CONVOY_ESTIMATE_SMS * per_sm / (cluster * plan->kernel->teams), 1);
    double waves = (double)convoy_div_up(p->shape->n, (int64_t)at_once);
    double wave = alone > together * per_sm ? alone : together * per_sm;
    plan->estimate_us = (float)(waves * wave / FUSED_ESTIMATE_CYCLES + CONVOY_ESTIMATE_LAUNCH_US);
    double blocks = at_once < p->shape->n ? at_once : p->shape->n;
    plan->blocks = (int)blocks * plan->kernel->teams * cluster;
}
