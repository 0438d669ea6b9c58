/* Cuts a network up for whole_net: where its tensors lie in shared memory, which block and warp computes
 * what, and the tables of addresses that the device walks through. */
#include "kernels/cluster.cuh"
#include "kernels/conv_common.h"
#include "kernels/tensor_layout.cuh"
#include "kernels/unary.cuh"
#include "kernels/whole_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SHARED_WORDS    ((int)(227 * 1024 / sizeof(float))) /* of a block on the chips that have clusters */
#define GUESS_CYCLES    1700.0                              /* a microsecond */
#define WORTH_DIVIDING  (1 << 16)                           /* weights of a dense layer */
#define GUESS_REGISTERS 128

/* A tensor in shared memory: planes of rows x width words with padding around the real h x w. Number 0 is the
 * images, i + 1 what layer i computes. */
struct tensor {
    bool kept; /* in shared memory: all but the result */
    int c, h, w, top, left, bottom, right;
    int rows, width, plane, words;
    int offset, first, last; /* steps: written and read last; of the images first is -1 */
    int copy_of;             /* the tensor in whose memory it lies, itself as a rule */
    int need_from[CONVOY_WHOLE_CLUSTER], need_to[CONVOY_WHOLE_CLUSTER]; /* real rows that a block reads */
};

struct planner {
    const struct convoy_whole_shape *shape;
    struct convoy_whole_plan *plan;
    struct tensor tensors[CONVOY_WHOLE_LAYERS + 1];
    struct tensor_plan reductions[CONVOY_WHOLE_LAYERS];
    int staged_words[CONVOY_WHOLE_LAYERS], staged_weights[CONVOY_WHOLE_LAYERS];
    int units[CONVOY_WHOLE_LAYERS]; /* rows of the result of a convolution, pooled */
    int row_count, offset_count;
};

static int at_most(int a, int b)
{
    return a < b ? a : b;
}

static int at_least(int a, int b)
{
    return a > b ? a : b;
}

static struct convoy_conv_shape conv_of(const struct convoy_whole_layer *layer)
{
    struct convoy_conv_shape s = layer->shape;
    s.residual = layer->residual >= 0;
    return s;
}

static bool is_conv(const struct convoy_whole_shape *shape, int layer)
{
    return layer < 0 || shape->layers[layer].kind == CONVOY_WHOLE_CONV;
}

static bool takes_layer(const struct planner *p, int index)
{
    const struct convoy_whole_layer *layer = &p->shape->layers[index];
    const struct convoy_conv_shape *s = &layer->shape;
    bool half = p->plan->math == TENSOR_HALF;
    if ((layer->input < 0) != (index == 0) || layer->residual >= index || layer->input >= index)
        return false;
    if (layer->kind != CONVOY_WHOLE_CONV)
        return index > 0 && layer->residual < 0 && s->k <= UINT16_MAX;
    /* Means and dense results are vectors without padding, in the first block's memory alone. */
    if (!is_conv(p->shape, layer->input) || !is_conv(p->shape, layer->residual))
        return false;
    bool several =
        s->c > 1 || index == 0; /* a word of fp16 is two channels; only the images have pairs of taps */
    return s->groups == 1 && (!half || several) && s->k <= UINT16_MAX &&
           (index > 0 || s->c <= CONVOY_KERNEL_CHANNELS) &&
           (s->pool == 1 || (s->pool == 2 && convoy_unary_rises(s->act) && layer->residual < 0)) &&
           s->oh >= s->pool && s->ow >= s->pool;
}

/* ---- Shapes ---- */

static void shape_tensors(struct planner *p)
{
    const struct convoy_whole_shape *shape = p->shape;
    for (int i = 0; i <= shape->count; i++) {
        struct tensor *t = &p->tensors[i];
        const struct convoy_conv_shape *s = &shape->layers[i == 0 ? 0 : i - 1].shape;
        enum convoy_whole_kind kind = shape->layers[i == 0 ? 0 : i - 1].kind;
        bool plane = i > 0 && kind == CONVOY_WHOLE_CONV;
        t->c = i == 0 || kind == CONVOY_WHOLE_MEAN ? s->c : s->k;
        t->h = i == 0 ? s->h : plane ? s->oh / s->pool : 1;
        t->w = i == 0 ? s->w : plane ? s->ow / s->pool : 1;
        t->kept = i < shape->count;
        t->first = i - 1;
        t->last = i - 1;
        t->copy_of = i;
    }
    for (int i = 0; i < shape->count; i++) {
        const struct convoy_whole_layer *layer = &shape->layers[i];
        const struct convoy_conv_shape *s = &layer->shape;
        struct tensor *x = &p->tensors[layer->input + 1];
        x->last = i;
        if (layer->residual >= 0)
            p->tensors[layer->residual + 1].last = i;
        if (layer->kind != CONVOY_WHOLE_CONV)
            continue;
        x->top = at_least(x->top, s->pad[0]);
        x->left = at_least(x->left, s->pad[1]);
        x->bottom = at_least(x->bottom,
                             (s->oh - 1) * s->stride[0] + (s->r - 1) * s->dilation[0] - s->pad[0] - x->h + 1);
        x->right = at_least(x->right,
                            (s->ow - 1) * s->stride[1] + (s->s - 1) * s->dilation[1] - s->pad[1] - x->w + 1);
    }
    /* Results of convolutions that have one shape are padded alike, so that one may take another's place. */
    for (int i = 1; i <= shape->count; i++)
        for (int j = 1; j <= shape->count; j++) {
            struct tensor *a = &p->tensors[i], *b = &p->tensors[j];
            if (!is_conv(shape, i - 1) || !is_conv(shape, j - 1) || a->c != b->c || a->h != b->h ||
                a->w != b->w)
                continue;
            a->top = b->top = at_least(a->top, b->top);
            a->left = b->left = at_least(a->left, b->left);
            a->bottom = b->bottom = at_least(a->bottom, b->bottom);
            a->right = b->right = at_least(a->right, b->right);
        }
}

