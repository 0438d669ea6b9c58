/* The tables of addresses that whole_net walks through on the device. */
#include "kernels/device/launch.cuh"
#include "kernels/whole_net/whole_planner.h"
#include "kernels/whole_net/whole_steps.cuh"

#include <stdlib.h>

static void make_rows(const struct whole_planner *p, int index, struct whole_row *rows)
{
    const struct convoy_whole_layer *layer = &p->shape->layers[index];
    const struct convoy_conv_shape *s = &layer->shape;
    const struct whole_step *step = &p->plan->steps[index];
    const struct whole_tensor *x = &p->tensors[layer->input + 1], *y = &p->tensors[index + 1];
    const struct whole_reduction *reduction = &p->plan->reductions[index];
    int line = p->line_units[index], unit_rows = p->unit_rows[index];
    bool phases = reduction->phases > 1;
    for (int i = 0; i < whole_table_rows(step); i++) {
        /* Rows that are pooled lie 8 apart, and two of a line beside each other. */
        int in_tile = unit_rows == 4 ? i % 8 / 2 : unit_rows == 2 ? i % 8 : i % 16;
        int unit = i / 16 * (16 / unit_rows) + in_tile;
        int safe = whole_at_most(unit, p->units[index] - 1), unit_y = safe / line, unit_x = safe % line;
        int oy = unit_y * s->pool + (unit_rows > 1 ? i % 16 / 8 : 0),
            ox = unit_x * s->pool + (unit_rows == 4 ? i % 2 : 0);
        int in_x = phases ? unit_x : ox * s->stride[1] - s->pad[1] + x->left;
        rows[i].in = (uint16_t)(((oy * s->stride[0] - s->pad[0] + x->top) * x->width + in_x) * WHOLE_CELL);
        /* Beside the result may lie what is added to it, which has its form. */
        int out_x = unit_x * (phases ? reduction->phases / s->pool : 1);
        int place = (unit_y + y->top) * y->width + out_x + y->left;
        struct whole_target *target = &rows[i].target;
        target->out =
            (uint16_t)(y->kept || layer->residual >= 0 ? place * WHOLE_CELL : unit_y * y->w + out_x);
        rows[i].places = (uint16_t)(unit != safe ? 0 : y->w - out_x);
        if (unit != safe)
            target->out = WHOLE_NOWHERE;
        whole_readers(p, y, unit_y, &target->first, &target->last);
    }
}

struct whole_reduction whole_reduction_of(const struct whole_planner *p, int index)
{
    const struct convoy_whole_layer *layer = &p->shape->layers[index];
    const struct convoy_conv_shape *s = &layer->shape;
    const struct whole_tensor *x = &p->tensors[layer->input + 1];
    int per_word = whole_word_channels(p->plan->math);
    struct whole_reduction r = {};
    bool phases = layer->input < 0 && p->phases;
    int cell = WHOLE_CELL * per_word;
    r.phases = phases ? cell : 1;
    r.pixel = layer->input >= 0 ? cell : s->c <= 2 ? s->c : 4;
    r.columns = cell / r.pixel;
    r.apart = phases ? 1 : r.columns * s->dilation[1];
    r.groups = (int)convoy_div_up(s->s + r.phases - 1, r.columns);
    r.planes = layer->input < 0 ? 1 : x->planes;
    r.cells = s->r * r.groups * r.planes;
    r.steps = (int)convoy_div_up(r.cells, WHOLE_STEP_CELLS);
    r.offsets = (int)convoy_div_up((r.steps + WHOLE_STEPS_TOLD) * WHOLE_STEP_CELLS, 4) * 4;
    return r;
}

bool whole_tap_of(const struct whole_reduction *r, enum tensor_math math, int number, struct whole_tap *tap)
{
    int per_word = whole_word_channels(math), in_cell = number % (WHOLE_CELL * per_word);
    int cell = number / (WHOLE_CELL * per_word);
    int group = cell / r->planes % r->groups;
    tap->r = cell / r->planes / r->groups;
    tap->column = group * r->columns + in_cell / r->pixel;
    tap->channel = cell % r->planes * WHOLE_CELL * per_word + in_cell % r->pixel;
    return cell < r->cells;
}

/* Past the end are places that are read too, and multiplied by zero: of the last step. */
static void make_offsets(const struct whole_planner *p, int index, int *offsets)
{
    const struct convoy_whole_layer *layer = &p->shape->layers[index];
    const struct whole_tensor *x = &p->tensors[layer->input + 1];
    const struct whole_reduction *r = &p->plan->reductions[index];
    for (int i = 0; i < r->offsets; i++) {
        int last = whole_at_least(r->cells - WHOLE_STEP_CELLS, 0) + i % WHOLE_STEP_CELLS;
        int cell = i < r->cells ? i : whole_at_most(last, r->cells - 1), tap = cell / r->planes;
        int place = tap / r->groups * layer->shape.dilation[0] * x->width + tap % r->groups * r->apart;
        int cells = cell % r->planes * x->plane / WHOLE_CELL + place;
        offsets[i] = cells * (p->plan->steps[index].wgmma ? 1 : WHOLE_CELL * (int)sizeof(uint32_t));
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
        int down = (step.tile_end - step.tile_begin) / (step.wgmma ? 4 : 1);
        step.tasks = (uint16_t)(convoy_div_up(down, step.mt) * across);
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
        whole_places_of(p, p->shape->layers[index].input, rank, &from, &to);
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
    plan->chunks_from = plan->offsets_from + (size_t)p->offset_count * sizeof(int);
    plan->table_bytes = plan->chunks_from + (size_t)plan->job.ring_chunks * sizeof(struct whole_chunk);
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
    whole_make_chunks(plan, p->shape->count,
                      (struct whole_chunk *)(void *)((char *)plan->tables + plan->chunks_from));
    return true;
}
