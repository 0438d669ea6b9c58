/* What a launch of inverted.cu is given, and how it follows from the shape: sizes of tiles, patches, places
 * in shared memory, activations. */
#ifndef CONVOY_KERNELS_NHWC_INVERTED_JOB_CUH
#define CONVOY_KERNELS_NHWC_INVERTED_JOB_CUH

#include "kernels/device/divider.cuh"
#include "kernels/nhwc/bottleneck_job.cuh"

#define INV_SIDE      8  /* outputs of a patch's side */
#define INV_CHANNELS  64 /* of the middle, at a time: a chunk */
#define INV_ROW_BYTES (INV_CHANNELS * 2)
#define INV_INPUTS    (1 << 16) /* most channels of x */
#define INV_MAPS      160       /* most of the last layer */
#define INV_GROUPS    4         /* most warpgroups of a block */
#define INV_STAGES    16        /* most chunks whose weights are there at a time */
#define INV_BUFFERS   2         /* most patches of x of a warpgroup */
#define INV_BARRIERS  512       /* bytes */
#define INV_PARTS     CONVOY_PORTABLE_CLUSTER
#define INV_SUM_BYTES (NHWC_PIECE * (int)sizeof(float)) /* of a map of a patch */
#define INV_PITCH     (INV_ROW_BYTES + 16)   /* from pixel to pixel of the middle: 8 pixels in other banks */
#define INV_TAP_ROW   (INV_CHANNELS * 4)     /* bytes of two taps of the depthwise filter */
#define INV_TABLE_ROW (CONVOY_WARPGROUP * 2) /* bytes of a piece's table: 16 bits for each thread */

/* SIDE: of the depthwise filter. NT: tiles of 8 maps of the last layer; 0: there is none, and the depthwise
 * layer's results are stored. */
template <int SIDE, int STRIDE, int NT> struct inv_tile {
    static constexpr int PAD = SIDE / 2, BOX = (INV_SIDE - 1) * STRIDE + SIDE, PIXELS = BOX * BOX;
    /* Lines of the middle that two lines of outputs read. */
    static constexpr int LINES = STRIDE + SIDE;
    /* One pixel more: what the products have of pixels that are not there. */
    static constexpr int MIDDLE_BYTES = ((PIXELS + 1) * INV_PITCH + 1023) / 1024 * 1024;
    static constexpr int RESULT_BYTES = NHWC_PIECE * INV_ROW_BYTES; /* of 64 channels or maps */
    static constexpr int RESULTS =
        NT == 0 ? 2 * RESULT_BYTES : (NT * 8 + INV_CHANNELS - 1) / INV_CHANNELS * RESULT_BYTES;
    /* Of a warpgroup, besides x: the last results lie where the middle was. */
    static constexpr int OWN_BYTES =
        NT == 0 ? MIDDLE_BYTES + RESULTS : (MIDDLE_BYTES > RESULTS ? MIDDLE_BYTES : RESULTS);
    /* Weights of a chunk: the first layer's, then these. */
    static constexpr int MAPS = NT * 8, PROJECT_BYTES = MAPS * INV_ROW_BYTES;
    static constexpr int PAIRS = (SIDE * SIDE + 1) / 2,
                         TAP_BYTES = (PAIRS * INV_TAP_ROW + 1023) / 1024 * 1024;
    /* As many as the registers suffice for. */
    static constexpr int GROUPS = NT <= 12 ? INV_GROUPS : 3;

    /* Where a column of a line of the middle lies: those that the outputs of a line read at one tap lie
     * beside each other. */
    static __host__ __device__ constexpr int at_column(int column)
    {
        return STRIDE == 1 ? column : column % 2 * ((BOX + 1) / 2) + column / 2;
    }
};

/* How a layer's sums become numbers of 16 bits. */
enum inv_kind { INV_PLAIN, INV_RELU, INV_RELU_CLIP, INV_CLIP, INV_SWISH, INV_HARD_SWISH };

struct inv_act {
    enum inv_kind kind;
    uint32_t low, high; /* bounds, twice; INV_RELU_CLIP has the higher one alone */
};

