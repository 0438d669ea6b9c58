/* --table: the table of the reports. Both convolutions of ece408, every rung. */
#include "kernels/check/check_conv.h"
#include "kernels/check/check_nhwc.h"

#include <stdio.h>
#include <string.h>

#define COLUMNS_MAX 16
#define KERNELS_MAX (CHECK_KERNELS_MAX + 1) /* and the peer */

struct layer {
    const char *name;
    int c, h, k, r, pool;
    enum convoy_unary_kind act;
};

/* The first two are the reports' "Op Time"; the fused form is what a network runs. */
static const struct layer layers[] = {
    {"layer 1", 1, 72, 12, 7, 1, CONVOY_UNARY_NONE},
    {"layer 2", 12, 33, 24, 7, 1, CONVOY_UNARY_NONE},
    {"1+tanh+pool", 1, 72, 12, 7, 2, CONVOY_UNARY_TANH},
};

static struct check_case layer_case(const struct layer *layer, int n)
{
    struct check_case which = {
        .shape = {.n = n,
                  .c = layer->c,
                  .h = layer->h,
                  .w = layer->h,
                  .k = layer->k,
                  .r = layer->r,
                  .s = layer->r,
                  .groups = 1,
                  .stride = {1, 1},
                  .dilation = {1, 1},
                  .act = {.kind = layer->act},
                  .pool = layer->pool},
    };
    if (!check_complete(&which))
        check_die("a layer of the table is wrong: %s", layer->name);
    return which;
}

/* All that run: ours whose name matches, and the peer last. */
static int choose_kernels(const struct convoy_conv_kernel **chosen, const char *name,
                          const struct convoy_conv_kernel *peer)
{
    int all = 0, count = 0;
    const struct convoy_conv_kernel *const *kernels = check_kernels(&all);
    for (int i = 0; i < all; i++)
        if (check_name_matches(kernels[i], name))
            chosen[count++] = kernels[i];
    if (peer != NULL)
        chosen[count++] = peer;
    return count;
}

int check_table(uint64_t seed, int runs, const int *batches, int batch_count, const char *kernel_name,
                enum convoy_compute_type compute_type, const struct convoy_conv_kernel *peer)
{
    static const struct convoy_conv_kernel *kernels[KERNELS_MAX];
    static struct check_result results[KERNELS_MAX][COLUMNS_MAX];
    static bool ran[KERNELS_MAX][COLUMNS_MAX];
    int kernel_count = choose_kernels(kernels, kernel_name, peer), columns = 0, failures = 0;
    printf("%-24s", "milliseconds");
    for (size_t i = 0; i < sizeof(layers) / sizeof(layers[0]); i++) {
        for (int b = 0; b < batch_count && columns < COLUMNS_MAX; b++, columns++) {
            char heading[64];
            snprintf(heading, sizeof(heading), "%s x%d", layers[i].name, batches[b]);
            printf(" %18s", heading);
            struct check_case which = layer_case(&layers[i], batches[b]);
            which.shape.compute_type = compute_type;
            struct check_problem problem;
            check_problem_make(&problem, &which, seed + (uint64_t)columns);
            for (int j = 0; j < kernel_count; j++) {
                if (!check_takes(kernels[j], &which.shape))
                    continue;
                results[j][columns] = check_run(&problem, kernels[j], runs);
                ran[j][columns] = true;
                failures += check_passed(&results[j][columns]) ? 0 : 1;
            }
            check_problem_free(&problem);
        }
    }
    printf(" %14s\n", "largest error");
    for (int j = 0; j < kernel_count; j++) {
        double worst = 0;
        bool any = false;
        for (int i = 0; i < columns; i++) {
            any |= ran[j][i];
            worst = ran[j][i] && results[j][i].error > worst ? results[j][i].error : worst;
        }
        if (!any)
            continue;
        printf("%-24s", kernels[j]->name);
        for (int i = 0; i < columns; i++) {
            if (ran[j][i])
                printf(" %17.4f%c", results[j][i].us / 1000, check_passed(&results[j][i]) ? ' ' : '!');
            else
                printf(" %17s ", "-");
        }
        printf(" %14.2e\n", worst);
    }
    printf("seed %llu; medians of %d runs by events; %s\n", (unsigned long long)seed, runs,
           failures ? "those with ! are WRONG" : "every answer is right");
    return failures;
}
