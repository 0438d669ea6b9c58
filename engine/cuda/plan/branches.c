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

#define STEPS_MAX 64 /* of a region: as many as bits of a set */
#define NONE      (-1)

/* A set of steps of a region, counted from its first one. */
typedef uint64_t step_set;

/* How a step uses a buffer. */
struct use {
    size_t buffer, offset;
    bool writes, part; /* part: of the buffer, beside others that begin elsewhere, and nothing else */
};

struct region {
    const struct convoy_cuda_plan *plan;
    int first, count;
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

/* ---- What waits for what ---- */

/* A kernel that writes channels of pixels, and leaves those beside them as they are. */
static bool writes_channels(const struct convoy_cuda_step *step)
{
    switch (step->kind) {
    case CONVOY_CUDA_CONV:
        return step->conv.shape.nhwc.on;
    case CONVOY_CUDA_NHWC_POOL:
    case CONVOY_CUDA_NHWC_BINARY:
    case CONVOY_CUDA_NHWC_SCALE_SHIFT:
    case CONVOY_CUDA_BOTTLENECK:
        return true;
    default:
        return false;
    }
}

static void find_uses(struct region *r, int i)
{
    struct convoy_cuda_step *step = &r->plan->steps[r->first + i];
    struct convoy_cuda_place *places[CONVOY_CUDA_PLACES];
    int writes, count = convoy_cuda_step_places(step, places, &writes);
    r->uses[i] = 0;
    for (int k = 0; k < count; k++)
        if (places[k]->where == CONVOY_CUDA_WORKSPACE)
            r->use[i][r->uses[i]++] = (struct use){.buffer = places[k]->offset >> CONVOY_CUDA_BUFFER_SHIFT,
                                                   .offset = places[k]->offset,
                                                   .writes = k < writes,
                                                   .part = k == 0 && writes_channels(step)};
}

static bool use_the_same(const struct use *a, const struct use *b)
{
    bool apart = a->writes && b->writes && a->part && b->part && a->offset != b->offset;
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
    const struct convoy_cuda_conv_step *conv = &step->conv;
    return 4 + (step->kind == CONVOY_CUDA_CONV ? conv->kernel->estimate_us(&conv->shape) : 0);
}

static void find_order(struct region *r)
{
    for (int i = 0; i < r->count; i++) {
        find_uses(r, i);
        r->direct[i] = r->before[i] = 0;
        r->us[i] = estimate_us(&r->plan->steps[r->first + i]);
        r->heir[i] = NONE;
        for (int k = i - 1; k >= 0; k--) /* the later ones may have waited for the earlier ones */
            if ((r->before[i] & set_of(k)) == 0 && must_wait(r, i, k)) {
                r->direct[i] |= set_of(k);
                r->before[i] |= set_of(k) | r->before[k];
            }
    }
    for (int i = r->count - 1; i >= 0; i--) {
        if (r->heir[i] != NONE)
            r->us[i] += r->us[r->heir[i]];
        for (int k = 0; k < i; k++)
            if (r->direct[i] & set_of(k)) {
                if (r->heir[k] == NONE || r->us[i] >= r->us[r->heir[k]])
                    r->heir[k] = i;
            }
    }
}

/* ---- Lanes ---- */

/* The longest chain goes on where the region before it ended. */
static int longest_chain(const struct region *r)
{
    int longest = 0;
    for (int i = 1; i < r->count; i++)
        if (r->direct[i] == 0 && r->us[i] > r->us[longest])
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
    int longest = longest_chain(r);
    r->lanes = 0;
    for (int lane = 0; lane < CONVOY_CUDA_LANES; lane++)
        r->tail[lane] = NONE;
    for (int i = 0; i < r->count; i++) {
        int lane = choose_lane(r, i, longest);
        r->lane[i] = lane;
        r->tail[lane] = i;
    }
    for (int lane = 0; lane < CONVOY_CUDA_LANES; lane++)
        r->lanes += r->tail[lane] != NONE;
}

/* One convolution beside a chain. */
static bool is_simple(const struct region *r)
{
    int beside = 0;
    for (int i = 0; i < r->count; i++) {
        if (r->lane[i] != 0 && r->plan->steps[r->first + i].kind != CONVOY_CUDA_CONV)
            return false;
        beside += r->lane[i] != 0;
    }
    return beside == 1;
}

/* ---- What is done about it ---- */

/* Equal for plans with equal steps, whichever kernels run them. */
static void name_choice(struct convoy_cuda_plan *plan)
{
    uint64_t hash = 0;
    for (int i = 0; i < plan->step_count; i++) {
        const struct convoy_cuda_step *step = &plan->steps[i];
        struct convoy_cuda_key shape = {{0}};
        if (step->kind == CONVOY_CUDA_CONV)
            convoy_cuda_conv_key(&step->conv.shape, &shape);
        const int own[] = {(int)step->kind, step->group};
        hash = convoy_hash(hash, own, sizeof(own));
        hash = convoy_hash(hash, shape.text, strlen(shape.text));
    }
    snprintf(plan->branches.text, sizeof(plan->branches.text), "branches %016llx s%d n%u",
             (unsigned long long)hash, plan->step_count, plan->rows);
}

/* CONVOY_CUDA_BRANCHES or CONVOY_CUDA_LAYERS; NULL: there is no choice, or nothing says it. */
static const char *said(const struct convoy_cuda_source *source, const struct convoy_cuda_plan *plan)
{
    const char *wish = getenv("CONVOY_BRANCHES");
    if (plan->branches.text[0] == '\0')
        return NULL;
    if (wish != NULL && wish[0] != '\0')
        return wish;
    return source->branches != NULL ? source->branches
                                    : convoy_cuda_kernel_choices_get(source->choices, &plan->branches);
}

bool convoy_cuda_knows_branches(const struct convoy_cuda_source *source, const struct convoy_cuda_plan *plan)
{
    return said(source, plan) != NULL;
}

bool convoy_cuda_branches_chosen(const struct convoy_cuda_source *source, const struct convoy_cuda_plan *plan)
{
    const char *way = said(source, plan);
    return way != NULL && strcmp(way, CONVOY_CUDA_BRANCHES) == 0;
}

/* May a region have branches? */
static bool may_branch(struct convoy_cuda_lowering *l, const struct region *r)
{
    struct convoy_cuda_plan *plan = l->plan;
    if (r->lanes == 1)
        return false;
    if (is_simple(r))
        return true;
    if (plan->branches.text[0] == '\0')
        name_choice(plan);
    plan->branched = convoy_cuda_branches_chosen(l->source, plan);
    return plan->branched;
}

/* ends: of the region before, the number of the last step of each lane that is to be waited for; 0: none.
 * Becomes that of this region. */
static void write_lanes(const struct region *r, int ends[CONVOY_CUDA_LANES])
{
    int own_ends[CONVOY_CUDA_LANES] = {0};
    for (int i = 0; i < r->count; i++) {
        struct convoy_cuda_step *step = &r->plan->steps[r->first + i];
        step->lane = r->lane[i];
        if (r->direct[i] == 0)
            memcpy(step->waits, ends, sizeof(step->waits));
        for (int k = 0; k < i; k++)
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

static void keep_buffers(struct convoy_cuda_lowering *l, const struct region *r)
{
    int first = l->plan->steps[r->first].group, last = l->plan->steps[r->first + r->count - 1].group;
    for (int i = 0; i < r->count; i++)
        for (int k = 0; k < r->uses[i]; k++) {
            if (r->use[i][k].buffer == 0) /* input or output rows */
                continue;
            struct convoy_cuda_buffer *buffer = &l->buffers[r->use[i][k].buffer - 1];
            if (buffer->first > first)
                buffer->first = first;
            if (buffer->last < last)
                buffer->last = last;
        }
}

/* How many buffers are there before each group and still when it runs. */
static int *count_across(const struct convoy_cuda_lowering *l)
{
    int groups = l->source->groups->count;
    int *across = calloc((size_t)groups + 2, sizeof(across[0]));
    for (int i = 0; across != NULL && i < l->buffer_count; i++) {
        const struct convoy_cuda_buffer *buffer = &l->buffers[i];
        across[buffer->first + 1]++;
        across[(buffer->last < groups ? buffer->last : groups) + 1]--;
    }
    for (int g = 1; across != NULL && g < groups + 2; g++)
        across[g] += across[g - 1];
    return across;
}

/* The step behind the region that begins with step `first`. The first and the last group are regions of their
 * own: a graph begins and ends on lane 0. */
static int end_of_region(const struct convoy_cuda_plan *plan, const int *across, int first)
{
    int end = first + 1, cut = 0;
    for (; end < plan->step_count && end - first <= STEPS_MAX; end++) {
        int group = plan->steps[end].group;
        if (group == plan->steps[end - 1].group)
            continue;
        if (first == 0 || across[group] <= 1 || group == plan->steps[plan->step_count - 1].group)
            return end;
        cut = end; /* a region that is too large ends somewhere */
    }
    return end == plan->step_count || cut == 0 ? end : cut;
}

int convoy_cuda_find_branches(struct convoy_cuda_lowering *l)
{
    struct convoy_cuda_plan *plan = l->plan;
    int ends[CONVOY_CUDA_LANES] = {0};
    if (!l->nhwc || plan->rows > ROWS_MAX)
        return 0;
    int *across = count_across(l);
    struct region *r = malloc(sizeof(*r));
    int failed = across == NULL || r == NULL
                     ? convoy_fail(l->error, -ENOMEM, "no memory to order %d steps", plan->step_count)
                     : 0;
    for (int first = 0, end; first < plan->step_count && !failed; first = end) {
        end = end_of_region(plan, across, first);
        r->plan = plan;
        r->first = first;
        r->count = end - first;
        r->lanes = 1;
        if (first > 0 && end < plan->step_count && r->count > 2 && r->count <= STEPS_MAX) {
            find_order(r);
            give_lanes(r);
        }
        if (may_branch(l, r)) {
            write_lanes(r, ends);
            keep_buffers(l, r);
        } else {
            write_chain(plan, first, end, ends);
        }
    }
    free(across);
    free(r);
    return failed;
}
