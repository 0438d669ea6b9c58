#include "engine/cuda/plan/branches.h"

#include "engine/base/hash.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Batches up to so many images have branches. On an H100, with one image, resnet50 took 254 us instead of 268
 * and resnet18 124 instead of 140, each with the convolution beside a block on a branch; with eight 501 for
 * 501 and 207 for 214; with 32 1,214 for 1,230 and 423 for 423; with 64, where every layer fills the chip,
 * 2,084 for 2,090 and 652 for 655. A branch takes memory. */
#define ROWS_MAX 32

/* Before it was measured, a region has its branches where its longest chain is estimated to take less than
 * LIKELY_CHAIN of all its steps, in batches in which few steps fill the chip. */
#define LIKELY_ROWS  8
#define LIKELY_CHAIN 0.8F

#define STEPS_MAX  64          /* that are looked at together: as many as bits of a set */
#define LOOK_AHEAD 16          /* steps behind an end that are to wait for it */
#define SIMPLE_MAX 8           /* of a region that has its branch though nothing was measured */
#define BYTES_MAX  (64u << 20) /* of the buffers of a region with branches, which lie side by side */
#define NONE       (-1)

/* A set of steps, counted from the first one that is looked at. */
typedef uint64_t step_set;

/* How a step uses a buffer: all of it, or `bytes` of each pixel from `offset` on, and leaves others as they
 * are. */
struct use {
    size_t buffer, offset, bytes; /* bytes: 0: all */
    bool writes;
};

/* `count` steps from step `first` on, and the region of them that begins with step `from` and ends before
 * `end`. */
struct region {
    const struct convoy_cuda_plan *plan;
    int first, count, from, end;
    int uses[STEPS_MAX];
    struct use use[STEPS_MAX][CONVOY_CUDA_PLACES];
    step_set direct[STEPS_MAX]; /* that it waits for itself: not those that others of them have waited for */
    step_set before[STEPS_MAX]; /* that have run when it begins */
    float us[STEPS_MAX];        /* that it and what follows take at least, by the estimates */
    int heir[STEPS_MAX];        /* the step that goes on with its lane; NONE */
    int lane[STEPS_MAX];
    int lanes;                   /* that it needs */
    int tail[CONVOY_CUDA_LANES]; /* the last step of each lane; NONE */
};

static step_set set_of(int step)
{
    return (step_set)1 << step;
}

/* All steps before that one. */
static step_set until(int step)
{
    return step < STEPS_MAX ? set_of(step) - 1 : ~(step_set)0;
}

/* What a step waits for in its region. */
static step_set waits_for(const struct region *r, int step)
{
    return r->direct[step] & ~until(r->from);
}

/* ---- What waits for what ---- */

/* How many channels of each pixel a step reads and writes, and of no others; 0: it is no such step. */
static void find_channels(const struct convoy_cuda_step *step, int64_t *read, int64_t *written)
{
    const struct convoy_conv_shape *conv = &step->conv.shape;
    const struct convoy_bottleneck_shape *bottleneck = &step->bottleneck.shape;
    *read = *written = 0;
    switch (step->kind) {
    case CONVOY_CUDA_CONV:
        *read = conv->nhwc.on && !conv->nhwc.images && conv->nhwc.window == 0 ? conv->c : 0;
        *written = conv->nhwc.on ? conv->k : 0;
        break;
    case CONVOY_CUDA_NHWC_POOL:
        *read = *written = step->nhwc_pool.c;
        break;
    case CONVOY_CUDA_NHWC_BINARY:
        *read = *written = step->nhwc_binary.shape.c;
        break;
    case CONVOY_CUDA_NHWC_SCALE_SHIFT:
        *read = *written = step->nhwc_scale_shift.c;
        break;
    case CONVOY_CUDA_BOTTLENECK:
        *read = bottleneck->c;
        *written = !bottleneck->depthwise ? bottleneck->c
                   : bottleneck->k > 0    ? bottleneck->k
                                          : bottleneck->mid;
        break;
    default:
        break;
    }
}

static void find_uses(struct region *r, int i)
{
    struct convoy_cuda_step *step = &r->plan->steps[r->first + i];
    struct convoy_cuda_place *places[CONVOY_CUDA_PLACES];
    int writes, count = convoy_cuda_step_places(step, places, &writes);
    int64_t read, written;
    find_channels(step, &read, &written);
    r->uses[i] = 0;
    for (int k = 0; k < count; k++) {
        int64_t channels = places[k] == &step->x ? read : places[k] == &step->y ? written : 0;
        if (places[k]->where == CONVOY_CUDA_WORKSPACE)
            r->use[i][r->uses[i]++] =
                (struct use){.buffer = places[k]->offset >> CONVOY_CUDA_BUFFER_SHIFT,
                             .offset = places[k]->offset,
                             .bytes = (size_t)convoy_nhwc_channels(channels) * sizeof(convoy_fp16),
                             .writes = k < writes};
    }
}

