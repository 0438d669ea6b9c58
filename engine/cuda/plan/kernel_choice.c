#include "engine/cuda/plan/kernel_choice.h"

#include "engine/base/hash.h"
#include "kernels/bottleneck.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void convoy_cuda_conv_key(const struct convoy_conv_shape *s, struct convoy_cuda_key *key)
{
    char excited[40] = "";
    if (s->nhwc.input == CONVOY_NHWC_EXCITED)
        snprintf(excited, sizeof(excited), " excited %d of %d", s->nhwc.excitation.squeezed,
                 s->nhwc.excitation.patches);
    snprintf(key->text, sizeof(key->text),
             "conv n%d x%dx%dx%d w%dx%dx%d g%d s%d,%d d%d,%d p%d,%d y%dx%d b%d r%d a%d m%d u%d f%d%s%s%s",
             s->n, s->c, s->h, s->w, s->k, s->r, s->s, s->groups, s->stride[0], s->stride[1], s->dilation[0],
             s->dilation[1], s->pad[0], s->pad[1], s->oh, s->ow, s->bias, s->residual, (int)s->act.kind,
             s->pool, s->u8, (int)s->compute_type,
             !s->nhwc.on                               ? ""
             : s->nhwc.window > 0                      ? " nhwc window"
             : s->nhwc.pool.oh > 0                     ? " nhwc images pool"
             : s->nhwc.images                          ? " nhwc images"
             : s->nhwc.input == CONVOY_NHWC_GATED      ? " nhwc gated"
             : s->nhwc.input == CONVOY_NHWC_NORMALIZED ? " nhwc normalized"
             : excited[0] != '\0'                      ? " nhwc"
             : s->nhwc.input != CONVOY_NHWC_AS_IS      ? " nhwc scaled"
                                                       : " nhwc",
             excited, s->nhwc.on && s->nhwc.moments ? " moments" : "");
}

void convoy_cuda_gemm_key(const struct convoy_gemm_shape *s, struct convoy_cuda_key *key)
{
    snprintf(key->text, sizeof(key->text), "gemm %ldx%ldx%ld x%d t%d b%d a%d f%d", (long)s->m, (long)s->n,
             (long)s->k, s->batch, s->b_transposed, s->bias, (int)s->act.kind, (int)s->compute_type);
}

#define ESTIMATES 256 /* layers of a few networks; of two with the same place the older one is lost */

struct convoy_cuda_estimate {
    struct convoy_cuda_key key;
    const struct convoy_conv_kernel *kernel;
};

void convoy_cuda_kernel_choices_remember(struct convoy_cuda_kernel_choices *choices)
{
    choices->estimates = calloc(ESTIMATES, sizeof(*choices->estimates));
}

/* Returns the entry for the estimated kernel of key, or NULL if estimates are not remembered. */
static struct convoy_cuda_estimate *estimate_of(const struct convoy_cuda_kernel_choices *choices,
                                                const struct convoy_cuda_key *key)
{
    uint64_t hash = convoy_hash(0, key->text, strlen(key->text));
    return choices->estimates != NULL ? &choices->estimates[hash % ESTIMATES] : NULL;
}

