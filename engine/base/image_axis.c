#include "engine/base/image_axis.h"

#include <math.h>

static int64_t half_to_even(int64_t twice)
{
    int64_t down = twice / 2;
    return twice % 2 == 0 ? down : down + down % 2;
}

struct convoy_axis convoy_axis_of(int64_t in, int out, enum convoy_image_filter filter)
{
    return (struct convoy_axis){.in = in, .scaled = out, .extent = (double)in, .out = out, .filter = filter};
}

/* Of what is scaled, the centre that is wanted. */
static void take_centre(struct convoy_axis *axis, bool down)
{
    int64_t margins = axis->scaled - axis->out;
    axis->first = down ? margins / 2 : half_to_even(margins);
}

void convoy_axes_stretch(int64_t width, int64_t height, bool down, struct convoy_axis *x,
                         struct convoy_axis *y)
{
    x->scaled = width > 0 ? width : x->out;
    y->scaled = height > 0 ? height : y->out;
    take_centre(x, down);
    take_centre(y, down);
}

void convoy_axes_crop(int64_t width, int64_t height, bool down, struct convoy_axis *x, struct convoy_axis *y)
{
    width = x->scaled = width > 0 ? width : x->out;
    height = y->scaled = height > 0 ? height : y->out;
    if (width * y->in >= height * x->in)
        y->scaled = width * y->in / x->in;
    else
        x->scaled = height * x->in / y->in;
    take_centre(x, down);
    take_centre(y, down);
}

/* The length of the side that does not fill the target, in Pillow's words. */
static int contained(int64_t in, int64_t other_in, int other_out, int most)
{
    double length = rint((double)in / (double)other_in * other_out);
    return length < 1.0 ? 1 : length > most ? most : (int)length;
}

void convoy_axes_pad(struct convoy_axis *x, struct convoy_axis *y)
{
    double image = (double)x->in / (double)y->in, room = (double)x->out / y->out;
    if (image > room)
        y->out = contained(y->in, x->in, x->out, y->out);
    else if (image < room)
        x->out = contained(x->in, y->in, y->out, x->out);
    x->scaled = x->out;
    y->scaled = y->out;
}

int64_t convoy_image_padding(int image, int room)
{
    return half_to_even((int64_t)room - image);
}