static bool use_the_same(const struct use *a, const struct use *b)
{
    bool apart = a->bytes > 0 && b->bytes > 0 &&
                 (a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset);
    return a->buffer == b->buffer && (a->writes || b->writes) && !apart;
}

static bool must_wait(const struct region *r, int later, int earlier)
{
    for (int i = 0; i < r->uses[later]; i++)
        for (int k = 0; k < r->uses[earlier]; k++)
            if (use_the_same(&r->use[later][i], &r->use[earlier][k]))
                return true;
    return false;
}

/* A launch takes some 4 us, whatever it computes. */
static float estimate_us(const struct convoy_cuda_step *step)
{
    switch (step->kind) {
    case CONVOY_CUDA_CONV:
        return 4 + step->conv.kernel->estimate_us(&step->conv.shape);
    case CONVOY_CUDA_GEMM:
        return 4 + step->gemm.kernel->estimate_us(&step->gemm.shape);
    case CONVOY_CUDA_BOTTLENECK:
        return 4 + step->bottleneck.kernel->estimate_us(&step->bottleneck.shape);
    default:
        return 4;
    }
}

static void find_order(struct region *r)
{
    for (int i = 0; i < r->count; i++) {
        find_uses(r, i);
        r->direct[i] = r->before[i] = 0;
        for (int k = i - 1; k >= 0; k--) /* the later ones may have waited for the earlier ones */
            if ((r->before[i] & set_of(k)) == 0 && must_wait(r, i, k)) {
                r->direct[i] |= set_of(k);
                r->before[i] |= set_of(k) | r->before[k];
            }
    }
}

/* The steps with which regions end: all behind one of them wait for it and for all before it. */
static step_set find_ends(const struct region *r)
{
    step_set ends = 0, all_wait_for = ~(step_set)0;
    for (int i = r->count - 1; i > 0; i--) {
        all_wait_for &= r->before[i];
        if ((until(i) & ~all_wait_for) == 0)
            ends |= set_of(i - 1);
    }
    return ends;
}

/* ---- Lanes ---- */

static void find_chains(struct region *r)
{
    for (int i = r->from; i < r->end; i++) {
        r->us[i] = estimate_us(&r->plan->steps[r->first + i]);
        r->heir[i] = NONE;
    }
    for (int i = r->end - 1; i >= r->from; i--) {
        if (r->heir[i] != NONE)
            r->us[i] += r->us[r->heir[i]];
        for (int k = r->from; k < i; k++)
            if ((r->direct[i] & set_of(k)) != 0 && (r->heir[k] == NONE || r->us[i] >= r->us[r->heir[k]]))
                r->heir[k] = i;
    }
}

/* The longest chain goes on where the region before it ended. */
static int longest_chain(const struct region *r)
{
    int longest = r->from;
    for (int i = r->from; i < r->end; i++)
        if (waits_for(r, i) == 0 && r->us[i] > r->us[longest])
            longest = i;
    return longest;
}

static int choose_lane(const struct region *r, int step, int longest)
{
    if (step == longest)
        return 0;
    for (int lane = 0; lane < CONVOY_CUDA_LANES; lane++)
        if (r->tail[lane] != NONE && r->heir[r->tail[lane]] == step)
            return lane;
    int oldest = 1, unused = NONE;
    for (int lane = CONVOY_CUDA_LANES - 1; lane >= 0; lane--) {
        int tail = r->tail[lane];
        if (tail == NONE && lane > 0)
            unused = lane;
        else if (tail != NONE && r->heir[tail] == NONE && (r->before[step] & set_of(tail)))
            return lane; /* all of it has run */
        else if (lane > 0 && tail < r->tail[oldest])
            oldest = lane;
    }
    return unused != NONE ? unused : oldest; /* there it waits for more than it needs */
}

static void give_lanes(struct region *r)
{
    find_chains(r);
    int longest = longest_chain(r);
    r->lanes = 0;
    for (int lane = 0; lane < CONVOY_CUDA_LANES; lane++)
        r->tail[lane] = NONE;
    for (int i = r->from; i < r->end; i++) {
        int lane = choose_lane(r, i, longest);
        r->lane[i] = lane;
        r->tail[lane] = i;
    }
    for (int lane = 0; lane < CONVOY_CUDA_LANES; lane++)
        r->lanes += r->tail[lane] != NONE;
}

