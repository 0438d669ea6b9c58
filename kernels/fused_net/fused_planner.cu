/* Makes whole_net's plans: what a layer is to the device. Which block computes what (fused_divide.cu), where
 * it lies (fused_places.cu) and the tables (fused_tables.cu) are files of their own. */
#include "kernels/device/cluster.cuh"
#include "kernels/device/unary.cuh"
#include "kernels/device/wgmma.cuh"
#include "kernels/fused_net/fused_planner.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#ifndef FUSED_PHASE_BYTES /* of an image as cells for each place; tests have smaller images */
#define FUSED_PHASE_BYTES (24 * 1024)
#endif
/* Every team computes an image's convolutions again, for the sake of a short wait: that is for small batches,
 * and 8 images are the most for which waiting is what we tune for. */
#define MOST_TEAM_IMAGES 8

static struct convoy_conv_shape conv_of(const struct convoy_fused_layer *layer)
{
    struct convoy_conv_shape s = layer->shape;
    s.residual = layer->residual >= 0;
    return s;
}

static bool is_conv(const struct convoy_fused_shape *shape, int layer)
{
    return layer < 0 || shape->layers[layer].kind == CONVOY_FUSED_CONV;
}

static bool takes_layer(const struct fused_planner *p, int index)
{
    const struct convoy_fused_layer *layer = &p->shape->layers[index];
    const struct convoy_conv_shape *s = &layer->shape;
    if ((layer->input < 0) != (index == 0) || layer->residual >= index || layer->input >= index)
        return false;
    if (layer->kind != CONVOY_FUSED_CONV)
        return index > 0 && layer->residual < 0 && s->k <= UINT16_MAX;
    /* Means and dense results are vectors without padding, in the first block's memory alone. */
    if (!is_conv(p->shape, layer->input) || !is_conv(p->shape, layer->residual))
        return false;
    return s->groups == 1 && s->k <= UINT16_MAX && (index > 0 || s->c <= CONVOY_KERNEL_CHANNELS) &&
           (s->pool == 1 || (s->pool == 2 && convoy_unary_rises(s->act) && layer->residual < 0)) &&
           s->oh >= s->pool && s->ow >= s->pool;
}

/* ---- Shapes ---- */

static void shape_tensors(struct fused_planner *p)
{
    const struct convoy_fused_shape *shape = p->shape;
    for (int i = 0; i <= shape->count; i++) {
        struct fused_tensor *t = &p->tensors[i];
        const struct convoy_conv_shape *s = &shape->layers[i == 0 ? 0 : i - 1].shape;
        enum convoy_fused_kind kind = shape->layers[i == 0 ? 0 : i - 1].kind;
        bool plane = i > 0 && kind == CONVOY_FUSED_CONV;
        t->c = i == 0 || kind == CONVOY_FUSED_MEAN ? s->c : s->k;
        t->h = i == 0 ? s->h : plane ? s->oh / s->pool : 1;
        t->w = i == 0 ? s->w : plane ? s->ow / s->pool : 1;
        t->kept = i < shape->count;
        t->first = i - 1;
        t->last = i - 1;
        t->copy_of = i;
    }
    for (int i = 0; i < shape->count; i++) {
        const struct convoy_fused_layer *layer = &shape->layers[i];
        const struct convoy_conv_shape *s = &layer->shape;
        struct fused_tensor *x = &p->tensors[layer->input + 1];
        x->last = i;
        if (layer->residual >= 0)
            p->tensors[layer->residual + 1].last = i;
        if (layer->kind != CONVOY_FUSED_CONV)
            continue;
        x->top = fused_at_least(x->top, s->pad[0]);
        x->left = fused_at_least(x->left, s->pad[1]);
        x->bottom = fused_at_least(x->bottom, (s->oh - 1) * s->stride[0] + (s->r - 1) * s->dilation[0] -
                                                  s->pad[0] - x->h + 1);
        x->right = fused_at_least(x->right, (s->ow - 1) * s->stride[1] + (s->s - 1) * s->dilation[1] -
                                                s->pad[1] - x->w + 1);
    }
    /* Results of convolutions that have one shape are padded alike, so that one may take another's place. */
    for (int i = 1; i <= shape->count; i++)
        for (int j = 1; j <= shape->count; j++) {
            struct fused_tensor *a = &p->tensors[i], *b = &p->tensors[j];
            if (!is_conv(shape, i - 1) || !is_conv(shape, j - 1) || a->c != b->c || a->h != b->h ||
                a->w != b->w)
                continue;
            a->top = b->top = fused_at_least(a->top, b->top);
            a->left = b->left = fused_at_least(a->left, b->left);
            a->bottom = b->bottom = fused_at_least(a->bottom, b->bottom);
            a->right = b->right = fused_at_least(a->right, b->right);
        }
}

