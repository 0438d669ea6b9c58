#include "client/stats/layers.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/failure.h"

#define BAR_CELLS  24
#define NAME_CELLS 44

/* Makes the list at the first image. */
static int open_means(struct convoy_layer_means *means, const struct convoy_layer *layers, size_t count,
                      struct convoy_failure *failure)
{
    means->layers = calloc(count ? count : 1, sizeof *means->layers);
    if (!means->layers)
        return convoy_fail_with(failure, -ENOMEM, "memory is out");
    for (size_t i = 0; i < count; i++) {
        means->layers[i].name = strdup(layers[i].name);
        means->layers[i].kernel = strdup(layers[i].kernel);
        means->count++;
        if (!means->layers[i].name || !means->layers[i].kernel)
            return convoy_fail_with(failure, -ENOMEM, "memory is out");
    }
    return 0;
}

int convoy_layer_means_add(struct convoy_layer_means *means, const struct convoy_layer *layers, size_t count,
                           struct convoy_failure *failure)
{
    if (means->images == 0 && !means->layers) {
        int status = open_means(means, layers, count, failure);
        if (status) {
            convoy_layer_means_clear(means);
            return status;
        }
    }
    bool same = count == means->count;
    for (size_t i = 0; same && i < count; i++)
        same = means->layers[i].name && strcmp(layers[i].name, means->layers[i].name) == 0;
    if (!same)
        return convoy_fail_with(failure, -EPROTO,
                                "the layers changed between two images: was the model replaced?");
    means->images++;
    for (size_t i = 0; i < count; i++)
        means->layers[i].us += (layers[i].us - means->layers[i].us) / (double)means->images;
    return 0;
}

void convoy_layer_means_clear(struct convoy_layer_means *means)
{
    for (size_t i = 0; i < means->count; i++) {
        free((char *)means->layers[i].name);
        free((char *)means->layers[i].kernel);
    }
    free(means->layers);
    memset(means, 0, sizeof *means);
}

/* How long "name (kernel)" is; past NAME_CELLS it moves its own bar alone. */
static int cells_of(const struct convoy_layer *layer)
{
    size_t length = strlen(layer->name) + strlen(layer->kernel);
    return length < NAME_CELLS ? (int)length : NAME_CELLS;
}

void convoy_print_layers(const struct convoy_terminal *terminal, const struct convoy_layer *layers,
                         size_t count)
{
    double sum = 0;
    int width = 0;
    for (size_t i = 0; i < count; i++) {
        sum += layers[i].us;
        width = cells_of(&layers[i]) > width ? cells_of(&layers[i]) : width;
    }
    puts("        us  share  layer (kernel)");
    for (size_t i = 0; i < count; i++) {
        double share = sum > 0 ? layers[i].us / sum : 0;
        printf("%10.1f %5.1f%%  ", layers[i].us, share * 100);
        convoy_print_safely(stdout, layers[i].name);
        fputs(" (", stdout);
        convoy_print_safely(stdout, layers[i].kernel);
        putchar(')');
        if (terminal->terminal) /* the bars begin below each other */
            printf("%*s", width - cells_of(&layers[i]) > 0 ? width - cells_of(&layers[i]) : 0, "");
        convoy_print_bar(stdout, terminal, share, BAR_CELLS);
        putchar('\n');
    }
    printf("%10.1f         all layers\n", sum);
}
