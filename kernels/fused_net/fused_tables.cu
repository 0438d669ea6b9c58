/* The tables of addresses that whole_net reads on the device. */
#include "kernels/device/launch.cuh"
#include "kernels/fused_net/fused_planner.h"
#include "kernels/fused_net/fused_steps.cuh"

#include <stdlib.h>

static void make_rows(const struct fused_planner *p, int index, struct fused_row *rows)
{
    const struct convoy_fused_layer *layer = &p->shape->layers[index];
    const struct convoy_conv_shape *s = &layer->shape;
    const struct fused_step *step = &p->plan->steps[index];
    const struct fused_tensor *x = &p->tensors[layer->input + 1], *y = &p->tensors[index + 1];
    const struct fused_reduction *reduction = &p->plan->reductions[index];
    int line = p->line_units[index], unit_rows = p->unit_rows[index];
    bool phases = reduction->phases > 1;
    for (int i = 0; i < fused_table_rows(step); i++) {
        /* Rows that are pooled lie 8 apart, and two of a line are adjacent. */
        int in_tile = unit_rows == 4 ? i % 8 / 2 : unit_rows == 2 ? i % 8 : i % 16;
        int unit = i / 16 * (16 / unit_rows) + in_tile;
        int safe = fused_at_most(unit, p->units[index] - 1), unit_y = safe / line, unit_x = safe % line;
        int oy = unit_y * s->pool + (unit_rows > 1 ? i % 16 / 8 : 0),
            ox = unit_x * s->pool + (unit_rows == 4 ? i % 2 : 0);
        int in_x = phases ? unit_x : ox * s->stride[1] - s->pad[1] + x->left;
        rows[i].in = (uint16_t)(((oy * s->stride[0] - s->pad[0] + x->top) * x->width + in_x) * FUSED_CELL);
        /* Beside the result may lie what is added to it, which has its form. */
        int out_x = unit_x * (phases ? reduction->phases / s->pool : 1);
        int place = (unit_y + y->top) * y->width + out_x + y->left;
        struct fused_target *target = &rows[i].target;
        target->out =
            (uint16_t)(y->kept || layer->residual >= 0 ? place * FUSED_CELL : unit_y * y->w + out_x);
        rows[i].places = (uint16_t)(unit != safe ? 0 : y->w - out_x);
        if (unit != safe)
            target->out = FUSED_NOWHERE;
        fused_readers(p, y, unit_y, &target->first, &target->last);
    }
}

struct fused_reduction fused_reduction_of(const struct fused_planner *p, int index)
{
    const struct convoy_fused_layer *layer = &p->shape->layers[index];
    const struct convoy_conv_shape *s = &layer->shape;
    const struct fused_tensor *x = &p->tensors[layer->input + 1];
    int per_word = fused_word_channels(p->plan->math);
    struct fused_reduction r = {};
    bool phases = layer->input < 0 && p->phases;
    int cell = FUSED_CELL * per_word;
    r.phases = phases ? cell : 1;
    r.pixel = layer->input >= 0 ? cell : s->c <= 2 ? s->c : 4;
    r.columns = cell / r.pixel;
    r.apart = phases ? 1 : r.columns * s->dilation[1];
    r.groups = (int)convoy_div_up(s->s + r.phases - 1, r.columns);
    r.planes = layer->input < 0 ? 1 : x->planes;
    r.cells = s->r * r.groups * r.planes;
    r.steps = (int)convoy_div_up(r.cells, FUSED_STEP_CELLS);
    r.offsets = (int)convoy_div_up((r.steps + FUSED_STEPS_TOLD) * FUSED_STEP_CELLS, 4) * 4;
    return r;
}

bool fused_tap_of(const struct fused_reduction *r, enum tensor_math math, int number, struct fused_tap *tap)
{
    int per_word = fused_word_channels(math), in_cell = number % (FUSED_CELL * per_word);
    int cell = number / (FUSED_CELL * per_word);
    int group = cell / r->planes % r->groups;
    tap->r = cell / r->planes / r->groups;
    tap->column = group * r->columns + in_cell / r->pixel;
    tap->channel = cell % r->planes * FUSED_CELL * per_word + in_cell % r->pixel;
    return cell < r->cells;
}

