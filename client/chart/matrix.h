/* A confusion matrix: a row for each true class, a column for each answer, darker the more of its row a cell
 * has. */
#ifndef CONVOY_CLIENT_MATRIX_H
#define CONVOY_CLIENT_MATRIX_H

#include "client/chart/frame.h"

/* A larger matrix would be megabytes of cells that cannot be read. */
#define CLIENT_MATRIX_CLASSES 50

struct client_matrix {
    struct client_frame
        frame; /* id, title and description are the caller's; width and height follow from the classes */
    char *const *labels;
    const size_t *counts; /* classes x classes, counts[truth * classes + answer] */
    size_t classes;       /* at most CLIENT_MATRIX_CLASSES */
};

void client_matrix_draw(FILE *out, struct client_matrix *matrix);

#endif