/* Returns the index of key, or ~(the index at which it would be inserted). */
static int find(const struct convoy_cuda_kernel_choices *choices, const struct convoy_cuda_key *key)
{
    int low = 0, high = choices->count;
    while (low < high) {
        int middle = (low + high) / 2;
        int order = strcmp(choices->choices[middle].key.text, key->text);
        if (order == 0)
            return middle;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return ~low;
}

/* Returns the static text of a kernel's name; NULL if there is no such kernel. */
static const char *own_name(const char *name)
{
    int count;
    const struct convoy_conv_kernel *const *convs = convoy_conv_kernels(&count);
    for (int i = 0; i < count; i++)
        if (strcmp(convs[i]->name, name) == 0)
            return convs[i]->name;
    const struct convoy_gemm_kernel *const *gemms = convoy_gemm_kernels(&count);
    for (int i = 0; i < count; i++)
        if (strcmp(gemms[i]->name, name) == 0)
            return gemms[i]->name;
    const struct convoy_fused_kernel *const *fused = convoy_fused_kernels(&count);
    for (int i = 0; i < count; i++)
        if (strcmp(fused[i]->name, name) == 0)
            return fused[i]->name;
    const struct convoy_bottleneck_kernel *const *bottlenecks = convoy_bottleneck_kernels(&count);
    for (int i = 0; i < count; i++)
        if (strcmp(bottlenecks[i]->name, name) == 0)
            return bottlenecks[i]->name;
    if (strcmp(name, CONVOY_CUDA_BRANCHES) == 0)
        return CONVOY_CUDA_BRANCHES;
    return strcmp(name, CONVOY_CUDA_LAYERS) == 0 ? CONVOY_CUDA_LAYERS : NULL;
}

int convoy_cuda_kernel_choices_set(struct convoy_cuda_kernel_choices *choices,
                                   const struct convoy_cuda_key *key, const char *kernel, float us)
{
    const char *name = own_name(kernel);
    int at = find(choices, key);
    if (name == NULL)
        return 0;
    if (at < 0) {
        if (choices->count == choices->capacity) {
            int capacity = choices->capacity > 0 ? choices->capacity * 2 : 64;
            struct convoy_cuda_kernel_choice *grown =
                realloc(choices->choices, (size_t)capacity * sizeof(*grown));
            if (grown == NULL)
                return -ENOMEM;
            choices->choices = grown;
            choices->capacity = capacity;
        }
        at = ~at;
        memmove(&choices->choices[at + 1], &choices->choices[at],
                (size_t)(choices->count - at) * sizeof(choices->choices[0]));
        choices->choices[at].key = *key;
        choices->count++;
    }
    choices->choices[at].kernel = name;
    choices->choices[at].us = us;
    return 0;
}

const char *convoy_cuda_kernel_choices_get(const struct convoy_cuda_kernel_choices *choices,
                                           const struct convoy_cuda_key *key)
{
    if (choices->wish != NULL && strcmp(choices->wish->key.text, key->text) == 0)
        return choices->wish->kernel;
    int at = find(choices, key);
    return at >= 0 ? choices->choices[at].kernel : NULL;
}

void convoy_cuda_kernel_choices_free(struct convoy_cuda_kernel_choices *choices)
{
    free(choices->choices);
    free(choices->estimates);
    memset(choices, 0, sizeof(*choices));
}

const struct convoy_conv_kernel *convoy_cuda_choose_conv(const struct convoy_cuda_kernel_choices *choices,
                                                         const struct convoy_conv_shape *shape)
{
    int count;
    const struct convoy_conv_kernel *const *kernels = convoy_conv_kernels(&count);
    const struct convoy_conv_kernel *best = NULL;
    struct convoy_cuda_key key;
    float best_us = 0;
    convoy_cuda_conv_key(shape, &key);
    const char *known = convoy_cuda_kernel_choices_get(choices, &key);
    struct convoy_cuda_estimate *estimate = known == NULL ? estimate_of(choices, &key) : NULL;
    /* takes() is asked again: it may depend on the parameters of the activation, which are not in the key. */
    if (estimate != NULL && strcmp(estimate->key.text, key.text) == 0 &&
        convoy_conv_takes(estimate->kernel, shape))
        return estimate->kernel;
    for (int i = 0; i < count; i++) {
        if (!convoy_conv_takes(kernels[i], shape))
            continue;
        if (known != NULL && strcmp(known, kernels[i]->name) == 0)
            return kernels[i];
        float us = kernels[i]->estimate_us(shape);
        if (best == NULL || us < best_us) {
            best = kernels[i];
            best_us = us;
        }
    }
    if (estimate != NULL && best != NULL)
        *estimate = (struct convoy_cuda_estimate){key, best};
    return best;
}

const struct convoy_gemm_kernel *convoy_cuda_choose_gemm(const struct convoy_cuda_kernel_choices *choices,
                                                         const struct convoy_gemm_shape *shape)
{
    int count;
    const struct convoy_gemm_kernel *const *kernels = convoy_gemm_kernels(&count);
    const struct convoy_gemm_kernel *best = NULL;
    struct convoy_cuda_key key;
    float best_us = 0;
    convoy_cuda_gemm_key(shape, &key);
    const char *known = convoy_cuda_kernel_choices_get(choices, &key);
    for (int i = 0; i < count; i++) {
        if (!kernels[i]->takes(shape))
            continue;
        if (known != NULL && strcmp(known, kernels[i]->name) == 0)
            return kernels[i];
        float us = kernels[i]->estimate_us(shape);
        if (best == NULL || us < best_us) {
            best = kernels[i];
            best_us = us;
        }
    }
    return best;
}

bool convoy_cuda_chose_layers(const struct convoy_cuda_kernel_choices *choices,
                              const struct convoy_conv_shape *shape)
{
    struct convoy_cuda_key key;
    convoy_cuda_conv_key(shape, &key);
    const char *known = convoy_cuda_kernel_choices_get(choices, &key);
    return known != NULL && strcmp(known, CONVOY_CUDA_LAYERS) == 0;
}

bool convoy_cuda_knows_conv(const struct convoy_cuda_kernel_choices *choices,
                            const struct convoy_conv_shape *shape)
{
    struct convoy_cuda_key key;
    const struct convoy_conv_kernel *kernel = convoy_cuda_choose_conv(choices, shape);
    convoy_cuda_conv_key(shape, &key);
    const char *known = convoy_cuda_kernel_choices_get(choices, &key);
    return kernel != NULL && known != NULL &&
           (strcmp(known, kernel->name) == 0 || strcmp(known, CONVOY_CUDA_LAYERS) == 0);
}

bool convoy_cuda_knows_gemm(const struct convoy_cuda_kernel_choices *choices,
                            const struct convoy_gemm_shape *shape)
{
    struct convoy_cuda_key key;
    const struct convoy_gemm_kernel *kernel = convoy_cuda_choose_gemm(choices, shape);
    convoy_cuda_gemm_key(shape, &key);
    const char *known = convoy_cuda_kernel_choices_get(choices, &key);
    return kernel != NULL && known != NULL && strcmp(known, kernel->name) == 0;
}
