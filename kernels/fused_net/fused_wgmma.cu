/* Which convolutions of whole_net run on warpgroups, which warps compute what of them, and how their weights
 * arrive: the plan of fused_wgmma.cuh. */
#include "kernels/device/launch.cuh"
#include "kernels/device/wgmma.cuh"
#include "kernels/fused_net/fused_planner.h"

#define PATCH     8        /* outputs, each way */
#define MAP_BYTES (2 * 16) /* of the weights of a step */
#define BARRIERS  2        /* of a chunk, of two words each */

static int patches_of(const struct fused_tensor *y)
{
    return (int)(convoy_div_up(y->h, PATCH) * convoy_div_up(y->w, PATCH));
}

/* Wavefronts of shared memory for a step of a task: 16 of each patch, and the weights for each again. */
static double task_cycles(int mt, int nt)
{
    return mt * (16.0 + 2 * nt);
}

void fused_divide_wgmma(struct fused_planner *p, int index)
{
    const struct convoy_fused_layer *layer = &p->shape->layers[index];
    const struct convoy_conv_shape *s = &layer->shape;
    const struct fused_tensor *x = &p->tensors[layer->input + 1], *y = &p->tensors[index + 1];
    int groups = p->plan->kernel->threads / CONVOY_WARPGROUP, patches = patches_of(y);
    int tiles = (int)convoy_div_up(s->k, 16) * 2;
    struct fused_step *step = &p->plan->steps[index];
    double best = 0;
    if (!p->plan->kernel->wgmma || layer->kind != CONVOY_FUSED_CONV || layer->input < 0 || !y->kept)
        return;
    /* Two planes are a step, and no more of the patches is wasted than used. */
    if (x->planes % 2 != 0 || s->stride[0] != 1 || s->stride[1] != 1 || s->pool != 1 ||
        patches * PATCH * PATCH > 2 * y->h * y->w)
        return;
    static const uint8_t cases[][3] = {
#define CASE(mt, nt, steps) {mt, nt, steps},
        FUSED_WGMMA_CASES(CASE)
#undef CASE
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int down = cases[i][0], across = cases[i][1], steps = cases[i][2];
        int tasks = (int)convoy_div_up(patches, down) * (tiles / across);
        double cycles = tasks * task_cycles(down, across);
        if (tiles % across != 0 || tasks > groups || steps * tiles * 8 * MAP_BYTES > FUSED_CHUNK ||
            (step->wgmma && cycles >= best))
            continue;
        best = cycles;
        step->wgmma = true;
        step->mt = (uint8_t)down;
        step->nt = (uint8_t)across;
        step->chunk_steps = (uint8_t)steps;
    }
    if (!step->wgmma)
        return;
    step->m_tiles = (uint16_t)(patches * 4);
    step->n_tiles = (uint16_t)tiles;
    step->in_line = x->width * FUSED_CELL * (int)sizeof(uint32_t);
    step->exact = y->h % PATCH == 0 && y->w % PATCH == 0 && tiles == y->planes;
    step->width = (uint16_t)y->width;
    step->first = (uint16_t)((y->top * y->width + y->left) * FUSED_CELL);
    step->real_w = (uint16_t)y->w;
    step->real_h = (uint16_t)y->h;
    step->by_w = tensor_divider((int)convoy_div_up(y->w, PATCH));
    step->patch_in = (uint16_t)(((x->top - s->pad[0]) * x->width + x->left - s->pad[1]) * FUSED_CELL);
}

double fused_wgmma_cycles(const struct fused_step *step)
{
    double tasks = (double)convoy_div_up(step->m_tiles / 4, step->mt) * (step->n_tiles / step->nt);
    return step->steps * tasks * task_cycles(step->mt, step->nt) + 1000;
}

static int chunk_bytes(const struct fused_step *step)
{
    return step->chunk_steps * step->n_tiles * 8 * MAP_BYTES;
}

static int chunks_of(const struct fused_step *step)
{
    return step->wgmma ? (int)convoy_div_up(step->steps, step->chunk_steps) : 0;
}

void fused_place_chunks(struct fused_planner *p)
{
    struct convoy_fused_plan *plan = p->plan;
    for (int i = 0; i < p->shape->count; i++) {
        struct fused_step *step = &plan->steps[i];
        if (!step->wgmma)
            continue;
        step->weights = (uint32_t)plan->weight_words;
        plan->weight_words += (size_t)(chunks_of(step) * (chunk_bytes(step) / 4));
        plan->job.ring_chunks += chunks_of(step);
    }
}

void fused_make_chunks(const struct convoy_fused_plan *plan, int count, struct fused_chunk *chunks)
{
    for (int i = 0; i < count; i++)
        for (int k = 0; k < chunks_of(&plan->steps[i]); k++, chunks++) {
            chunks->bytes = chunk_bytes(&plan->steps[i]);
            chunks->from = plan->steps[i].weights + (uint32_t)(k * (chunks->bytes / 4));
        }
}

int fused_place_ring(struct fused_planner *p, int begin)
{
    struct fused_job *job = &p->plan->job;
    if (!p->plan->kernel->wgmma || begin > FUSED_SHARED_WORDS)
        return begin;
    job->ring = (int)convoy_div_up(begin, 32) * 32;
    return job->ring + FUSED_STAGES * (FUSED_CHUNK / 4 + BARRIERS * 2);
}

/* Steps x two halves x maps x 8 numbers of the reduction, two to a word; zeros to the end of a chunk. */
void fused_pack_wgmma(const struct convoy_fused_plan *plan, int index, const struct convoy_fused_layer *layer,
                      uint32_t *packed)
{
    const struct fused_step *step = &plan->steps[index];
    const struct fused_reduction *reduction = &plan->reductions[index];
    int maps = step->n_tiles * 8;
    for (int i = 0; i < step->steps; i++) {
        uint32_t *to = packed + (size_t)(i * maps * (MAP_BYTES / 4));
        for (int half = 0; half < 2; half++)
            for (int map = 0; map < maps; map++)
                for (int word = 0; word < FUSED_CELL; word++, to++) {
                    int number = (i * 2 + half) * 8 + word * 2;
                    tensor_put_weights(TENSOR_HALF, to,
                                       fused_weight_at(layer, reduction, TENSOR_HALF, number, map, 0),
                                       fused_weight_at(layer, reduction, TENSOR_HALF, number + 1, map, 0));
                }
    }
}
