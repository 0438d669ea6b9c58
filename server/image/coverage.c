#include "server/image/coverage.h"

#include "server/image/fit.h"

/* Where the target's `out` pixels begin and end on an axis of the image. */
static void span(const struct convoy_axis *axis, int out, double *from, double *to)
{
    /* Either the image reaches beyond the target (first > 0) or it is less than that and lies in the middle.
     */
    int64_t before = axis->first - convoy_image_padding(axis->out, out);
    *from = (double)before / (double)axis->scaled;
    *to = (double)(before + out) / (double)axis->scaled;
}

void convoy_image_coverage(const struct convoy_image_target *target, int width, int height,
                           struct convoy_image_box *box)
{
    struct convoy_axis x, y;

    convoy_image_fit(target, width, height, &x, &y);
    span(&x, target->width, &box->left, &box->right);
    span(&y, target->height, &box->top, &box->bottom);
}