/* Large images of one channel are read in phases, so that several find room on a multiprocessor; then a line
 * is cells: one under each row of the matrix product, and as many more as the last one's filter sees. */
static void choose_phases(struct fused_planner *p)
{
    struct fused_tensor *x = &p->tensors[0];
    const struct convoy_conv_shape *s = &p->shape->layers[0].shape;
    int64_t bytes = (int64_t)x->width * x->rows * FUSED_CELL * (int64_t)sizeof(uint32_t);
    p->phases = s->c == 1 && s->stride[1] == 1 && s->dilation[1] == 1 && p->plan->kernel->cluster == 1 &&
                bytes > FUSED_PHASE_BYTES;
    if (!p->phases)
        return;
    struct fused_reduction r = fused_reduction_of(p, 0);
    x->width = (int)convoy_div_up((int64_t)p->tensors[1].w * s->pool, r.phases) - 1 + r.groups;
}

/* False: more than shared memory ever holds. */
static bool lay_out_tensors(struct fused_planner *p)
{
    int per_word = fused_word_channels(p->plan->math);
    for (int i = 0; i <= p->shape->count; i++) {
        struct fused_tensor *t = &p->tensors[i];
        if (t->h > FUSED_SHARED_WORDS || t->w > FUSED_SHARED_WORDS || t->c > FUSED_SHARED_WORDS)
            return !t->kept;
        t->width = t->w + t->left + t->right;
        t->rows = t->h + t->top + t->bottom;
        /* Images have few channels: a cell holds several pixels. */
        t->words = i == 0 ? 1 : (int)convoy_div_up(t->c, per_word);
        t->planes = fused_planes(t->words);
        if (i == 0)
            choose_phases(p);
        int64_t words = (int64_t)t->width * t->rows * FUSED_CELL;
        if (t->kept && words * t->planes > FUSED_SHARED_WORDS)
            return false;
        t->plane = (int)fused_at_most((int)words, FUSED_SHARED_WORDS);
    }
    return true;
}

/* ---- Weights ---- */

/* Maps in tiles of 8, a number that two or three divide where there are many. */
static int map_tiles(int maps)
{
    int tiles = (int)convoy_div_up(maps, 8);
    return tiles > 4 && tiles % 2 != 0 && tiles % 3 != 0 ? tiles + 1 : tiles;
}

/* ---- All of it ---- */

