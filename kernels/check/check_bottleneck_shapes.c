#include "kernels/check/check_bottleneck_shapes.h"

#define LAYERS CONVOY_BOTTLENECK_LAYERS

/* Written: sizes at which patches, boxes, chunks and clusters change. The last ones are resnet50's. */
static const struct {
    int n, h, w, c, mid;
} written[] = {{1, 1, 1, 256, 64},   {1, 7, 7, 256, 64},   {3, 8, 8, 72, 16},   {1, 14, 14, 128, 64},
               {2, 9, 13, 40, 72},   {1, 14, 8, 200, 100}, {1, 15, 15, 64, 64}, {1, 8, 15, 136, 40},
               {1, 28, 28, 64, 32},  {2, 17, 6, 264, 64},  {1, 16, 7, 8, 128},  {1, 14, 14, 264, 256},
               {1, 7, 17, 520, 128}, {1, 7, 7, 1032, 256}, {1, 7, 7, 136, 512}, {1, 7, 7, 2048, 512},
               {1, 8, 28, 512, 128}};
#define WRITTEN ((int)(sizeof written / sizeof written[0]))

/* Inverted residuals; k 0: their first two layers; mid 0: their last two. Some are mobilenet_v2's, of fewer
 * pixels. */
static const struct {
    int n, h, w, c, mid, k, side, stride;
} inverted[CHECK_INVERTED] = {
    {1, 1, 1, 8, 64, 8, 3, 1},      {1, 8, 8, 16, 64, 16, 3, 1},    {3, 7, 7, 24, 72, 24, 3, 1},
    {2, 9, 13, 40, 136, 40, 5, 1},  {1, 17, 15, 72, 200, 64, 3, 2}, {2, 16, 6, 12, 40, 96, 5, 2},
    {1, 16, 17, 130, 8, 104, 3, 1}, {1, 8, 24, 24, 144, 32, 3, 2},  {1, 14, 14, 96, 576, 160, 3, 2},
    {1, 7, 7, 160, 960, 160, 3, 1}, {2, 14, 15, 80, 200, 0, 5, 1},  {1, 10, 17, 24, 72, 0, 3, 2},
    {1, 1, 1, 16, 64, 0, 3, 1},     {1, 5, 9, 384, 64, 8, 3, 1},    {1, 8, 8, 24, 200, 0, 3, 1},
    {1, 14, 13, 40, 264, 48, 5, 2}, {1, 7, 6, 96, 576, 96, 3, 1},   {1, 5, 7, 160, 328, 160, 5, 1},
    {1, 16, 17, 32, 0, 16, 3, 1},   {2, 9, 24, 16, 0, 16, 3, 1},    {1, 8, 8, 64, 0, 128, 3, 1},
    {1, 14, 15, 40, 0, 40, 5, 1},   {2, 17, 9, 72, 0, 104, 3, 2},   {1, 16, 7, 8, 0, 24, 5, 2},
    {1, 1, 1, 136, 0, 136, 3, 1},   {3, 7, 6, 160, 0, 160, 3, 1}};

static const int sides[] = {1, 3, 7, 8, 9, 12, 13, 14, 15, 16, 17};
static const int channels[] = {8, 12, 16, 40, 64, 65, 72, 128, 136};
static const int many_channels[] = {8, 12, 16, 24, 32, 40, 56, 64, 65, 72, 96, 136, 200, 320, 576};

/* Any of the activations of kernels in 16 bits, most often one of those that networks have there. */
static struct convoy_unary any_act(struct convoy_check *check)
{
    static const struct convoy_unary usual[] = {{.kind = CONVOY_UNARY_NONE},
                                                {.kind = CONVOY_UNARY_RELU},
                                                {.kind = CONVOY_UNARY_CLIP, .beta = 6},
                                                {.kind = CONVOY_UNARY_SWISH},
                                                {.kind = CONVOY_UNARY_GELU}};
    return convoy_check_between(check, 0, 2) ? CONVOY_CHECK_PICK(check, usual)
                                             : convoy_check_any_unary(check);
}