struct inv_job {
    CUtensorMap x, y;
    const char *weights;
    const float *bias[CONVOY_BOTTLENECK_LAYERS];
    int h, w, oh, ow, mid, k;
    int side, down, across, tiles; /* outputs of a patch's side; patches of an image, of all */
    struct tensor_divider by_down, by_across;
    int box_w, box_h, pieces;        /* pixels of x that a patch reads; 64 each */
    unsigned box_part;               /* of 65,536: pixel * box_part / 65,536 is the pixel's line */
    bool inside;                     /* of a patch's box only what lies in the image is read */
    int x_channels, x_row, x_panels; /* of x: channels and bytes of a panel's row, panels */
    int steps, panel_shift;          /* 16 channels each, of all and (a power of two) of a panel */
    uint64_t rows;                   /* of both matrices of the first layer, as convoy_matrix_rows() says */
    int x_panel, w_panel;            /* 16 bytes each of a panel of x, of weights */
    int x_bytes, buffers;            /* of a patch of x; how many a warpgroup has */
    int chunks, expand_bytes, stage_bytes, stages; /* of a stage: the first layer's; all */
    int parts;         /* blocks that divide the chunks of a patch: each makes one patch then */
    convoy_fp16 *out;  /* y, where these add their sums */
    int64_t out_pixel; /* numbers from pixel to pixel */
    float *sums_out;   /* over the outputs of each patch (inverted_sums.cuh); NULL: none */
    bool looks[2];     /* can a layer's results be what fp16 does not hold? Then the kernel looks for it */
    int groups, own;   /* warpgroups; where their own places begin, behind each x */
    int tables,
        table_bytes; /* place in shared memory; from a warpgroup's to the next one's: 0, all have one */
    int group_bytes, ring, biases, sums, barriers, bytes; /* places in shared memory; groups are at 0 */
    bool residual, separable;
    struct inv_act act[CONVOY_BOTTLENECK_LAYERS];
    uint32_t *overflow;
    uint32_t marks[CONVOY_BOTTLENECK_LAYERS];
};

/* ---- On the host ---- */

/* What the channels and the filter say. */
template <int SIDE, int STRIDE, int NT>
static void inv_count(const struct convoy_bottleneck_shape *s, struct inv_job *job)
{
    using tile = inv_tile<SIDE, STRIDE, NT>;
    job->steps = (int)convoy_div_up(s->c, 16);
    job->panel_shift = s->c <= 16 ? 0 : s->c <= 32 ? 1 : 2;
    job->x_channels = 16 << job->panel_shift;
    job->x_row = job->x_channels * 2;
    job->x_panels = (int)convoy_div_up(s->c, job->x_channels);
    job->chunks = (int)convoy_div_up(s->mid, INV_CHANNELS);
    job->expand_bytes = s->separable ? 0 : job->x_panels * INV_CHANNELS * job->x_row;
    job->stage_bytes = job->expand_bytes + tile::PROJECT_BYTES + tile::TAP_BYTES;
}

/* Places in shared memory for so many warpgroups with so many patches of x each. False: it does not suffice.
 */
template <typename TILE> static bool inv_place_all(int groups, int buffers, struct inv_job *job)
{
    job->groups = groups;
    job->buffers = buffers;
    job->own = buffers * job->x_bytes;
    job->group_bytes = job->own + TILE::OWN_BYTES;
    int table = job->pieces * INV_TABLE_ROW, tables = job->inside ? groups * table : table;
    job->table_bytes = job->inside ? table : 0;
    job->ring = groups * job->group_bytes;
    int biases = 2 * job->chunks * INV_CHANNELS * (int)sizeof(float);
    int sums = job->parts > 1 ? TILE::MAPS * INV_SUM_BYTES : 0;
    int room =
        (CONVOY_SHARED_MAX - 1024 - INV_BARRIERS - biases - tables - sums - job->ring) / job->stage_bytes;
    job->stages = neck_least(neck_least(room, job->chunks), INV_STAGES);
    job->biases = job->ring + job->stages * job->stage_bytes;
    job->tables = job->biases + biases;
    job->sums = job->tables + tables;
    job->barriers = job->sums + sums;
    job->bytes = job->barriers + INV_BARRIERS + 1024;
    return job->stages >= neck_least(job->chunks, 2); /* the next one comes while one is read */
}

/* How many blocks divide the chunks of a patch: as few as have the fewest each, where patches do not suffice
 * for all multiprocessors. Those that add sums are a cluster, whose blocks have as many rows each; all
 * clusters are to run at once. */
template <int NT> static int inv_parts(const struct inv_job *job)
{
    int most = neck_least(job->chunks, NHWC_SMS / job->tiles), parts = 1;
    if (NT > 0) {
        while (parts * 2 <= neck_least(most, INV_PARTS) &&
               job->tiles * parts * 2 <= nhwc_multiprocessors_of(parts * 2, NHWC_SMS))
            parts *= 2;
        return parts;
    }
    return most > 1 ? (int)convoy_div_up(job->chunks, convoy_div_up(job->chunks, most)) : 1;
}