/* What depends on a layer and the form of its tensors, not on which block computes it. */
static void describe_step(struct fused_planner *p, int index)
{
    const struct convoy_fused_layer *layer = &p->shape->layers[index];
    const struct convoy_conv_shape s = conv_of(layer);
    struct convoy_fused_plan *plan = p->plan;
    struct fused_step *step = &plan->steps[index];
    const struct fused_tensor *x = &p->tensors[layer->input + 1], *y = &p->tensors[index + 1];
    step->kind = (uint8_t)layer->kind;
    step->result = !y->kept;
    step->act = s.act;
    step->pool = step->parts = step->map_parts = 1;
    step->maps = (uint16_t)y->c;
    step->bias = FUSED_NO_BIAS;
    step->in_plane = (uint16_t)x->plane;
    step->in_words = (uint16_t)x->words;
    step->out_plane = (uint16_t)y->plane;
    step->out_words = (uint16_t)y->words;
    step->has_residual = layer->residual >= 0;
    step->weights = (uint32_t)plan->weight_words;
    if (layer->kind == CONVOY_FUSED_CONV) {
        plan->reductions[index] = fused_reduction_of(p, index);
        const struct fused_reduction *r = &plan->reductions[index];
        p->line_units[index] = (int)convoy_div_up((int64_t)y->w * (r->phases > 1 ? s.pool : 1), r->phases);
        p->unit_rows[index] = r->phases > 1 ? s.pool : s.pool * s.pool;
        p->units[index] = y->h * p->line_units[index];
        step->pool = (uint8_t)s.pool;
        step->steps = (uint16_t)r->steps;
        step->offset_bytes = (uint16_t)(r->offsets * (int)sizeof(int));
        step->phases = r->phases > 1;
        step->m_tiles = (uint16_t)convoy_div_up((int64_t)p->units[index] * p->unit_rows[index], 16);
        /* A vector has an even number of maps: in phases the one too many needs a tile, which makes it zero.
         */
        int maps = plan->kernel->product && !y->kept ? (s.k + 1) / 2 * 2 : s.k;
        step->n_tiles = (uint16_t)map_tiles(maps * r->phases);
        fused_divide_wgmma(p, index);
        step->places = (uint16_t)(y->h * y->w);
        step->rows = (uint32_t)p->row_count;
        step->offsets = (uint32_t)p->offset_count;
        p->row_count += fused_table_rows(step);
        p->offset_count += r->offsets;
        if (!step->wgmma) {
            plan->weight_words +=
                fused_rounded((size_t)step->n_tiles * (step->steps + (size_t)FUSED_STEPS_PAST) * 32 *
                              (size_t)fused_lane_words(plan->math));
        }
    } else {
        step->width = (uint16_t)x->width;
        step->first = (uint16_t)((x->top * x->width + x->left) * FUSED_CELL);
        step->real_w = (uint16_t)x->w;
        step->places = (uint16_t)(x->h * x->w);
        step->by_w = tensor_divider(x->w);
        step->by_cells = tensor_divider(x->planes);
        if (layer->kind == CONVOY_FUSED_DENSE)
            plan->weight_words +=
                fused_rounded((size_t)step->places * step->maps * (size_t)(x->planes * FUSED_CELL));
    }
    if (layer->bias != NULL && layer->kind != CONVOY_FUSED_MEAN) {
        step->bias = (uint32_t)plan->weight_words;
        plan->weight_words += fused_rounded((size_t)fused_at_least(step->n_tiles * 8, step->maps));
    }
}

/* Sizes that the tables' 16 bits hold. */
static bool is_small(const struct fused_planner *p, int index)
{
    const struct convoy_fused_layer *layer = &p->shape->layers[index];
    const struct fused_tensor *x = &p->tensors[layer->input + 1], *y = &p->tensors[index + 1];
    struct convoy_conv_shape s = conv_of(layer);
    if ((int64_t)x->h * x->w > UINT16_MAX || (int64_t)y->h * y->w * s.pool * s.pool > UINT16_MAX * 8)
        return false;
    if (layer->kind != CONVOY_FUSED_CONV)
        return true;
    /* Cells are counted in an int. */
    return (int64_t)s.r * s.s * x->planes <= INT32_MAX &&
           fused_reduction_of(p, index).offsets * (int64_t)sizeof(int) <= UINT16_MAX &&
           (int64_t)y->h * y->w < FUSED_NOWHERE;
}

/* A dense layer's sums are worth sending when its weights are many. */
static void divide_dense(struct fused_planner *p, int index)
{
    struct fused_step *step = &p->plan->steps[index];
    int input = p->shape->layers[index].input;
    step->parts = 1;
    const struct fused_step *before = &p->plan->steps[input < 0 ? 0 : input];
    if (before->kind != CONVOY_FUSED_CONV || before->map_parts != 1 || before->parts == 1 ||
        !fused_feeds_dense(p, input))
        return;
    step->parts = before->parts;
}