/* One of those that inverted residuals have. */
static struct convoy_unary any_inverted_act(struct convoy_check *check)
{
    static const struct convoy_unary all[] = {{.kind = CONVOY_UNARY_NONE},
                                              {.kind = CONVOY_UNARY_RELU},
                                              {.kind = CONVOY_UNARY_CLIP, .beta = 6},
                                              {.kind = CONVOY_UNARY_CLIP, .alpha = -0.3F, .beta = 0.7F},
                                              {.kind = CONVOY_UNARY_SWISH},
                                              {.kind = CONVOY_UNARY_HARD_SWISH}};
    return CONVOY_CHECK_PICK(check, all);
}

static void any_inverted(struct convoy_check *check, struct convoy_bottleneck_shape *s, int number)
{
    *s = (struct convoy_bottleneck_shape){.n = convoy_check_between(check, 1, 2),
                                          .h = CONVOY_CHECK_PICK(check, sides),
                                          .w = CONVOY_CHECK_PICK(check, sides),
                                          .c = CONVOY_CHECK_PICK(check, many_channels),
                                          .mid = 8 * convoy_check_between(check, 1, 25),
                                          .side = 3 + 2 * convoy_check_between(check, 0, 1),
                                          .stride = convoy_check_between(check, 1, 2)};
    s->k = convoy_check_between(check, 0, 1) ? s->c / 8 * 8 : 8 * convoy_check_between(check, 0, 21);
    if (number < CHECK_INVERTED)
        *s = (struct convoy_bottleneck_shape){.n = inverted[number].n,
                                              .h = inverted[number].h,
                                              .w = inverted[number].w,
                                              .c = inverted[number].c,
                                              .mid = inverted[number].mid,
                                              .k = inverted[number].k,
                                              .side = inverted[number].side,
                                              .stride = inverted[number].stride};
    else if (s->k > 0 && convoy_check_between(check, 0, 2) == 0)
        s->mid = 0;
    s->depthwise = true;
    if (s->mid == 0) {
        s->separable = true;
        s->mid = s->c = (s->c + 7) / 8 * 8;
    }
    s->residual =
        s->stride == 1 && s->k == s->c && (number < CHECK_INVERTED || convoy_check_between(check, 0, 1));
    s->oh = (s->h - 1) / s->stride + 1;
    s->ow = (s->w - 1) / s->stride + 1;
}

static void any_bottleneck(struct convoy_check *check, struct convoy_bottleneck_shape *s, int number)
{
    *s = (struct convoy_bottleneck_shape){.n = convoy_check_between(check, 1, 2),
                                          .h = CONVOY_CHECK_PICK(check, sides),
                                          .w = CONVOY_CHECK_PICK(check, sides),
                                          .c = CONVOY_CHECK_PICK(check, channels),
                                          .mid = CONVOY_CHECK_PICK(check, channels)};
    if (number < WRITTEN)
        *s = (struct convoy_bottleneck_shape){.n = written[number].n,
                                              .h = written[number].h,
                                              .w = written[number].w,
                                              .c = written[number].c,
                                              .mid = written[number].mid};
    s->k = s->c;
    s->side = 3;
    s->stride = 1;
    s->oh = s->h;
    s->ow = s->w;
    s->residual = true;
}

void check_bottleneck_shape(struct convoy_check *check, struct convoy_bottleneck_shape *s, bool depthwise)
{
    if (depthwise)
        any_inverted(check, s, check->cases);
    else
        any_bottleneck(check, s, check->cases / CHECK_BOTTLENECK_CASES);
    s->x_pixel = convoy_nhwc_channels(s->c) + 8 * convoy_check_between(check, 0, 2);
    s->y_pixel = convoy_nhwc_channels(check_maps_of(s)) + 8 * convoy_check_between(check, 0, 2);
    for (int layer = 0; layer < LAYERS; layer++) {
        s->bias[layer] = check->cases == 0 || convoy_check_between(check, 0, 3) > 0;
        s->act[layer] = depthwise ? any_inverted_act(check) : any_act(check);
    }
    /* Errors are told from the largest result: narrow bounds would leave less of that than of the errors that
     * the layers inside make. */
    struct convoy_unary *last = &s->act[convoy_bottleneck_end(s) - 1];
    if (last->kind == CONVOY_UNARY_CLIP)
        *last = (struct convoy_unary){.kind = CONVOY_UNARY_CLIP, .beta = 6};
}