/* Most pixels of a side of what one of an axis's `patches` patches reads. */
static int inv_box(int size, int patches, int side, int filter, int stride)
{
    int most = 0;
    for (int i = 0; i < patches; i++) {
        int from = i * side * stride - filter / 2, end = from + (side - 1) * stride + filter;
        most = neck_most(most, neck_least(end, size) - neck_most(from, 0));
    }
    return most;
}

/* The same for as many warpgroups, and patches of x, as pay. */
template <typename TILE> static bool inv_place_most(struct inv_job *job)
{
    int most = neck_least(TILE::GROUPS, neck_most((int)convoy_div_up(job->tiles, NHWC_SMS), 1));
    for (int groups = most; groups > 0; groups--)
        if (inv_place_all<TILE>(groups, 1, job)) {
            int stages = job->stages;
            bool rounds = job->tiles > NHWC_SMS * groups;
            if (!rounds || !inv_place_all<TILE>(groups, INV_BUFFERS, job) ||
                job->stages < neck_least(stages, 4))
                inv_place_all<TILE>(groups, 1, job);
            return true;
        }
    return false;
}

/* Outputs of a patch's side. */
static int inv_patch_side(const struct convoy_bottleneck_shape *s)
{
    return neck_least(neck_side(s->oh), neck_side(s->ow));
}

/* Everything that does not depend on operands. False: shared memory does not suffice. */
template <int SIDE, int STRIDE, int NT>
static bool inv_describe(const struct convoy_bottleneck_shape *s, struct inv_job *job)
{
    using tile = inv_tile<SIDE, STRIDE, NT>;
    inv_count<SIDE, STRIDE, NT>(s, job);
    job->h = s->h;
    job->w = s->w;
    job->oh = s->oh;
    job->ow = s->ow;
    job->mid = s->mid;
    job->k = s->k;
    job->side = inv_patch_side(s);
    job->down = (int)convoy_div_up(s->oh, job->side);
    job->across = (int)convoy_div_up(s->ow, job->side);
    job->tiles = s->n * job->down * job->across;
    job->by_down = tensor_divider(job->down);
    job->by_across = tensor_divider(job->across);
    job->residual = s->residual;
    job->separable = s->separable;
    job->box_h = inv_box(s->h, job->down, job->side, SIDE, STRIDE);
    job->box_w = inv_box(s->w, job->across, job->side, SIDE, STRIDE);
    job->inside = job->box_h < tile::BOX || job->box_w < tile::BOX;
    job->box_part = 65536u / (unsigned)job->box_w + 1; /* exact for pixels below 1,024 */
    job->pieces = (int)convoy_div_up(job->box_w * job->box_h, NHWC_PIECE);
    job->rows = convoy_matrix_rows(job->x_row);
    job->x_panel = job->pieces * NHWC_PIECE * job->x_row / 16;
    job->w_panel = INV_CHANNELS * job->x_row / 16;
    job->x_bytes = job->x_panels * job->x_panel * 16;
    job->parts = inv_parts<NT>(job);
    if (inv_place_most<tile>(job))
        return true;
    job->parts = 1; /* sums take memory, too */
    return inv_place_most<tile>(job);
}

static uint32_t inv_twice(float bound)
{
    uint32_t half = convoy_half(bound);
    return half | half << 16;
}

static bool inv_acts(const struct convoy_unary &act, struct inv_act *to)
{
    to->low = 0;
    to->high = inv_twice(INFINITY);
    switch (act.kind) {
    case CONVOY_UNARY_NONE:
        to->kind = INV_PLAIN;
        return true;
    case CONVOY_UNARY_RELU:
        to->kind = INV_RELU;
        return true;
    case CONVOY_UNARY_CLIP:
        to->kind = act.alpha == 0.0f ? INV_RELU_CLIP : INV_CLIP;
        to->low = inv_twice(act.alpha);
        to->high = inv_twice(act.beta);
        return true;
    case CONVOY_UNARY_SWISH:
        to->kind = INV_SWISH;
        return true;
    case CONVOY_UNARY_HARD_SWISH:
        to->kind = INV_HARD_SWISH;
        return true;
    default:
        return false;
    }
}

/* Does the kernel look for infinities and NaN among a layer's results? Not where its activation leaves none
 * of the former: NaN of x goes on to the last layer, of which it is told. */
static bool inv_looks(const struct convoy_bottleneck_shape &s, int layer, const struct inv_act &act)
{
    bool last = layer == convoy_bottleneck_end(&s) - 1;
    return last || act.kind != INV_RELU_CLIP || act.high == inv_twice(INFINITY);
}

#endif