/* What of a layer comes to shared memory beforehand, in this order. */
static void stage(struct fused_planner *p, int index)
{
    const struct fused_step *step = &p->plan->steps[index];
    int maps = (int)convoy_div_up(step->n_tiles, step->map_parts),
        rows = (int)convoy_div_up(step->m_tiles, step->parts) * 16;
    p->staged_weights[index] = maps * fused_tile_words(p, index);
    p->staged_words[index] = p->staged_weights[index] + maps * 8 + rows * (int)(sizeof(struct fused_row) / 4);
}

/* Words of shared memory, or more than there are. */
static int place_all(struct fused_planner *p)
{
    struct fused_job *job = &p->plan->job;
    int end = fused_place_tensors(p), partial = 0, offsets = 0, cluster = p->plan->kernel->cluster;
    if (end > FUSED_SHARED_WORDS)
        return end;
    fused_find_clears(p);
    job->words = end;
    for (int i = 0; i < p->shape->count; i++) {
        struct fused_step *step = &p->plan->steps[i];
        const struct convoy_fused_layer *layer = &p->shape->layers[i];
        step->in = (uint16_t)p->tensors[layer->input + 1].offset;
        step->out = (uint16_t)p->tensors[i + 1].offset;
        step->residual = (uint16_t)(layer->residual >= 0 ? p->tensors[layer->residual + 1].offset : 0);
        offsets = fused_at_least(offsets, step->offset_bytes / (int)sizeof(int));
        if (step->kind == CONVOY_FUSED_DENSE && step->parts > 1)
            partial = fused_at_least(partial, step->parts * step->maps);
        if (step->kind == CONVOY_FUSED_CONV && cluster > 1)
            stage(p, i);
    }
    job->partial = end;
    job->offsets_at = end + (int)convoy_div_up(partial, 32) * 32;
    job->offset_words = offsets;
    job->shares = job->offsets_at + 2 * job->offset_words;
    job->steps_at = job->shares + (cluster > 1 ? p->plan->kernel->threads * 4 : 0);
    end = fused_place_staged(p, job->steps_at + p->shape->count * (int)(sizeof(struct fused_step) / 4));
    return fused_place_ring(p, end);
}

/* After a layer that is the first block's alone, for one that is too, no other block has to be waited for. */
static void find_alone(struct fused_planner *p)
{
    for (int i = 0; i + 1 < p->shape->count; i++) {
        struct fused_step *step = &p->plan->steps[i], *next = &p->plan->steps[i + 1];
        step->block_alone = p->plan->kernel->cluster > 1 && step->kind != CONVOY_FUSED_CONV &&
                            next->kind != CONVOY_FUSED_CONV && next->parts == 1 && !next->clear;
    }
}

static void describe_images(struct fused_planner *p)
{
    struct fused_job *job = &p->plan->job;
    struct fused_tensor *x = &p->tensors[0];
    job->first = p->shape->layers[0].shape;
    const struct fused_reduction *reduction = &p->plan->reductions[0];
    job->phases = reduction->phases > 1;
    job->in = x->offset;
    job->in_width = x->width;
    job->pixel = reduction->pixel;
    job->in_span =
        job->phases ? x->width * FUSED_CELL : x->width + (reduction->columns - 1) * job->first.dilation[1];
    job->in_top = x->top;
    job->in_left = x->left;
    job->by_in_span = tensor_divider(job->in_span);
    for (int rank = 0; rank < p->plan->kernel->cluster; rank++) {
        bool none = x->need_from[rank] >= x->need_to[rank];
        /* With the padding above and below. */
        job->first_row[rank] = (uint16_t)(none || x->need_from[rank] == 0 ? 0 : x->need_from[rank] + x->top);
        job->end_row[rank] = (uint16_t)(none                       ? 0
                                        : x->need_to[rank] == x->h ? x->rows
                                                                   : x->need_to[rank] + x->top);
    }
}

