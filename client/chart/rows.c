#include "client/chart/rows.h"

#include <math.h>

#include "client/chart/markup.h"

#define ROW        22
#define NAMES_ROOM 168
#define NAME_CHARS 22

static double row_middle(const struct client_frame *frame, size_t row)
{
    return frame->top + ((double)row + 0.5) * ROW;
}

/* The name, cut to the room that there is; whole in its tip. */
static void draw_name(FILE *out, const struct client_frame *frame, size_t row, const char *name)
{
    fprintf(out, "<text class=\"row\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">", frame->left - 7,
            row_middle(frame, row) + 4);
    client_frame_tip(out, name);
    client_markup_cut(out, name, NAME_CHARS);
    fputs("</text>", out);
}

static void open_rows(FILE *out, struct client_frame *frame, size_t rows)
{
    frame->rows = true;
    frame->left_room = NAMES_ROOM;
    frame->height = client_frame_border(frame) + ROW * (double)(rows ? rows : 1);
    client_frame_open(out, frame);
    if (rows == 0)
        fprintf(
            out,
            "<text class=\"none\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">nothing was measured</text>",
            (frame->left + frame->right) / 2, row_middle(frame, 0) + 4);
}

static double value_of(const struct client_stack *stack, size_t row, size_t part)
{
    double value = stack->values[row * stack->part_count + part];
    return isfinite(value) && value > 0 ? value : 0;
}

static void draw_stacked_row(FILE *out, const struct client_stack *stack, size_t row)
{
    const struct client_frame *frame = &stack->frame;
    double sum = 0;
    char tip[256];
    for (size_t part = 0; part < stack->part_count; part++) {
        double value = value_of(stack, row, part), left = client_scale_place(&frame->x, sum);
        sum += value;
        double width = client_scale_place(&frame->x, sum) - left;
        if (width <= 0)
            continue;
        fprintf(out,
                "<g class=\"c%d\"><rect class=\"block part%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
                "height=\"%d\">",
                stack->colours[part] % CLIENT_FRAME_COLOURS, stack->pale && stack->pale[row] ? " pale" : "",
                left, row_middle(frame, row) - 7.5, width, 15);
        snprintf(tip, sizeof tip, "%s: %.4g %s", stack->parts[part], value, stack->unit ? stack->unit : "");
        client_frame_tip(out, tip);
        fputs("</rect></g>", out);
    }
}

void client_stack_draw(FILE *out, struct client_stack *stack)
{
    struct client_legend legend[CLIENT_FRAME_COLOURS];
    double longest = 0;
    for (size_t row = 0; row < stack->rows; row++) {
        double sum = 0;
        for (size_t part = 0; part < stack->part_count; part++)
            sum += value_of(stack, row, part);
        longest = fmax(longest, sum);
    }
    for (size_t part = 0; part < stack->part_count; part++)
        legend[part] =
            (struct client_legend){stack->parts[part], stack->colours[part], CLIENT_MARK_BLOCK, false};
    client_scale_linear(&stack->frame.x, 0, longest, 8);
    stack->frame.legend = legend;
    stack->frame.legend_count = stack->part_count;
    open_rows(out, &stack->frame, stack->rows);
    stack->frame.legend = NULL;
    stack->frame.legend_count = 0;
    for (size_t row = 0; row < stack->rows; row++) {
        draw_name(out, &stack->frame, row, stack->names[row]);
        draw_stacked_row(out, stack, row);
    }
    client_frame_close(out);
}

void client_ranges_draw(FILE *out, struct client_ranges *ranges)
{
    struct client_frame *frame = &ranges->frame;
    client_scale_linear(&frame->x, 0, 100, 10);
    open_rows(out, frame, ranges->rows);
    if (isfinite(ranges->all)) {
        double x = client_scale_place(&frame->x, ranges->all);
        fprintf(out, "<path class=\"diagonal\" d=\"M%.1f %.1fV%.1f\"><title>all: %.2f %%</title></path>", x,
                frame->top, frame->bottom, ranges->all);
    }
    fputs("<g class=\"c0\">", out);
    for (size_t row = 0; row < ranges->rows; row++) {
        double y = row_middle(frame, row);
        double low = client_scale_place(&frame->x, ranges->low[row]);
        double high = client_scale_place(&frame->x, ranges->high[row]);
        if (isfinite(low) && isfinite(high))
            fprintf(out, "<path class=\"whisker\" d=\"M%.1f %.1fv8m0 -4H%.1fm0 -4v8\"></path>", low, y - 4,
                    high);
        client_frame_mark(out, CLIENT_MARK_CIRCLE, false, client_scale_place(&frame->x, ranges->values[row]),
                          y, ranges->about ? ranges->about[row] : NULL);
    }
    fputs("</g>", out);
    for (size_t row = 0; row < ranges->rows; row++)
        draw_name(out, frame, row, ranges->names[row]);
    client_frame_close(out);
}