/* False: more than shared memory ever holds. */
static bool lay_out_tensors(struct planner *p)
{
    bool half = p->plan->math == TENSOR_HALF;
    for (int i = 0; i <= p->shape->count; i++) {
        struct tensor *t = &p->tensors[i];
        if (t->h > SHARED_WORDS || t->w > SHARED_WORDS || t->c > SHARED_WORDS)
            return !t->kept;
        t->width = t->w + t->left + t->right;
        t->rows = t->h + t->top + t->bottom;
        int64_t words = (int64_t)t->width * t->rows;
        /* Fragments of A meet no conflict of banks where planes lie an odd number of 8 words apart,
         * modulo 32. */
        words = words == 1 ? 1 : (convoy_div_up(words, 8) | 1) * 8;
        t->words = half && !(i == 0 && t->c == 1) ? (t->c + 1) / 2 : t->c;
        if (t->kept && words * t->words > SHARED_WORDS)
            return false;
        t->plane = (int)at_most((int)words, SHARED_WORDS);
    }
    return true;
}

/* ---- Who computes what ---- */

static int lane_words(enum tensor_math math)
{
    return math == TENSOR_FP32 ? 4 : 2;
}

/* Words of the weights of 8 maps. */
static int tile_words(const struct planner *p, int index)
{
    return p->plan->steps[index].steps * 32 * lane_words(p->plan->math);
}

/* Cycles of a convolution with so many parts of its rows and maps, by a warp's tiles of mt x nt: its steps
 * one after the other for a warp, or what shared memory gives, whichever takes longer; the weights on their
 * way through 64 bytes a cycle, half of them beside something else; and the stores to all who read. Made up
 * from cycles of instructions, to choose between ways of cutting. */