/* Chips from 8.0 on have from 99 to 227 KB for a block. */
static bool device_has(size_t shared_bytes)
{
    int device = 0, bytes = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device) == cudaSuccess &&
           shared_bytes <= (size_t)bytes;
}

/* False: the shares cannot be that small. */
static bool divide(struct fused_planner *p, int most, int *words)
{
    for (int i = 0; i <= p->shape->count; i++) {
        memset(p->tensors[i].need_from, 0, sizeof p->tensors[i].need_from);
        memset(p->tensors[i].need_to, 0, sizeof p->tensors[i].need_to);
    }
    for (int i = 0; i < p->shape->count; i++) {
        p->plan->steps[i].clear = false;
        if (p->shape->layers[i].kind == CONVOY_FUSED_CONV && !p->plan->steps[i].wgmma)
            fused_divide_conv(p, i, most);
        else if (p->shape->layers[i].kind == CONVOY_FUSED_DENSE)
            divide_dense(p, i);
        if (p->shape->layers[i].kind == CONVOY_FUSED_CONV && p->plan->steps[i].mt == 0)
            return false;
    }
    fused_find_needs(p);
    *words = place_all(p);
    return true;
}

static bool make(struct fused_planner *p)
{
    const struct convoy_fused_shape *shape = p->shape;
    struct convoy_fused_plan *plan = p->plan;
    int cluster = plan->kernel->cluster, teams = plan->kernel->teams;
    if (shape->count < 1 || shape->count > CONVOY_FUSED_LAYERS ||
        shape->layers[0].kind != CONVOY_FUSED_CONV || !tensor_allows(plan->math, shape->compute_type) ||
        !convoy_has_mma() || (cluster > 1 && !convoy_has_clusters()) ||
        (teams > 1 && shape->n > MOST_TEAM_IMAGES) ||
        (shape->softmax && plan->kernel->span != CONVOY_FUSED_ALL))
        return false;
    for (int i = 0; i < shape->count; i++)
        if (!takes_layer(p, i))
            return false;
    shape_tensors(p);
    if (!lay_out_tensors(p))
        return false;
    for (int i = 0; i < shape->count; i++) {
        if (!is_small(p, i))
            return false;
        describe_step(p, i);
    }
    fused_place_chunks(p);
    if (plan->kernel->wgmma && (plan->job.ring_chunks == 0 || !convoy_has_wgmma()))
        return false;
    /* Weights in smaller shares until they find room beside the tensors. */
    int words = FUSED_SHARED_WORDS + 1;
    for (int most = 48 * 1024; words > FUSED_SHARED_WORDS && most >= 2048; most /= 2)
        if (!divide(p, most, &words))
            return false;
    if (words > FUSED_SHARED_WORDS)
        return false;
    /* Teams repeat all layers but the last, which has to be worth it: a dense one, large and so divided. */
    const struct fused_step *last = &plan->steps[shape->count - 1];
    if (teams > 1 && (last->kind != CONVOY_FUSED_DENSE || last->parts == 1))
        return false;
    plan->shared_bytes = (size_t)words * sizeof(float);
    if (!device_has(plan->shared_bytes))
        return false;
    find_alone(p);
    describe_images(p);
    fused_estimate(p);
    return true;
}

/* A dense layer that reads the result of the layers before it, for the kernels that compute it for all images
 * at once. */
static const struct convoy_fused_layer *product_of(const struct convoy_fused_kernel *kernel,
                                                   const struct convoy_fused_shape *shape)
{
    const struct convoy_fused_layer *last = &shape->layers[shape->count - 1];
    return kernel->product && shape->count > 1 && is_conv(shape, shape->count - 2) &&
                   last->input == shape->count - 2
               ? last
               : NULL;
}