/* Past the end are places that are read too, and multiplied by zero: of the last step. */
static void make_offsets(const struct fused_planner *p, int index, int *offsets)
{
    const struct convoy_fused_layer *layer = &p->shape->layers[index];
    const struct fused_tensor *x = &p->tensors[layer->input + 1];
    const struct fused_reduction *r = &p->plan->reductions[index];
    for (int i = 0; i < r->offsets; i++) {
        int last = fused_at_least(r->cells - FUSED_STEP_CELLS, 0) + i % FUSED_STEP_CELLS;
        int cell = i < r->cells ? i : fused_at_most(last, r->cells - 1), tap = cell / r->planes;
        int place = tap / r->groups * layer->shape.dilation[0] * x->width + tap % r->groups * r->apart;
        int cells = cell % r->planes * x->plane / FUSED_CELL + place;
        offsets[i] = cells * (p->plan->steps[index].wgmma ? 1 : FUSED_CELL * (int)sizeof(uint32_t));
    }
}

/* A step as block rank sees it. */
static struct fused_step step_of(const struct fused_planner *p, int index, int rank)
{
    struct fused_step step = p->plan->steps[index];
    int from = 0, to = step.places;
    if (step.kind == CONVOY_FUSED_CONV) {
        int rows = rank / step.map_parts, maps = rank % step.map_parts;
        step.tile_begin = (uint16_t)fused_part(step.m_tiles, rows, step.parts);
        step.tile_end = (uint16_t)fused_part(step.m_tiles, rows + 1, step.parts);
        step.map_begin = (uint16_t)fused_part(step.n_tiles, maps, step.map_parts);
        step.map_end = (uint16_t)fused_part(step.n_tiles, maps + 1, step.map_parts);
        int across = (step.map_end - step.map_begin) / step.nt, warps = p->plan->kernel->threads / 32;
        int down = (step.tile_end - step.tile_begin) / (step.wgmma ? 4 : 1);
        step.tasks = (uint16_t)(convoy_div_up(down, step.mt) * across);
        step.by_across = tensor_divider(fused_at_least(across, 1));
        int shares = fused_at_most(warps / fused_at_least(step.tasks, 1),
                                   (int)convoy_div_up(step.steps, FUSED_LEAST_STEPS));
        step.share_steps = (uint16_t)convoy_div_up(step.steps, fused_at_least(shares, 1));
        step.shares = (uint16_t)convoy_div_up(step.steps, step.share_steps);
        if (p->plan->kernel->cluster == 1 || step.tasks == 0)
            step.shares = 1;
        return step;
    }
    if (step.parts > 1)
        fused_places_of(p, p->shape->layers[index].input, rank, &from, &to);
    step.tile_begin = (uint16_t)from;
    step.tile_end = (uint16_t)to;
    return step;
}

bool fused_make_tables(struct fused_planner *p)
{
    struct convoy_fused_plan *plan = p->plan;
    int cluster = plan->kernel->cluster, count = p->shape->count;
    plan->rows_from = (size_t)(cluster * count) * sizeof(struct fused_step);
    plan->offsets_from = plan->rows_from + (size_t)p->row_count * sizeof(struct fused_row);
    plan->chunks_from = plan->offsets_from + (size_t)p->offset_count * sizeof(int);
    plan->table_bytes = plan->chunks_from + (size_t)plan->job.ring_chunks * sizeof(struct fused_chunk);
    plan->tables = calloc(1, plan->table_bytes);
    if (plan->tables == NULL)
        return false;
    for (int i = 0; i < cluster * count; i++)
        ((struct fused_step *)plan->tables)[i] = step_of(p, i % count, i / count);
    for (int i = 0; i < count; i++) {
        const struct fused_step *step = &plan->steps[i];
        if (step->kind != CONVOY_FUSED_CONV)
            continue;
        make_rows(p, i, (struct fused_row *)(void *)((char *)plan->tables + plan->rows_from) + step->rows);
        make_offsets(p, i, (int *)(void *)((char *)plan->tables + plan->offsets_from) + step->offsets);
    }
    fused_make_chunks(plan, p->shape->count,
                      (struct fused_chunk *)(void *)((char *)plan->tables + plan->chunks_from));
    return true;
}