static double conv_cycles(const struct planner *p, int index, int parts, int map_parts, int mt, int nt)
{
    const struct whole_step *step = &p->plan->steps[index];
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
static bool feeds_dense(const struct planner *p, int index)
{
    const struct convoy_whole_layer *next = &p->shape->layers[index + 1];
    return index + 1 < p->shape->count && next->kind == CONVOY_WHOLE_DENSE && next->input == index &&
           (int64_t)next->shape.c * next->shape.h * next->shape.w * next->shape.k >= WORTH_DIVIDING;
}

/* most: words of weights that a block keeps of a layer. */
static void divide_conv(struct planner *p, int index, int most)
{
    struct whole_step *step = &p->plan->steps[index];
    int cluster = p->plan->kernel->cluster;
    double best = 0;
    step->mt = 0;
    for (int parts = cluster; parts >= 1; parts /= 2)
        for (int mt = 1; mt <= (cluster > 1 ? 1 : 4); mt *= 2)
            for (int nt = 1; nt <= (cluster > 1 ? 1 : 4); nt++) {
                int map_parts = cluster / parts;
                bool even = step->n_tiles % map_parts == 0 && step->n_tiles / map_parts % nt == 0;
                int staged = (int)convoy_div_up(step->n_tiles, map_parts) * tile_words(p, index);
                if (!(even || nt == 1) || mt * nt > (p->plan->math == TENSOR_FP32 ? 8 : 12))
                    continue;
                if (cluster > 1 && (staged > most || (map_parts > 1 && feeds_dense(p, index))))
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

static int part(int count, int number, int parts)
{
    return count * number / parts;
}

/* The units that block rank of the cluster computes of a convolution. */
static void units_of(const struct planner *p, int index, int rank, int *from, int *to)
{
    const struct whole_step *step = &p->plan->steps[index];
    int tile_units = 16 / (step->pool * step->pool), number = rank / step->map_parts;
    *from = at_most(part(step->m_tiles, number, step->parts) * tile_units, p->units[index]);
    *to = at_most(part(step->m_tiles, number + 1, step->parts) * tile_units, p->units[index]);
}

static void need(struct tensor *t, int rank, int from, int to)
{
    from = at_least(from, 0);
    to = at_most(to, t->h);
    if (from >= to)
        return;
    bool none = t->need_from[rank] >= t->need_to[rank];
    t->need_from[rank] = none ? from : at_most(t->need_from[rank], from);
    t->need_to[rank] = none ? to : at_least(t->need_to[rank], to);
}

static void find_needs(struct planner *p)
{
    for (int i = 0; i < p->shape->count; i++) {
        const struct convoy_whole_layer *layer = &p->shape->layers[i];
        const struct convoy_conv_shape *s = &layer->shape;
        const struct whole_step *step = &p->plan->steps[i];
        struct tensor *x = &p->tensors[layer->input + 1], *y = &p->tensors[i + 1];
        if (layer->kind != CONVOY_WHOLE_CONV) {
            /* Divided, each block reads what it wrote itself. */
            for (int rank = 0; rank < p->plan->kernel->cluster && step->parts > 1; rank++) {
                int from, to;
                units_of(p, layer->input, rank, &from, &to);
                if (from < to)
                    need(x, rank, from / x->w, (to - 1) / x->w + 1);
            }
            if (step->parts == 1)
                need(x, 0, 0, x->h);
            continue;
        }
        for (int rank = 0; rank < p->plan->kernel->cluster; rank++) {
            int from, to;
            units_of(p, i, rank, &from, &to);
            if (from >= to)
                continue;
            int first = from / y->w * s->pool * s->stride[0] - s->pad[0];
            int last = (((to - 1) / y->w + 1) * s->pool - 1) * s->stride[0] - s->pad[0] +
                       (s->r - 1) * s->dilation[0];
            need(x, rank, first, last + 1);
            if (layer->residual >= 0)
                need(&p->tensors[layer->residual + 1], rank, from / y->w, (to - 1) / y->w + 1);
        }
    }
}

/* The blocks that want a row, from the first to the last of them. */
static void readers(const struct planner *p, const struct tensor *t, int row, uint8_t *first, uint8_t *last)
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

/* ---- Places in shared memory ---- */

struct item {
    int words, first, last, offset;
    int owner; /* tensor */
};

static int by_size(const void *a, const void *b)
{
    const struct item *one = (const struct item *)a, *other = (const struct item *)b;
    return one->words != other->words ? other->words - one->words : one->owner - other->owner;
}

/* The lowest place for an item beside those placed before it that live at the same time; returns its end. */
static int place(struct item *items, int index)
{
    struct item *item = &items[index];
    item->offset = 0;
    for (int i = 0; i < index; i++) {
        const struct item *other = &items[i];
        bool together = item->first <= other->last && other->first <= item->last;
        if (together && item->offset < other->offset + other->words &&
            other->offset < item->offset + item->words) {
            item->offset = other->offset + other->words;
            i = -1; /* from the beginning, with the new place */
        }
    }
    return item->offset + item->words;
}

static int place_tensors(struct planner *p)
{
    struct item items[CONVOY_WHOLE_LAYERS + 1];
    int of[CONVOY_WHOLE_LAYERS + 1], count = 0, end = 0;
    for (int i = 0; i <= p->shape->count; i++) {
        struct tensor *t = &p->tensors[i];
        const struct convoy_whole_layer *layer = i > 0 ? &p->shape->layers[i - 1] : NULL;
        struct tensor *around =
            layer != NULL && layer->residual >= 0 ? &p->tensors[layer->residual + 1] : NULL;
        of[i] = -1;
        if (!t->kept)
            continue;
        /* The sum takes the place of its other side, which nobody else reads any more. */
        if (around != NULL && around->last == i - 1 && layer->input != layer->residual) {
            of[i] = of[layer->residual + 1];
            items[of[i]].last = t->last;
            t->copy_of = p->tensors[layer->residual + 1].copy_of;
            continue;
        }
        of[i] = count;
        items[count++] =
            (struct item){(int)convoy_div_up(t->words * t->plane, 32) * 32, t->first, t->last, 0, i};
    }
    qsort(items, (size_t)count, sizeof items[0], by_size);
    for (int i = 0; i < count; i++) {
        end = at_least(end, place(items, i));
        p->tensors[items[i].owner].offset = items[i].offset;
    }
    for (int i = 0; i <= p->shape->count; i++)
        p->tensors[i].offset = p->tensors[p->tensors[i].copy_of].offset;
    return end;
}

/* The weights of a layer come while the one before it runs; those of the first while the last one does, for
 * the next image. Returns the end. */
static int place_staged(struct planner *p, int begin)
{
    struct item items[CONVOY_WHOLE_LAYERS];
    int end = 0, count = p->shape->count;
    for (int i = 0; i < count; i++) {
        items[i] = (struct item){p->staged_words[i], i - 1, i, 0, i};
        if (i == 0 || i == count - 1) /* the last one's room is never the first one's */
            items[i].first = 0, items[i].last = count;
        end = at_least(end, place(items, i));
        if (begin + end > SHARED_WORDS)
            return begin + end;
        struct whole_step *step = &p->plan->steps[i];
        step->staged = (uint16_t)(begin + items[i].offset);
        step->staged_bias = (uint16_t)(step->staged + p->staged_weights[i]);
        step->staged_rows =
            (uint16_t)(step->staged_bias + convoy_div_up(step->n_tiles, at_least(step->map_parts, 1)) * 8);
    }
    return begin + end;
}

static bool overlap(const struct tensor *a, const struct tensor *b)
{
    return a->offset < b->offset + b->words * b->plane && b->offset < a->offset + a->words * a->plane;
}

static bool same_place(const struct tensor *a, const struct tensor *b)
{
    return a->offset == b->offset && a->plane == b->plane && a->words == b->words && a->width == b->width &&
           a->h == b->h && a->w == b->w && a->top == b->top && a->left == b->left;
}

/* Padding stays zero as long as only tensors of one shape lie where it is. Two rounds, because images follow
 * each other; all is zero in the beginning. */
static void find_clears(struct planner *p)
{
    const struct tensor *clean[2 * CONVOY_WHOLE_LAYERS + 2], *written[CONVOY_WHOLE_LAYERS + 1];
    int clean_count = 0, written_count = 0;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < p->shape->count; i++) {
            const struct tensor *t = &p->tensors[i];
            bool is_clean = false, touched = false;
            for (int k = 0; k < clean_count; k++)
                is_clean = is_clean || same_place(clean[k], t);
            for (int k = 0; k < written_count; k++)
                touched = touched || overlap(written[k], t);
            bool padded = t->top + t->left + t->bottom + t->right > 0;
            if (!is_clean && touched && padded && i > 0) /* the images come with their padding */
                p->plan->steps[i - 1].clear = true;
            int kept = 0;
            for (int k = 0; k < clean_count; k++)
                if (!overlap(clean[k], t))
                    clean[kept++] = clean[k];
            clean[kept++] = t;
            clean_count = kept;
            if (round == 0)
                written[written_count++] = t;
        }
}

/* ---- Tables ---- */

static void make_rows(const struct planner *p, int index, struct whole_row *rows)
{
    const struct convoy_whole_layer *layer = &p->shape->layers[index];
    const struct convoy_conv_shape *s = &layer->shape;
    const struct whole_step *step = &p->plan->steps[index];
    const struct tensor *x = &p->tensors[layer->input + 1], *y = &p->tensors[index + 1];
    for (int i = 0; i < step->m_tiles * 16; i++) {
        int tile = i / 16, row = i % 16;
        int unit = s->pool == 2 ? tile * 4 + row % 8 / 2 : i;
        int safe = at_most(unit, p->units[index] - 1), unit_y = safe / y->w, unit_x = safe % y->w;
        int oy = unit_y * s->pool + (s->pool == 2 ? row / 8 : 0),
            ox = unit_x * s->pool + (s->pool == 2 ? row % 2 : 0);
        rows[i].in = (uint16_t)((oy * s->stride[0] - s->pad[0] + x->top) * x->width + ox * s->stride[1] -
                                s->pad[1] + x->left);
        bool unused = !y->kept && layer->residual < 0; /* beside the result may lie what is added to it */
        rows[i].out = (uint16_t)(unused ? 0 : (unit_y + y->top) * y->width + unit_x + y->left);
        if (unit != safe)
            rows[i].out = WHOLE_NOWHERE;
        readers(p, y, unit_y, &rows[i].first, &rows[i].last);
    }
}

/* As tensor's weights are laid out: chunks of channels, taps, words. Those past the end repeat the last. */
static void make_offsets(const struct planner *p, int index, int *offsets)
{
    const struct convoy_whole_layer *layer = &p->shape->layers[index];
    const struct convoy_conv_shape *s = &layer->shape;
    const struct tensor_plan *reduction = &p->reductions[index];
    const struct tensor *x = &p->tensors[layer->input + 1];
    for (int chunk = 0; chunk < reduction->chunks; chunk++)
        for (int i = 0; i < reduction->steps * TENSOR_STEP; i++) {
            int real = s->r * reduction->tap_columns * reduction->words, k = at_most(i, real - 1);
            int tap = k / reduction->words, word = chunk * reduction->words + k % reduction->words;
            int r = tap / reduction->tap_columns,
                column = tap % reduction->tap_columns * (reduction->tap_pairs ? 2 : 1);
            *offsets++ = (at_most(word, x->words - 1) * x->plane + r * s->dilation[0] * x->width +
                          column * s->dilation[1]) *
                         4;
        }
}

/* A step as block rank sees it. */
static struct whole_step step_of(const struct planner *p, int index, int rank)
{
    struct whole_step step = p->plan->steps[index];
    int from = 0, to = step.places;
    if (step.kind == CONVOY_WHOLE_CONV) {
        int rows = rank / step.map_parts, maps = rank % step.map_parts;
        step.tile_begin = (uint16_t)part(step.m_tiles, rows, step.parts);
        step.tile_end = (uint16_t)part(step.m_tiles, rows + 1, step.parts);
        step.map_begin = (uint16_t)part(step.n_tiles, maps, step.map_parts);
        step.map_end = (uint16_t)part(step.n_tiles, maps + 1, step.map_parts);
        int across = (step.map_end - step.map_begin) / step.nt, warps = p->plan->kernel->threads / 32;
        step.tasks = (uint16_t)(convoy_div_up(step.tile_end - step.tile_begin, step.mt) * across);
        step.by_across = tensor_divider(at_least(across, 1));
        int shares =
            at_most(warps / at_least(step.tasks, 1), (int)convoy_div_up(step.steps, WHOLE_LEAST_STEPS));
        step.share_steps = (uint16_t)convoy_div_up(step.steps, at_least(shares, 1));
        step.shares = (uint16_t)convoy_div_up(step.steps, step.share_steps);
        if (p->plan->kernel->cluster == 1 || step.tasks == 0)
            step.shares = 1;
        return step;
    }
    if (step.parts > 1)
        units_of(p, p->shape->layers[index].input, rank, &from, &to);
    step.tile_begin = (uint16_t)from;
    step.tile_end = (uint16_t)to;
    return step;
}

static bool make_tables(struct planner *p)
{
    struct convoy_whole_plan *plan = p->plan;
    int cluster = plan->kernel->cluster, count = p->shape->count;
    plan->rows_from = (size_t)(cluster * count) * sizeof(struct whole_step);
    plan->offsets_from = plan->rows_from + (size_t)p->row_count * sizeof(struct whole_row);
    plan->table_bytes = plan->offsets_from + (size_t)p->offset_count * sizeof(int);
    plan->tables = calloc(1, plan->table_bytes);
    if (plan->tables == NULL)
        return false;
    for (int i = 0; i < cluster * count; i++)
        ((struct whole_step *)plan->tables)[i] = step_of(p, i % count, i / count);
    for (int i = 0; i < count; i++) {
        const struct whole_step *step = &plan->steps[i];
        if (step->kind != CONVOY_WHOLE_CONV)
            continue;
        make_rows(p, i, (struct whole_row *)(void *)((char *)plan->tables + plan->rows_from) + step->rows);
        make_offsets(p, i, (int *)(void *)((char *)plan->tables + plan->offsets_from) + step->offsets);
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

static size_t rounded(size_t words)
{
    return (words + 63) / 64 * 64;
}

static void pack_conv(enum tensor_math math, const struct convoy_conv_shape *s, int tiles,
                      const float *weights, uint32_t *packed)
{
    float *to = (float *)(void *)packed;
    if (math == TENSOR_FP32)
        tensor_layout<TENSOR_FP32, 1>::pack_tiles(s, weights, tiles, to);
    else if (math == TENSOR_TF32)
        tensor_layout<TENSOR_TF32, 1>::pack_tiles(s, weights, tiles, to);
    else
        tensor_layout<TENSOR_HALF, 1>::pack_tiles(s, weights, tiles, to);
}

/* places x outputs x words of a place, a multiple of 4. */
static void pack_dense(enum tensor_math math, const struct whole_step *step, const float *weights,
                       uint32_t *packed, int channels)
{
    int per_word = math == TENSOR_HALF ? 2 : 1, words = (int)convoy_div_up(step->in_words, 4) * 4;
    for (int place = 0; place < step->places; place++)
        for (int out = 0; out < step->maps; out++)
            for (int word = 0; word < words; word++, packed++) {
                *packed = 0;
                for (int half = 0; half < per_word; half++) {
                    int c = word * per_word + half;
                    if (c >= channels)
                        continue;
                    float value = weights[((size_t)out * channels + c) * step->places + place];
                    *packed |= math == TENSOR_HALF ? (uint32_t)convoy_half(value) << 16 * half
                                                   : convoy_float_bits(value);
                }
            }
}

void convoy_whole_pack_weights(const struct convoy_whole_plan *plan, const struct convoy_whole_shape *shape,
                               void *packed)
{
    uint32_t *to = (uint32_t *)packed;
    for (int i = 0; i < shape->count; i++) {
        const struct convoy_whole_layer *layer = &shape->layers[i];
        const struct whole_step *step = &plan->steps[i];
        struct convoy_conv_shape s = conv_of(layer);
        if (layer->kind == CONVOY_WHOLE_CONV)
            pack_conv(plan->math, &s, step->n_tiles, layer->weights, to + step->weights);
        else if (layer->kind == CONVOY_WHOLE_DENSE)
            pack_dense(plan->math, step, layer->weights, to + step->weights, s.c);
        if (step->bias != WHOLE_NO_BIAS)
            memcpy(to + step->bias, layer->bias, (size_t)s.k * sizeof(float));
    }
}

/* ---- All of it ---- */

/* What depends on a layer and the form of its tensors, not on who computes it. */
static void describe_step(struct planner *p, int index)
{
    const struct convoy_whole_layer *layer = &p->shape->layers[index];
    const struct convoy_conv_shape s = conv_of(layer);
    struct convoy_whole_plan *plan = p->plan;
    struct whole_step *step = &plan->steps[index];
    const struct tensor *x = &p->tensors[layer->input + 1], *y = &p->tensors[index + 1];
    step->kind = (uint8_t)layer->kind;
    step->result = !y->kept;
    step->act = s.act;
    step->pool = step->parts = step->map_parts = 1;
    step->maps = (uint16_t)y->c;
    step->bias = WHOLE_NO_BIAS;
    step->in_plane = (uint16_t)x->plane;
    step->in_words = (uint16_t)x->words;
    step->out_plane = (uint16_t)y->plane;
    step->out_words = (uint16_t)y->words;
    step->has_residual = layer->residual >= 0;
    step->weights = (uint32_t)plan->weight_words;
    if (layer->kind == CONVOY_WHOLE_CONV) {
        tensor_reduction(&s, plan->math, &p->reductions[index]);
        p->units[index] = y->h * y->w;
        step->pool = (uint8_t)s.pool;
        step->steps = (uint16_t)(p->reductions[index].chunks * p->reductions[index].steps);
        step->m_tiles = (uint16_t)convoy_div_up((int64_t)y->h * y->w * s.pool * s.pool, 16);
        step->n_tiles = (uint16_t)map_tiles(s.k);
        step->places = (uint16_t)p->units[index];
        step->rows = (uint32_t)p->row_count;
        step->offsets = (uint32_t)p->offset_count;
        p->row_count += step->m_tiles * 16;
        p->offset_count += step->steps * TENSOR_STEP;
        plan->weight_words +=
            rounded((size_t)step->n_tiles * step->steps * 32 * (size_t)lane_words(plan->math));
    } else {
        step->width = (uint16_t)x->width;
        step->first = (uint16_t)(x->top * x->width + x->left);
        step->real_w = (uint16_t)x->w;
        step->places = (uint16_t)(x->h * x->w);
        step->by_w = tensor_divider(x->w);
        step->by_groups = tensor_divider((int)convoy_div_up(x->words, 4));
        if (layer->kind == CONVOY_WHOLE_DENSE)
            plan->weight_words +=
                rounded((size_t)step->places * step->maps * (size_t)convoy_div_up(x->words, 4) * 4);
    }
    if (layer->bias != NULL && layer->kind != CONVOY_WHOLE_MEAN) {
        step->bias = (uint32_t)plan->weight_words;
        plan->weight_words += rounded((size_t)at_least(step->n_tiles * 8, step->maps));
    }
}

/* Sizes that the tables' 16 bits hold. */
static bool is_small(const struct planner *p, int index)
{
    const struct convoy_whole_layer *layer = &p->shape->layers[index];
    const struct tensor *x = &p->tensors[layer->input + 1], *y = &p->tensors[index + 1];
    struct tensor_plan reduction = {};
    struct convoy_conv_shape s = conv_of(layer);
    if ((int64_t)x->h * x->w > UINT16_MAX || (int64_t)y->h * y->w * s.pool * s.pool > UINT16_MAX * 8)
        return false;
    if (layer->kind != CONVOY_WHOLE_CONV)
        return true;
    tensor_reduction(&s, p->plan->math, &reduction);
    return (int64_t)reduction.chunks * reduction.steps <= UINT16_MAX && (int64_t)y->h * y->w < WHOLE_NOWHERE;
}

/* A dense layer's sums are worth sending when its weights are many. */
static void divide_dense(struct planner *p, int index)
{
    struct whole_step *step = &p->plan->steps[index];
    int input = p->shape->layers[index].input;
    step->parts = 1;
    const struct whole_step *before = &p->plan->steps[input < 0 ? 0 : input];
    if (before->kind != CONVOY_WHOLE_CONV || before->map_parts != 1 || before->parts == 1 ||
        !feeds_dense(p, input))
        return;
    step->parts = before->parts;
}

/* What of a layer comes to shared memory beforehand, in this order. */
static void stage(struct planner *p, int index)
{
    const struct whole_step *step = &p->plan->steps[index];
    int maps = (int)convoy_div_up(step->n_tiles, step->map_parts),
        rows = (int)convoy_div_up(step->m_tiles, step->parts) * 16;
    p->staged_weights[index] = maps * tile_words(p, index);
    p->staged_words[index] = p->staged_weights[index] + maps * 8 + rows * (int)(sizeof(struct whole_row) / 4);
}

/* Words of shared memory, or more than there are. */
static int place_all(struct planner *p)
{
    struct whole_job *job = &p->plan->job;
    int end = place_tensors(p), partial = 0, steps = 0, cluster = p->plan->kernel->cluster;
    if (end > SHARED_WORDS)
        return end;
    find_clears(p);
    job->words = end;
    for (int i = 0; i < p->shape->count; i++) {
        struct whole_step *step = &p->plan->steps[i];
        const struct convoy_whole_layer *layer = &p->shape->layers[i];
        step->in = (uint16_t)p->tensors[layer->input + 1].offset;
        step->out = (uint16_t)p->tensors[i + 1].offset;
        step->residual = (uint16_t)(layer->residual >= 0 ? p->tensors[layer->residual + 1].offset : 0);
        steps = at_least(steps, step->kind == CONVOY_WHOLE_CONV ? step->steps : 0);
        if (step->kind == CONVOY_WHOLE_DENSE && step->parts > 1)
            partial = at_least(partial, step->parts * step->maps);
        if (step->kind == CONVOY_WHOLE_CONV && cluster > 1)
            stage(p, i);
    }
    job->partial = end;
    job->offsets_at = end + (int)convoy_div_up(partial, 32) * 32;
    job->offset_words = steps * TENSOR_STEP;
    job->shares = job->offsets_at + 2 * job->offset_words;
    job->steps_at = job->shares + (cluster > 1 ? p->plan->kernel->threads * 4 : 0);
    return place_staged(p, job->steps_at + p->shape->count * (int)(sizeof(struct whole_step) / 4));
}

/* After a layer that is the first block's alone, for one that is too, nobody else has to be waited for. */
static void find_alone(struct planner *p)
{
    for (int i = 0; i + 1 < p->shape->count; i++) {
        struct whole_step *step = &p->plan->steps[i], *next = &p->plan->steps[i + 1];
        step->block_alone = p->plan->kernel->cluster > 1 && step->kind != CONVOY_WHOLE_CONV &&
                            next->kind != CONVOY_WHOLE_CONV && next->parts == 1 && !next->clear;
    }
}

static void describe_images(struct planner *p)
{
    struct whole_job *job = &p->plan->job;
    struct tensor *x = &p->tensors[0];
    job->first = p->shape->layers[0].shape;
    job->tap_pairs = p->reductions[0].tap_pairs;
    job->in = x->offset;
    job->in_plane = x->plane;
    job->in_words = x->words;
    job->in_width = x->width;
    job->in_top = x->top;
    job->in_left = x->left;
    job->by_in_width = tensor_divider(x->width);
    for (int rank = 0; rank < p->plan->kernel->cluster; rank++) {
        bool none = x->need_from[rank] >= x->need_to[rank];
        /* With the padding above and below. */
        job->first_row[rank] = (uint16_t)(none || x->need_from[rank] == 0 ? 0 : x->need_from[rank] + x->top);
        job->end_row[rank] = (uint16_t)(none                       ? 0
                                        : x->need_to[rank] == x->h ? x->rows
                                                                   : x->need_to[rank] + x->top);
    }
}

/* Waves of images over the chip, each as long as a block takes by itself or as its share of a multiprocessor
 * lets it, whichever is longer. */
static void guess(struct planner *p)
{
    struct convoy_whole_plan *plan = p->plan;
    int cluster = plan->kernel->cluster, threads = plan->kernel->threads;
    double alone = 1500, together = 500;
    for (int i = 0; i < p->shape->count; i++) {
        const struct whole_step *step = &plan->steps[i];
        alone += cluster > 1 ? 900 : 300;
        if (step->kind == CONVOY_WHOLE_CONV) {
            alone += conv_cycles(p, i, step->parts, step->map_parts, step->mt, step->nt);
            double products = (double)step->m_tiles * step->n_tiles * step->steps;
            together += products / (step->mt * step->nt) * (4 * step->mt + 2 * step->nt) / cluster;
        } else {
            double bytes = 4.0 * step->places * step->maps * step->in_words / step->parts;
            alone += bytes / 40 + 600;
            together += bytes / 40;
        }
    }
    int per_sm =
        at_most((int)(227 * 1024 / (plan->shared_bytes + 1024)), 65536 / (GUESS_REGISTERS * threads));
    per_sm = at_least(per_sm, 1);
    double at_once = at_least(CONVOY_GUESS_SMS * per_sm / cluster, 1);
    double waves = (double)convoy_div_up(p->shape->n, (int64_t)at_once);
    double wave = alone > together * per_sm ? alone : together * per_sm;
    plan->guess_us = (float)(waves * wave / GUESS_CYCLES + CONVOY_GUESS_LAUNCH_US);
    double blocks = at_once < p->shape->n ? at_once : p->shape->n;
    plan->blocks = (int)blocks * cluster;
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
static bool divide(struct planner *p, int most, int *words)
{
    for (int i = 0; i <= p->shape->count; i++) {
        memset(p->tensors[i].need_from, 0, sizeof p->tensors[i].need_from);
        memset(p->tensors[i].need_to, 0, sizeof p->tensors[i].need_to);
    }
    for (int i = 0; i < p->shape->count; i++) {
        p->plan->steps[i].clear = false;
        if (p->shape->layers[i].kind == CONVOY_WHOLE_CONV)
            divide_conv(p, i, most);
        else if (p->shape->layers[i].kind == CONVOY_WHOLE_DENSE)
            divide_dense(p, i);
        if (p->shape->layers[i].kind == CONVOY_WHOLE_CONV && p->plan->steps[i].mt == 0)
            return false;
    }
    find_needs(p);
    *words = place_all(p);
    return true;
}

static bool make(struct planner *p)
{
    const struct convoy_whole_shape *shape = p->shape;
    struct convoy_whole_plan *plan = p->plan;
    int cluster = plan->kernel->cluster;
    if (shape->count < 1 || shape->count > CONVOY_WHOLE_LAYERS ||
        shape->layers[0].kind != CONVOY_WHOLE_CONV || !tensor_allows(plan->math, shape->products) ||
        !convoy_has_mma() || (cluster > 1 && !convoy_has_clusters()))
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
    /* Weights in smaller shares until they find room beside the tensors. */
    int words = SHARED_WORDS + 1;
    for (int most = 16384; words > SHARED_WORDS && most >= 2048; most /= 2)
        if (!divide(p, most, &words))
            return false;
    if (words > SHARED_WORDS)
        return false;
    plan->shared_bytes = (size_t)words * sizeof(float);
    if (!device_has(plan->shared_bytes))
        return false;
    find_alone(p);
    describe_images(p);
    guess(p);
    return true;
}

int convoy_whole_plan_make(const struct convoy_whole_kernel *kernel, const struct convoy_whole_shape *shape,
                           bool with_tables, struct convoy_whole_plan **result)
{
    struct planner *p = (struct planner *)calloc(1, sizeof *p);
    struct convoy_whole_plan *plan = (struct convoy_whole_plan *)calloc(1, sizeof *plan);
    *result = NULL;
    int failed = p == NULL || plan == NULL ? -ENOMEM : 0;
    if (!failed) {
        p->shape = shape;
        p->plan = plan;
        plan->kernel = kernel;
        plan->math = kernel->products == CONVOY_PRODUCTS_FP32   ? TENSOR_FP32
                     : kernel->products == CONVOY_PRODUCTS_TF32 ? TENSOR_TF32
                                                                : TENSOR_HALF;
        plan->job.n = shape->n;
        plan->job.count = shape->count;
        plan->job.cluster = kernel->cluster;
        plan->job.y_stride = shape->y_stride;
        bool fits = make(p);
        if (fits && with_tables && !make_tables(p))
            failed = -ENOMEM;
        if (fits && !failed) {
            *result = plan;
            plan = NULL;
        }
    }
    convoy_whole_plan_free(plan);
    free(p);
    return failed;
}

void convoy_whole_plan_free(struct convoy_whole_plan *plan)
{
    if (plan == NULL)
        return;
    free(plan->tables);
    free(plan);
}

float convoy_whole_guess_us(const struct convoy_whole_plan *plan)
{
    return plan->guess_us;
}

size_t convoy_whole_weight_bytes(const struct convoy_whole_plan *plan)
{
    return plan->weight_words * sizeof(uint32_t);
}

size_t convoy_whole_table_bytes(const struct convoy_whole_plan *plan)
{
    return plan->table_bytes;
}

const void *convoy_whole_tables(const struct convoy_whole_plan *plan)
{
    return plan->tables;
}

cudaError_t convoy_launch_whole(const struct convoy_whole_plan *plan,
                                const struct convoy_whole_operands *operands, cudaStream_t stream)
{
    struct whole_job job = plan->job;
    job.x = operands->x;
    job.weights = (const uint32_t *)operands->weights;
    job.steps = (const struct whole_step *)operands->tables;
    job.rows = (const struct whole_row *)(const void *)((const char *)operands->tables + plan->rows_from);
    job.offsets = (const int *)(const void *)((const char *)operands->tables + plan->offsets_from);
    job.y = operands->y;
    return plan->math == TENSOR_FP32   ? whole_launch_fp32(plan, &job, stream)
           : plan->math == TENSOR_TF32 ? whole_launch_tf32(plan, &job, stream)
                                       : whole_launch_fp16(plan, &job, stream);
}

/* ---- The kernels ---- */

#define CONVOY_WHOLE(name, products, cluster, threads, front)                                                \
    static const struct convoy_whole_kernel name##_##cluster##_##threads = {                                 \
        #name ":" #cluster "x" #threads, products, cluster, threads, front};
#define CONVOY_WHOLE_SIZES(X, name, products, front)                                                         \
    X(name, products, 1, 128, front)                                                                         \
    X(name, products, 1, 256, front)                                                                         \
    X(name, products, 1, 512, front)                                                                         \
    X(name, products, 4, 512, front)                                                                         \
    X(name, products, 8, 512, front)                                                                         \
    X(name, products, 16, 512, front)
#define CONVOY_WHOLE_ALL(X)                                                                                  \
    CONVOY_WHOLE_SIZES(X, whole_net, CONVOY_PRODUCTS_FP32, false)                                            \
    CONVOY_WHOLE_SIZES(X, whole_net_tf32, CONVOY_PRODUCTS_TF32, false)                                       \
    CONVOY_WHOLE_SIZES(X, whole_net_fp16, CONVOY_PRODUCTS_FP16, false)                                       \
    CONVOY_WHOLE_SIZES(X, front_net, CONVOY_PRODUCTS_FP32, true)                                             \
    CONVOY_WHOLE_SIZES(X, front_net_tf32, CONVOY_PRODUCTS_TF32, true)                                        \
    CONVOY_WHOLE_SIZES(X, front_net_fp16, CONVOY_PRODUCTS_FP16, true)

CONVOY_WHOLE_ALL(CONVOY_WHOLE)

const struct convoy_whole_kernel *const *convoy_whole_kernels(int *count)
{
#define CONVOY_WHOLE_ENTRY(name, products, cluster, threads, front) &name##_##cluster##_##threads,
    static const struct convoy_whole_kernel *const all[] = {CONVOY_WHOLE_ALL(CONVOY_WHOLE_ENTRY)};
    *count = (int)(sizeof all / sizeof all[0]);
    return all;
}