/* One convolution beside a short chain. */
static bool is_simple(const struct region *r)
{
    int beside = r->end - r->from > SIMPLE_MAX ? 2 : 0;
    for (int i = r->from; i < r->end; i++) {
        if (r->lane[i] != 0 && r->plan->steps[r->first + i].kind != CONVOY_CUDA_CONV)
            return false;
        beside += r->lane[i] != 0;
    }
    return beside == 1;
}

/* ---- What is done about it ---- */

/* Names the choice: equal for plans with equal steps that read each other's results in the same way,
 * whichever kernels run them. 0 or -ENOMEM. */
static int name_choice(struct convoy_cuda_lowering *l)
{
    struct convoy_cuda_plan *plan = l->plan;
    /* Buffers in the order in which they are met; what kernels need besides is not counted. */
    int *number = calloc((size_t)l->buffer_count + 1, sizeof(number[0])), met = 0;
    uint64_t hash = 0;
    if (number == NULL)
        return convoy_fail(l->error, -ENOMEM, "no memory to name %d steps", plan->step_count);
    for (int i = 0; i < plan->step_count; i++) {
        struct convoy_cuda_step *step = &plan->steps[i];
        struct convoy_cuda_place *places[CONVOY_CUDA_PLACES];
        struct convoy_cuda_key shape = {{0}};
        int writes, count = convoy_cuda_step_places(step, places, &writes);
        if (step->kind == CONVOY_CUDA_CONV)
            convoy_cuda_conv_key(&step->conv.shape, &shape);
        else if (step->kind == CONVOY_CUDA_GEMM)
            convoy_cuda_gemm_key(&step->gemm.shape, &shape);
        hash = convoy_hash(hash, shape.text, strlen(shape.text));
        for (int k = 0; k < count; k++) {
            size_t buffer = places[k]->offset >> CONVOY_CUDA_BUFFER_SHIFT;
            if (places[k]->where != CONVOY_CUDA_WORKSPACE || (k > 0 && k < writes))
                continue;
            if (number[buffer] == 0)
                number[buffer] = ++met;
            const int own[] = {(int)step->kind, step->group, k, number[buffer]};
            hash = convoy_hash(hash, own, sizeof(own));
        }
    }
    free(number);
    snprintf(plan->branches.text, sizeof(plan->branches.text), "branches %016llx s%d n%u",
             (unsigned long long)hash, plan->step_count, plan->rows);
    return 0;
}

enum convoy_cuda_branching convoy_cuda_branches_known(const struct convoy_cuda_source *source,
                                                      const struct convoy_cuda_plan *plan)
{
    const char *way = getenv("CONVOY_BRANCHES");
    if (plan->branches.text[0] == '\0')
        return CONVOY_CUDA_BRANCHES_GUESSED;
    if (way == NULL || way[0] == '\0')
        way = convoy_cuda_kernel_choices_get(source->choices, &plan->branches);
    return way == NULL                              ? CONVOY_CUDA_BRANCHES_GUESSED
           : strcmp(way, CONVOY_CUDA_BRANCHES) == 0 ? CONVOY_CUDA_BRANCHES_ALL
                                                    : CONVOY_CUDA_BRANCHES_SIMPLE;
}

static bool is_likely(const struct region *r)
{
    float all = 0, chain = 0;
    for (int i = r->from; i < r->end; i++) {
        all += estimate_us(&r->plan->steps[r->first + i]);
        chain = r->us[i] > chain ? r->us[i] : chain;
    }
    return r->plan->rows <= LIKELY_ROWS && chain < LIKELY_CHAIN * all;
}

/* Calls `visit` for each buffer that a region uses, once. */
static void visit_buffers(struct convoy_cuda_lowering *l, const struct region *r,
                          void (*visit)(struct convoy_cuda_buffer *buffer, void *argument), void *argument)
{
    size_t seen[STEPS_MAX * CONVOY_CUDA_PLACES];
    int count = 0;
    for (int i = r->from; i < r->end; i++)
        for (int k = 0; k < r->uses[i]; k++) {
            size_t buffer = r->use[i][k].buffer;
            int at = 0;
            while (at < count && seen[at] != buffer)
                at++;
            if (buffer == 0 || at < count) /* 0: input or output rows */
                continue;
            seen[count++] = buffer;
            visit(&l->buffers[buffer - 1], argument);
        }
}

static void add_bytes(struct convoy_cuda_buffer *buffer, void *bytes)
{
    *(size_t *)bytes += buffer->bytes;
}

static void keep_buffer(struct convoy_cuda_buffer *buffer, void *groups)
{
    const int *first_last = groups;
    if (buffer->first > first_last[0])
        buffer->first = first_last[0];
    if (buffer->last < first_last[1])
        buffer->last = first_last[1];
}