int convoy_fused_plan_make(const struct convoy_fused_kernel *kernel, const struct convoy_fused_shape *shape,
                           bool with_tables, struct convoy_fused_plan **result)
{
    struct fused_planner *p = (struct fused_planner *)calloc(1, sizeof *p);
    struct convoy_fused_plan *plan = (struct convoy_fused_plan *)calloc(1, sizeof *plan);
    *result = NULL;
    int failed = p == NULL || plan == NULL ? -ENOMEM : 0;
    struct convoy_fused_shape chain = *shape; /* of what whole_net computes */
    const struct convoy_fused_layer *product = product_of(kernel, shape);
    if (!failed) {
        chain.count -= product != NULL;
        p->shape = &chain;
        p->plan = plan;
        plan->kernel = kernel;
        plan->math = kernel->compute_type == CONVOY_COMPUTE_FP32   ? TENSOR_FP32
                     : kernel->compute_type == CONVOY_COMPUTE_TF32 ? TENSOR_TF32
                                                                   : TENSOR_HALF;
        plan->job.n = shape->n;
        plan->job.count = chain.count;
        plan->job.cluster = kernel->cluster;
        plan->job.teams = kernel->teams;
        plan->job.threads = kernel->threads;
        plan->job.y_stride = shape->y_stride;
        plan->job.softmax = shape->softmax ? convoy_fused_outputs(&shape->layers[shape->count - 1]) : 0;
        bool fits = kernel->product == (product != NULL) && make(p);
        if (fits && product != NULL)
            fits = convoy_has_wgmma() && fused_describe_product(plan, product);
        if (fits && with_tables && !fused_make_tables(p))
            failed = -ENOMEM;
        if (fits && !failed) {
            *result = plan;
            plan = NULL;
        }
    }
    convoy_fused_plan_free(plan);
    free(p);
    return failed;
}

void convoy_fused_plan_free(struct convoy_fused_plan *plan)
{
    if (plan == NULL)
        return;
    free(plan->tables);
    free(plan);
}

float convoy_fused_estimate_us(const struct convoy_fused_plan *plan)
{
    return plan->estimate_us;
}

int convoy_fused_weight_form(const struct convoy_fused_plan *plan)
{
    /* Which layers are on warpgroups depends on how many of these there are. */
    return (plan->reductions[0].phases > 1) + (plan->kernel->wgmma ? plan->kernel->threads : 0) +
           2 * plan->kernel->product;
}

size_t convoy_fused_weight_bytes(const struct convoy_fused_plan *plan)
{
    return plan->weight_words * sizeof(uint32_t);
}

size_t convoy_fused_table_bytes(const struct convoy_fused_plan *plan)
{
    return plan->table_bytes;
}

size_t convoy_fused_scratch_bytes(const struct convoy_fused_plan *plan)
{
    return plan->kernel->product ? fused_product_scratch_bytes(plan) : 0;
}

const void *convoy_fused_tables(const struct convoy_fused_plan *plan)
{
    return plan->tables;
}

cudaError_t convoy_launch_fused(const struct convoy_fused_plan *plan,
                                const struct convoy_fused_operands *operands, cudaStream_t stream)
{
    struct fused_job job = plan->job;
    job.x = operands->x;
    job.weights = (const uint32_t *)operands->weights;
    job.steps = (const struct fused_step *)operands->tables;
    job.rows = (const struct fused_row *)(const void *)((const char *)operands->tables + plan->rows_from);
    job.chunks =
        (const struct fused_chunk *)(const void *)((const char *)operands->tables + plan->chunks_from);
    job.offsets = (const int *)(const void *)((const char *)operands->tables + plan->offsets_from);
    job.y = operands->y;
    job.vector.images = plan->kernel->product ? (uint32_t *)operands->scratch : NULL;
    cudaError_t status = plan->math == TENSOR_FP32   ? fused_launch_fp32(plan, &job, stream)
                         : plan->math == TENSOR_TF32 ? fused_launch_tf32(plan, &job, stream)
                         : plan->kernel->wgmma       ? fused_launch_wgmma(plan, &job, stream)
                                                     : fused_launch_fp16(plan, &job, stream);
    if (status != cudaSuccess || !plan->kernel->product)
        return status;
    return fused_launch_product(plan, operands, stream);
}
