/* The tables of addresses that whole_net walks through on the device. */
#include "kernels/launch.cuh"
#include "kernels/whole_planner.h"

#include <stdlib.h>

static void make_rows(const struct whole_planner *p, int index, struct whole_row *rows)
{
    const struct convoy_whole_layer *layer = &p->shape->layers[index];
    const struct convoy_conv_shape *s = &layer->shape;
    const struct whole_step *step = &p->plan->steps[index];
    const struct whole_tensor *x = &p->tensors[layer->input + 1], *y = &p->tensors[index + 1];
    for (int i = 0; i < whole_table_rows(step); i++) {
        int tile = i / 16, row = i % 16;
        int unit = s->pool == 2 ? tile * 4 + row % 8 / 2 : i;
        int safe = whole_at_most(unit, p->units[index] - 1), unit_y = safe / y->w, unit_x = safe % y->w;
        int oy = unit_y * s->pool + (s->pool == 2 ? row / 8 : 0),
            ox = unit_x * s->pool + (s->pool == 2 ? row % 2 : 0);
        rows[i].in = (uint16_t)(((oy * s->stride[0] - s->pad[0] + x->top) * x->width + ox * s->stride[1] -
                                 s->pad[1] + x->left) *
                                x->place_words);
        struct whole_target *target = &rows[i].target;
        bool unused = !y->kept && layer->residual < 0; /* beside the result may lie what is added to it */
        target->out = (uint16_t)(unused ? 0 : ((unit_y + y->top) * y->width + unit_x + y->left) * WHOLE_CELL);
        if (unit != safe)
            target->out = WHOLE_NOWHERE;
        whole_readers(p, y, unit_y, &target->first, &target->last);
    }
}

struct whole_reduction whole_reduction_of(const struct whole_planner *p, int index)
{
    const struct convoy_whole_layer *layer = &p->shape->layers[index];
    const struct whole_tensor *x = &p->tensors[layer->input + 1];
    int per_word = whole_word_channels(p->plan->math);
    struct whole_reduction r = {};
    r.narrow = x->place_words == 1;
    r.place_words = x->place_words;
    r.planes = x->planes;
    r.pixel_words = WHOLE_CELL;
    if (layer->input < 0) /* 1, 2 or 4, so that a pixel lies on a multiple of its size */
        r.pixel_words = r.narrow ? 1 : x->c <= per_word ? 1 : x->c <= 2 * per_word ? 2 : 4;
    r.columns = r.narrow ? per_word : WHOLE_CELL / r.pixel_words;
    r.groups = (int)convoy_div_up(layer->shape.s, r.columns);
    r.units = layer->shape.r * r.groups * x->planes;
    r.step_units = TENSOR_STEP / x->place_words;
    r.steps = (int)convoy_div_up(r.units, r.step_units);
    r.offsets = (int)convoy_div_up((r.steps + WHOLE_STEPS_PAST + 1) * r.step_units, 4) * 4;
    return r;
}

bool whole_tap_of(const struct whole_reduction *r, enum tensor_math math, int word, struct whole_tap *tap)
{
    int unit = word / r->place_words, in_unit = word % r->place_words;
    int plane = unit % r->planes, group = unit / r->planes % r->groups;
    tap->r = unit / r->planes / r->groups;
    tap->column = group * r->columns + in_unit / r->pixel_words;
    tap->channel = (plane * WHOLE_CELL + in_unit % r->pixel_words) * whole_word_channels(math);
    return unit < r->units;
}

/* Those past the end repeat the last. */
static void make_offsets(const struct whole_planner *p, int index, int *offsets)
{
    const struct convoy_whole_layer *layer = &p->shape->layers[index];
    const struct convoy_conv_shape *s = &layer->shape;
    const struct whole_tensor *x = &p->tensors[layer->input + 1];
    const struct whole_reduction *r = &p->plan->reductions[index];
    for (int i = 0; i < r->offsets; i++) {
        int unit = whole_at_most(i, r->units - 1), tap = unit / x->planes;
        int place =
            tap / r->groups * s->dilation[0] * x->width + tap % r->groups * r->columns * s->dilation[1];
        offsets[i] = (unit % x->planes * x->plane + place * x->place_words) * (int)sizeof(uint32_t);
    }
}

/* A step as block rank sees it. */
static struct whole_step step_of(const struct whole_planner *p, int index, int rank)
{
    struct whole_step step = p->plan->steps[index];
    int from = 0, to = step.places;
    if (step.kind == CONVOY_WHOLE_CONV) {
        int rows = rank / step.map_parts, maps = rank % step.map_parts;
        step.tile_begin = (uint16_t)whole_part(step.m_tiles, rows, step.parts);
        step.tile_end = (uint16_t)whole_part(step.m_tiles, rows + 1, step.parts);
        step.map_begin = (uint16_t)whole_part(step.n_tiles, maps, step.map_parts);
        step.map_end = (uint16_t)whole_part(step.n_tiles, maps + 1, step.map_parts);
        int across = (step.map_end - step.map_begin) / step.nt, warps = p->plan->kernel->threads / 32;
        step.tasks = (uint16_t)(convoy_div_up(step.tile_end - step.tile_begin, step.mt) * across);
        step.by_across = tensor_divider(whole_at_least(across, 1));
        int shares = whole_at_most(warps / whole_at_least(step.tasks, 1),
                                   (int)convoy_div_up(step.steps, WHOLE_LEAST_STEPS));
        step.share_steps = (uint16_t)convoy_div_up(step.steps, whole_at_least(shares, 1));
        step.shares = (uint16_t)convoy_div_up(step.steps, step.share_steps);
        if (p->plan->kernel->cluster == 1 || step.tasks == 0)
            step.shares = 1;
        return step;
    }
    if (step.parts > 1)
        whole_units_of(p, p->shape->layers[index].input, rank, &from, &to);
    step.tile_begin = (uint16_t)from;
    step.tile_end = (uint16_t)to;
    return step;
}

bool whole_make_tables(struct whole_planner *p)
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
