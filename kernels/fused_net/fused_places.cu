/* Where a network's tensors, and the weights that arrive beforehand, lie in shared memory. */
#include "kernels/device/launch.cuh"
#include "kernels/fused_net/fused_planner.h"

#include <stdlib.h>

struct item {
    int words, first, last, offset;
    int owner; /* tensor */
};

static int by_size(const void *a, const void *b)
{
    const struct item *one = (const struct item *)a, *other = (const struct item *)b;
    return one->words != other->words ? other->words - one->words : one->owner - other->owner;
}

/* The lowest place for an item beside those placed before it that live at the same time; returns its end. */
static int place(struct item *items, int index)
{
    struct item *item = &items[index];
    item->offset = 0;
    for (int i = 0; i < index; i++) {
        const struct item *other = &items[i];
        bool together = item->first <= other->last && other->first <= item->last;
        if (together && item->offset < other->offset + other->words &&
            other->offset < item->offset + item->words) {
            item->offset = other->offset + other->words;
            i = -1; /* from the beginning, with the new place */
        }
    }
    return item->offset + item->words;
}

int fused_place_tensors(struct fused_planner *p)
{
    struct item items[CONVOY_FUSED_LAYERS + 1];
    int of[CONVOY_FUSED_LAYERS + 1], count = 0, end = 0;
    for (int i = 0; i <= p->shape->count; i++) {
        struct fused_tensor *t = &p->tensors[i];
        const struct convoy_fused_layer *layer = i > 0 ? &p->shape->layers[i - 1] : NULL;
        struct fused_tensor *around =
            layer != NULL && layer->residual >= 0 ? &p->tensors[layer->residual + 1] : NULL;
        of[i] = -1;
        if (!t->kept)
            continue;
        /* The sum takes the place of its other side, which no other layer reads any more. */
        if (around != NULL && around->last == i - 1 && layer->input != layer->residual) {
            of[i] = of[layer->residual + 1];
            items[of[i]].last = t->last;
            t->copy_of = p->tensors[layer->residual + 1].copy_of;
            continue;
        }
        of[i] = count;
        items[count++] =
            (struct item){(int)convoy_div_up(t->planes * t->plane, 32) * 32, t->first, t->last, 0, i};
    }
    qsort(items, (size_t)count, sizeof items[0], by_size);
    for (int i = 0; i < count; i++) {
        end = fused_at_least(end, place(items, i));
        p->tensors[items[i].owner].offset = items[i].offset;
    }
    for (int i = 0; i <= p->shape->count; i++)
        p->tensors[i].offset = p->tensors[p->tensors[i].copy_of].offset;
    return end;
}

/* The weights of a layer come while the one before it runs; those of the first come once, for all images.
 * Returns the end. */
int fused_place_staged(struct fused_planner *p, int begin)
{
    struct item items[CONVOY_FUSED_LAYERS];
    int end = 0, count = p->shape->count;
    for (int i = 0; i < count; i++) {
        items[i] = (struct item){p->staged_words[i], i - 1, i, 0, i};
        if (i == 0)
            items[i].last = count;
        end = fused_at_least(end, place(items, i));
        if (begin + end > FUSED_SHARED_WORDS)
            return begin + end;
        struct fused_step *step = &p->plan->steps[i];
        step->staged = (uint16_t)(begin + items[i].offset);
        step->staged_bias = (uint16_t)(step->staged + p->staged_weights[i]);
        step->staged_rows = (uint16_t)(step->staged_bias +
                                       convoy_div_up(step->n_tiles, fused_at_least(step->map_parts, 1)) * 8);
    }
    return begin + end;
}

static bool overlap(const struct fused_tensor *a, const struct fused_tensor *b)
{
    return a->offset < b->offset + b->planes * b->plane && b->offset < a->offset + a->planes * a->plane;
}

static bool same_place(const struct fused_tensor *a, const struct fused_tensor *b)
{
    return a->offset == b->offset && a->plane == b->plane && a->planes == b->planes && a->width == b->width &&
           a->h == b->h && a->w == b->w && a->top == b->top && a->left == b->left;
}

/* Padding stays zero as long as only tensors of one shape lie where it is; not behind images, whose cells
 * hold the pixels beside a place too, so that those of the padding hold pixels. Two rounds, because images
 * follow each other; all is zero in the beginning. */
void fused_find_clears(struct fused_planner *p)
{
    const struct fused_tensor *clean[2 * CONVOY_FUSED_LAYERS + 2], *written[CONVOY_FUSED_LAYERS + 1];
    int clean_count = 0, written_count = 0;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < p->shape->count; i++) {
            const struct fused_tensor *t = &p->tensors[i];
            bool is_clean = false, touched = false;
            for (int k = 0; k < clean_count; k++)
                is_clean = is_clean || (clean[k] != &p->tensors[0] && same_place(clean[k], t));
            for (int k = 0; k < written_count; k++)
                touched = touched || overlap(written[k], t);
            bool padded = t->top + t->left + t->bottom + t->right > 0;
            if (!is_clean && touched && padded && i > 0) /* the images come with their padding */
                p->plan->steps[i - 1].clear = true;
            int kept = 0;
            for (int k = 0; k < clean_count; k++)
                if (!overlap(clean[k], t))
                    clean[kept++] = clean[k];
            clean[kept++] = t;
            clean_count = kept;
            if (round == 0)
                written[written_count++] = t;
        }
}
