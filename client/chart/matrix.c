#include "client/chart/matrix.h"

#include "client/chart/markup.h"

#define NAMES_ROOM  168
#define NAMES_ABOVE 124
#define NAME_CHARS  22

static double cell_size(size_t classes)
{
    return classes <= 12 ? 46 : classes <= 25 ? 30 : 20;
}

static void draw_names(FILE *out, const struct client_matrix *matrix, double cell)
{
    for (size_t i = 0; i < matrix->classes; i++) {
        double middle = ((double)i + 0.5) * cell;
        fprintf(out, "<text class=\"row\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">", matrix->frame.left - 7,
                matrix->frame.top + middle + 4);
        client_frame_tip(out, matrix->labels[i]);
        client_markup_cut(out, matrix->labels[i], NAME_CHARS);
        fprintf(out, "</text><text class=\"row\" transform=\"translate(%.1f %.1f) rotate(-50)\">",
                matrix->frame.left + middle + 4, matrix->frame.top - 8);
        client_frame_tip(out, matrix->labels[i]);
        client_markup_cut(out, matrix->labels[i], NAME_CHARS);
        fputs("</text>", out);
    }
}

static void draw_cell(FILE *out, const struct client_matrix *matrix, double cell, size_t row, size_t column,
                      double total)
{
    size_t count = matrix->counts[row * matrix->classes + column];
    double share = total > 0 ? (double)count / total : 0;
    double x = matrix->frame.left + (double)column * cell, y = matrix->frame.top + (double)row * cell;
    if (count == 0)
        return;
    /* Even one mistake in thousands is seen. */
    fprintf(out,
            "<g class=\"c%d\"><rect class=\"cell\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
            "fill-opacity=\"%.3f\"><title>",
            row == column ? 0 : 1, x, y, cell - 1, cell - 1, 0.12 + 0.88 * share);
    client_markup_text(out, matrix->labels[row]);
    fprintf(out, "%s", row == column ? " recognised: " : " taken for ");
    if (row != column) {
        client_markup_text(out, matrix->labels[column]);
        fputs(": ", out);
    }
    fprintf(out, "%zu of %.0f (%.1f %%)</title></rect></g>", count, total, share * 100);
    if (cell >= 30)
        fprintf(out, "<text class=\"count%s\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%zu</text>",
                share > 0.5 ? " over" : "", x + cell / 2 - 0.5, y + cell / 2 + 4, count);
}

void client_matrix_draw(FILE *out, struct client_matrix *matrix)
{
    struct client_frame *frame = &matrix->frame;
    if (matrix->classes > CLIENT_MATRIX_CLASSES)
        matrix->classes = CLIENT_MATRIX_CLASSES;
    double cell = cell_size(matrix->classes), side = cell * (double)matrix->classes;
    static const struct client_legend legend[] = {{"right", 0, CLIENT_MARK_BLOCK, false},
                                                  {"wrong", 1, CLIENT_MARK_BLOCK, false}};
    frame->rows = true;
    frame->left_room = NAMES_ROOM + 24;
    frame->right_room = 110; /* the last column's name leans over the edge */
    frame->width = frame->left_room + side + frame->right_room;
    frame->legend = legend;
    frame->legend_count = 2;
    frame->x = (struct client_scale){.low = 0, .high = 1};
    frame->x_name = "answer";
    frame->y_name = "true class";
    frame->head_room = NAMES_ABOVE;
    frame->height = client_frame_border(frame) + side;
    client_frame_open(out, frame);
    draw_names(out, matrix, cell);
    for (size_t row = 0; row < matrix->classes; row++) {
        double total = 0;
        for (size_t column = 0; column < matrix->classes; column++)
            total += (double)matrix->counts[row * matrix->classes + column];
        for (size_t column = 0; column < matrix->classes; column++)
            draw_cell(out, matrix, cell, row, column, total);
    }
    client_frame_close(out);
}