/* May a region have branches? *failed: -ENOMEM. */
static bool may_branch(struct convoy_cuda_lowering *l, const struct region *r, int *failed)
{
    struct convoy_cuda_plan *plan = l->plan;
    size_t bytes = 0;
    if (r->lanes == 1)
        return false;
    visit_buffers(l, r, add_bytes, &bytes);
    if (bytes > BYTES_MAX)
        return false;
    if (is_simple(r))
        return true;
    if (plan->branches.text[0] == '\0')
        *failed = name_choice(l);
    plan->branching = convoy_cuda_branches_known(l->source, plan);
    return plan->branching == CONVOY_CUDA_BRANCHES_GUESSED ? is_likely(r)
                                                           : plan->branching == CONVOY_CUDA_BRANCHES_ALL;
}

/* ends: of the region before, the number of the last step of each lane that is to be waited for; 0: none.
 * Becomes that of this region. */
static void write_lanes(const struct region *r, int ends[CONVOY_CUDA_LANES])
{
    int own_ends[CONVOY_CUDA_LANES] = {0};
    for (int i = r->from; i < r->end; i++) {
        struct convoy_cuda_step *step = &r->plan->steps[r->first + i];
        step->lane = r->lane[i];
        if (waits_for(r, i) == 0)
            memcpy(step->waits, ends, sizeof(step->waits));
        for (int k = r->from; k < i; k++)
            if (r->direct[i] & set_of(k))
                step->waits[r->lane[k]] = r->first + k + 1;
        step->waits[step->lane] = 0; /* follows anyway */
    }
    for (int lane = 0; lane < CONVOY_CUDA_LANES; lane++) {
        bool waited = r->tail[lane] == NONE;
        for (int other = 0; other < CONVOY_CUDA_LANES && !waited; other++)
            waited = r->tail[other] != NONE && (r->before[r->tail[other]] & set_of(r->tail[lane])) != 0;
        own_ends[lane] = waited ? 0 : r->first + r->tail[lane] + 1;
    }
    memcpy(ends, own_ends, sizeof(own_ends));
}

/* Steps one after the other. */
static void write_chain(const struct convoy_cuda_plan *plan, int first, int end, int ends[CONVOY_CUDA_LANES])
{
    memcpy(plan->steps[first].waits, ends, sizeof(plan->steps[first].waits));
    plan->steps[first].waits[0] = 0;
    memset(ends, 0, CONVOY_CUDA_LANES * sizeof(ends[0]));
    ends[0] = end;
}

/* The region r->from to r->end. A graph begins and ends on lane 0. */
static int order_region(struct convoy_cuda_lowering *l, struct region *r, int ends[CONVOY_CUDA_LANES])
{
    const struct convoy_cuda_plan *plan = l->plan;
    int first = r->first + r->from, end = r->first + r->end, failed = 0;
    r->lanes = 1;
    if (first > 0 && end < plan->step_count && r->end - r->from > 1)
        give_lanes(r);
    if (may_branch(l, r, &failed)) {
        int groups[] = {plan->steps[first].group, plan->steps[end - 1].group};
        write_lanes(r, ends);
        visit_buffers(l, r, keep_buffer, groups);
    } else {
        write_chain(plan, first, end, ends);
    }
    return failed;
}

int convoy_cuda_find_branches(struct convoy_cuda_lowering *l)
{
    struct convoy_cuda_plan *plan = l->plan;
    int lane_ends[CONVOY_CUDA_LANES] = {0}, failed = 0;
    if (!l->nhwc || plan->rows > ROWS_MAX)
        return 0;
    struct region *r = malloc(sizeof(*r));
    if (r == NULL)
        return convoy_fail(l->error, -ENOMEM, "no memory to order %d steps", plan->step_count);
    for (int first = 0; first < plan->step_count && !failed; first += r->end) {
        r->plan = plan;
        r->first = first;
        r->count = plan->step_count - first < STEPS_MAX ? plan->step_count - first : STEPS_MAX;
        find_order(r);
        step_set ends = find_ends(r);
        /* What is behind the last end is looked at again, with what follows: so are ends that may be some
         * only because others, which do not wait for them, were not looked at. A region that is too large
         * ends somewhere. */
        if (first + r->count < plan->step_count && (ends & until(STEPS_MAX - LOOK_AHEAD)) != 0)
            ends &= until(STEPS_MAX - LOOK_AHEAD);
        if (ends == 0 || first + r->count == plan->step_count)
            ends |= set_of(r->count - 1);
        r->end = 0;
        for (int i = 0; i < r->count && !failed; i++) {
            if ((ends & set_of(i)) == 0)
                continue;
            r->from = r->end;
            r->end = i + 1;
            failed = order_region(l, r, lane_ends);
        }
    }
    free(r);
    return failed;
}
